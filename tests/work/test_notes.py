"""NOTES.md: short and present, whoever writes; what is over goes to the archive, and nothing is lost."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from corpus import SECRETS
from memsheaf import Settings, Sheaf
from memsheaf.errors import BadHeader, MemsheafError, SecretFound, TextRefused
from memsheaf.work.notes import (
    ARCHIVE_FILE,
    BLOCKERS,
    OBJECTIVE,
    PENDING,
    PHASE,
    REVIEW_MARK,
    Pruned,
    archive,
    archive_notes,
    noted_under,
    problems,
    prune,
    read_notes,
    set_notes,
)

CLOCK = 1_794_744_000.0  # 2026-11-15
TODAY = "2026-11-15"
GOOD = """# Notes

## Active objective
Ship the importer

## Phase
2 of 6: the parser

## Blockers and risks
- 2026-11-01: The vendor has not sent the key

## Pending
- 2026-11-10: Which queue do we take?
"""


@pytest.fixture
def sheaf(settings: Settings, tmp_path: Path) -> Iterator[Sheaf]:
    with Sheaf.open("project", settings=settings, cwd=str(tmp_path), clock=lambda: CLOCK) as sheaf:
        yield sheaf


def write(sheaf: Sheaf, text: str, name: str = "NOTES.md") -> None:
    """Write a file as a person does, in an editor."""
    root = Path(sheaf.root)
    root.mkdir(parents=True, exist_ok=True)
    (root / name).write_bytes(text.encode())


def rules(text: str) -> list[tuple[int, str]]:
    return [(one.line, one.rule) for one in problems(text, TODAY)]


def moved(pruned: Pruned) -> list[tuple[str, str]]:
    return [(entry.heading, entry.text) for entry in pruned.moved]


# reading


def test_what_notes_say_is_read_under_its_heading() -> None:
    assert noted_under(GOOD, OBJECTIVE) == ["Ship the importer"]
    assert noted_under(GOOD, PHASE) == ["2 of 6: the parser"]
    assert noted_under(GOOD, PENDING) == ["2026-11-10: Which queue do we take?"]
    over = "## Blockers & risks\n- one DONE 2026-11-01\n* two\n  in two lines\n1. three SUPERSEDED\n- DEFERRED four\n"
    assert noted_under(over, BLOCKERS) == ["two\nin two lines"]
    for heading in ("Blockers", "Risks", "BLOCKERS AND RISKS", "Blockers & Risks"):
        assert noted_under(f"### {heading}\r\n- a key\r\n", BLOCKERS) == ["a key"]


# judging


def test_each_rule_tells_its_line() -> None:
    cases: list[tuple[str, list[tuple[int, str]]]] = [
        ("", []),
        (GOOD, []),
        ("# Notes\n" + "word\n" * 19, []),
        ("# Notes\n" + "word\n" * 20, [(0, "length")]),
        ("# Notes\n" + "word\n" * 19 + "\n\n\n", []),
        ("## Phase\nIteration 3\n", [(2, "history")]),
        ("## Phase\nthe VERDICTS are in\n", [(2, "history")]),
        ("## Phase\nreiterations\n", []),
        ("## Phase\nphase-3-review\n", [(2, "history")]),
        ("## Phase\nphase 3, and a 3-phase plan\n", []),
        ("## A\n- 1\n- 2\n- 3\n## B\n- 4\n", []),
        ("## A\n- 1\n- 2\n- 3\n\n- 4\n  - 5\n", [(6, "bullets"), (7, "bullets")]),
        ("## A\n1. 1\n2. 2\n3) 3\n4. 4\n", [(5, "bullets")]),
        ("## A\n```\n# no heading\n```\n~~~py\nx\n~~~\n", [(2, "code"), (5, "code")]),
        ("## Pending\n- one\n- two\n- three\n", [(3, "pending"), (4, "pending")]),
        ("## Pending\n- one\n## pending\nand another\n", [(4, "pending")]),
        ("## A\n- 2026-10-31: DONE it\n", [(2, "stale")]),
        ("## A\n- 2026-11-01: DONE it\n", []),
        ("## A\n- 2026-01-01: DONE 2026-11-10\n", []),
        ("## A\n- 2026-01-01: DEFERRED until 2026-12-24\n", []),
        ("## A\n- SUPERSEDED\n", [(2, "ambiguous")]),
        ("## A\n- DONE on 2026-13-45\n", [(2, "ambiguous")]),
        ("## A\n- 完成DONE了\n", [(2, "ambiguous")]),
        ("## A\n- it is done, abandoned and UNDONE\n", []),
    ]
    for text, expected in cases:
        assert rules(text) == expected, text
        assert rules(text.replace("\n", "\r\n")) == expected, text


# pruning

FULL = """Written by hand.

# Notes

An introduction.

## Active objective

Ship the importer

## Blockers and risks
- 2026-10-01: the licence, DONE 2026-10-02
  which took long
- 2026-11-01: the vendor's key
- the proxy, DEFERRED

```sh
make
```
- 2026-11-14: DONE lately

## Pending
- first
- second

## History
- did this
- did that
"""


def test_what_is_active_stays_and_all_else_is_moved() -> None:
    done = prune(FULL, TODAY)

    assert done.text == (
        "# Notes\n\n## Active objective\n\nShip the importer\n\n## Blockers and risks\n"
        f"- 2026-11-01: the vendor's key\n- the proxy, DEFERRED {REVIEW_MARK}\n\n- 2026-11-14: DONE lately\n\n"
        "## Pending\n- first\n"
    )
    assert moved(done) == [
        ("", "Written by hand."),
        ("Notes", "An introduction."),
        ("Blockers and risks", "2026-10-01: the licence, DONE 2026-10-02\nwhich took long"),
        ("Blockers and risks", "```sh\nmake\n```"),
        ("Pending", "second"),
        ("History", "did this"),
        ("History", "did that"),
    ]
    assert done.review == ["the proxy, DEFERRED"]


PIECES = [
    "# Notes", "## Active objective", "## Phase", "## Blockers", "### Pending", "## Log", "#", "", "", "words", "- a",
    "- DONE", "- 2026-10-01: DONE", "- DEFERRED 2026-11-14", "  more", "\tDONE", "* b", "1. c", "```", "~~~", "---",
    "SUPERSEDED 2026-02-30", f"- DONE {REVIEW_MARK}", "- 完成 DONE", "> DONE", "\ufeff", "-", "- ", "    code DONE",
    "## ",
]  # fmt: skip


def test_pruning_twice_is_pruning_once_and_no_line_is_lost() -> None:
    chance = random.Random(5)
    for _ in range(2000 if os.environ.get("MEMSHEAF_LONG") else 300):
        end = chance.choice(["\n", "\r\n"])
        lines = chance.choices(PIECES, k=chance.randrange(30))
        text = end.join(lines) + chance.choice(["", end])
        if text.startswith("---"):
            continue  # that is a header

        done = prune(text, TODAY)

        assert prune(done.text, TODAY)[:2] == (done.text, []), text
        left = done.text + archive("", TODAY, done.moved)
        assert all(word in left for line in lines for word in re.findall(r"\w\w+", line) if "#" not in line), text
        assert not {"stale", "pending"} & {one.rule for one in problems(done.text, TODAY)}, text


# changing


def test_lines_are_set_and_blockers_are_added_with_their_day(sheaf: Sheaf) -> None:
    set_notes(sheaf, {OBJECTIVE: "Ship it", PHASE: "1", BLOCKERS: "the demo is tomorrow"})
    text, commit = set_notes(sheaf, {PHASE: "2", BLOCKERS: "No key", PENDING: "Which queue?"})

    assert text == (
        "# Notes\n\n## Active objective\nShip it\n\n## Phase\n2\n\n## Blockers and risks\n"
        "- 2026-11-15: the demo is tomorrow (2026-11-16)\n- 2026-11-15: No key\n\n## Pending\nWhich queue?\n"
    )
    assert read_notes(sheaf) == text
    assert next(iter(sheaf.log())).id == commit
    assert set_notes(sheaf, {PHASE: "2"})[1] == ""


def test_pruning_moves_to_the_archive_in_one_commit(sheaf: Sheaf) -> None:
    over = GOOD.replace("2026-11-01: The vendor has not sent the key", "2026-10-31: The key is there, DONE")
    write(sheaf, over)
    list(sheaf.log())

    pruned, commit = archive_notes(sheaf)

    assert [entry.text for entry in pruned.moved] == ["2026-10-31: The key is there, DONE"]
    assert "key" not in read_notes(sheaf)
    assert sheaf.read(ARCHIVE_FILE).text.endswith(f"- Blockers and risks: {pruned.moved[0].text}\n")
    sheaf.undo(commit)
    assert read_notes(sheaf) == over
    assert ARCHIVE_FILE not in [row.path for row in sheaf.list()]


def test_a_machine_cannot_pollute_the_notes(sheaf: Sheaf) -> None:
    for text, word in (
        ("iteration 3 passed", "history"),
        ("the verdict is in", "history"),
        ("see phase-3-report", "history"),
        ("two\nlines", "line break"),
        ("hid\u202eden", "invisible"),
        ("\x1b[31m", "control"),
        ("half \ud800", "invisible"),
    ):
        for title in (BLOCKERS, PENDING):
            with pytest.raises(TextRefused, match=word) as caught:
                set_notes(sheaf, {title: text})
            assert caught.value.hint
    assert sheaf.list() == []


def test_notes_that_are_not_understood_are_not_rewritten(sheaf: Sheaf) -> None:
    set_notes(sheaf, {BLOCKERS: "No key"})
    (Path(sheaf.root) / "NOTES.md").write_bytes(b"# Notes\n\xff\xfe\n")

    for change in (lambda: set_notes(sheaf, {PHASE: "x"}), lambda: archive_notes(sheaf)):
        with pytest.raises(BadHeader):
            change()
    assert (Path(sheaf.root) / "NOTES.md").read_bytes() == b"# Notes\n\xff\xfe\n"


def test_no_secret_gets_into_the_notes(sheaf: Sheaf, tmp_path: Path) -> None:
    for number, (text, value) in enumerate(SECRETS):
        with pytest.raises(MemsheafError) as caught:
            set_notes(sheaf, {(OBJECTIVE, PHASE, BLOCKERS, PENDING)[number % 4]: text})
        assert value not in f"{caught.value} {caught.value.hint}"
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert [value for _, value in SECRETS if value.encode() in stored] == []


def test_a_secret_that_a_person_wrote_is_not_copied_to_the_archive(sheaf: Sheaf) -> None:
    write(sheaf, "## Log\nThe password is Corr3ct-H0rse-Fake\n")

    with pytest.raises(SecretFound):
        archive_notes(sheaf)
    assert not (Path(sheaf.root) / ARCHIVE_FILE).exists()
