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
from memsheaf.errors import BadHeader, Exists, MemsheafError, Refused, SecretFound, TextRefused
from memsheaf.work.notes import (
    ARCHIVE,
    BLOCKERS,
    MAX_ENTRY_BYTES,
    OBJECTIVE,
    PENDING,
    PHASE,
    REVIEW,
    Notes,
    Pruned,
    archive,
    noted_under,
    problems,
    prune,
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


@pytest.fixture
def notes(sheaf: Sheaf) -> Notes:
    return Notes(sheaf)


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


def test_every_problem_says_what_to_do() -> None:
    text = "## Pending\n- DONE\n- verdict\n- x 2026-01-01 DONE\n- y\n```\n" + "z\n" * 20

    found = problems(text, TODAY)

    assert {one.rule for one in found} == {"length", "history", "bullets", "code", "pending", "stale", "ambiguous"}
    assert all(one.what and one.advice for one in found)


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
        f"- 2026-11-01: the vendor's key\n- the proxy, DEFERRED {REVIEW}\n\n- 2026-11-14: DONE lately\n\n"
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


def test_good_notes_are_left_byte_for_byte() -> None:
    for text in (GOOD, GOOD.replace("\n", "\r\n"), GOOD.rstrip(), "", "\ufeff" + GOOD, "# Notes\n\n\n## Phase\n1\n"):
        assert prune(text, TODAY) == (text, [], [])


PIECES = [
    "# Notes", "## Active objective", "## Phase", "## Blockers", "### Pending", "## Log", "#", "", "", "words", "- a",
    "- DONE", "- 2026-10-01: DONE", "- DEFERRED 2026-11-14", "  more", "\tDONE", "* b", "1. c", "```", "~~~", "---",
    "SUPERSEDED 2026-02-30", f"- DONE {REVIEW}", "- 完成 DONE", "> DONE", "\ufeff", "-", "- ", "    code DONE", "## ",
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


def test_what_is_left_of_odd_notes() -> None:
    header = "---\nname: Notes\n---\n"
    done = prune(f"{header}# Notes\nwords\n", TODAY)
    assert (done.text, moved(done)) == (f"{header}# Notes\n", [("Notes", "words")])
    assert prune("words\n\n## Log\n- x\n", TODAY).text == "# Notes\n"
    assert prune("# Notes\n" + "\n" * 20 + "## Phase\n1\n", TODAY) == ("# Notes\n\n## Phase\n1\n", [], [])


def test_the_archive_grows_at_its_end_under_one_heading_a_day() -> None:
    text = archive("", "2026-11-14", prune("## Log\none\n", TODAY).moved)
    text = archive(text, TODAY, prune("five\n", TODAY).moved)
    text = archive(text, TODAY, prune("## Log\n- three\n  - four\n", TODAY).moved)

    assert text == (
        "# Notes, archived\n\n## 2026-11-14\n- Log: one\n\n## 2026-11-15\n- five\n- Log\n  three\n  - four\n"
    )


def test_code_in_the_archive_hides_no_later_day() -> None:
    text = archive("", "2026-11-14", prune("## Log\n```sh\nmake\n", TODAY).moved)
    text = archive(text, TODAY, prune("five\n", TODAY).moved)

    assert text == ("# Notes, archived\n\n## 2026-11-14\n- Log\n  ```sh\n  make\n  ```\n\n## 2026-11-15\n- five\n")
    assert archive(text, TODAY, prune("six\n", TODAY).moved) == f"{text}- six\n"


# changing


def test_notes_begin_with_what_is_said(notes: Notes) -> None:
    assert notes.text == ""
    notes.set(phase="1 of 2", objective="Ship it")
    notes.block("No key")
    notes.pend("Which queue?")

    assert notes.text == (
        "# Notes\n\n## Active objective\nShip it\n\n## Phase\n1 of 2\n\n"
        "## Blockers and risks\n- 2026-11-15: No key\n\n## Pending\n- 2026-11-15: Which queue?\n"
    )
    assert problems(notes.text, TODAY) == []


def test_a_new_objective_takes_the_place_of_the_old_one_and_touches_nothing_else(sheaf: Sheaf, notes: Notes) -> None:
    text = GOOD.replace("\n", "\r\n")
    write(sheaf, text)

    assert notes.set(objective="Ship the exporter") == text.replace("importer", "exporter")
    assert notes.set(phase="3 of 6") == text.replace("importer", "exporter").replace("2 of 6: the parser", "3 of 6")


def test_an_entry_has_one_day_in_front_and_relative_days_get_theirs(notes: Notes) -> None:
    notes.block("2026-11-01: the key")
    assert notes.block("the demo is tomorrow").endswith(
        "- 2026-11-01: the key\n- 2026-11-15: the demo is tomorrow (2026-11-16)\n"
    )


def test_to_say_the_same_again_changes_nothing(sheaf: Sheaf, notes: Notes) -> None:
    notes.set(objective="Ship it")
    notes.block("No key")
    before = len(list(sheaf.log()))

    notes.set(objective="Ship it")
    notes.block("no key!")
    notes.set()

    assert len(list(sheaf.log())) == before


def test_what_is_done_moves_to_the_archive_in_one_commit(sheaf: Sheaf, notes: Notes) -> None:
    write(sheaf, GOOD)
    list(sheaf.log())

    for which in ("1", "2026-11-01: The vendor has not sent the key", "VENDOR", "has not sent the key"):
        assert notes.finish(which) == "2026-11-01: The vendor has not sent the key"
        assert notes.text == GOOD.replace("- 2026-11-01: The vendor has not sent the key\n", "")
        assert sheaf.read(ARCHIVE).text.endswith(
            "- Blockers and risks: 2026-11-01: The vendor has not sent the key (DONE 2026-11-15)\n"
        )
        sheaf.undo()
        assert notes.text == GOOD
        assert ARCHIVE not in [row.path for row in sheaf.list()]
    assert notes.finish("2") == "2026-11-10: Which queue do we take?"
    assert notes.finish("objective") == "Ship the importer"
    assert notes.finish("2 of 6") == "2 of 6: the parser"
    assert "- Active objective: Ship the importer (DONE 2026-11-15)\n" in sheaf.read(ARCHIVE).text


def test_what_is_not_there_or_could_be_several_is_refused_with_what_there_is(sheaf: Sheaf, notes: Notes) -> None:
    write(sheaf, GOOD)

    for which in ("0", "5", "-1", "zebra", "", "?!", "e"):
        with pytest.raises(Refused) as caught:
            notes.finish(which)
        assert "1 2026-11-01: The vendor" in caught.value.hint
    assert notes.text == GOOD


def test_a_machine_cannot_pollute_the_notes(sheaf: Sheaf, notes: Notes) -> None:
    for text, word in (
        ("iteration 3 passed", "history"),
        ("the verdict is in", "history"),
        ("see phase-3-report", "history"),
        ("", "0 bytes"),
        (" \n ", "0 bytes"),
        ("x" * (MAX_ENTRY_BYTES + 1), "300"),
        ("好" * 101, "300"),
        ("two\nlines", "line break"),
        ("hid\u202eden", "invisible"),
        ("\x1b[31m", "control"),
        ("half \ud800", "invisible"),
    ):
        for change in (notes.block, notes.pend):
            with pytest.raises(TextRefused, match=word) as caught:
                change(text)
            assert caught.value.hint
            assert "header" not in caught.value.hint
    assert sheaf.list() == []


def test_an_objective_is_any_line_that_does_not_break_the_layout(sheaf: Sheaf, notes: Notes) -> None:
    for objective in ("# Title", "## Phase", "- a bullet", "```", "1. first", "iteration 2", "\u200b"):
        with pytest.raises(TextRefused):
            notes.set(objective=objective)
    assert sheaf.list() == []
    for objective in ("中文目标", "הדגמה", "🚀 ship", "<!-- x -->", "*emphasis*", "a | b", "---", "> q"):
        notes.set(objective=objective)
        assert noted_under(notes.text, OBJECTIVE) == [objective]


def test_the_fourth_blocker_and_the_second_pending_are_refused(notes: Notes) -> None:
    for text in ("a", "b", "c"):
        notes.block(text)
    notes.pend("d")
    before = notes.text

    for change in (notes.block, notes.pend):
        with pytest.raises(TextRefused, match="more than") as caught:
            change("e")
        assert "notes done" in caught.value.hint
    assert notes.text == before


def test_notes_that_a_person_let_grow_can_be_made_shorter_but_not_longer(sheaf: Sheaf, notes: Notes) -> None:
    grown = GOOD + "\n## Log\n- iteration 1\n- 2\n- 3\n- 4\n- 5\n- 6\n- 7\n"
    write(sheaf, grown)

    with pytest.raises(TextRefused, match="lines"):
        notes.block("one more")
    notes.set(objective="Ship the exporter")
    notes.finish("1")
    notes.prune(apply=True)

    assert problems(notes.text, TODAY) == []
    assert "iteration 1" in sheaf.read(ARCHIVE).text
    notes.block("one more")


def test_pruning_is_shown_first_and_done_once(sheaf: Sheaf, notes: Notes) -> None:
    write(sheaf, FULL)
    list(sheaf.log())

    planned = notes.prune()
    assert notes.text == FULL
    assert notes.prune(apply=True) == planned
    assert notes.text == planned.text
    for one in planned.moved:
        assert one.text.split("\n")[0] in sheaf.read(ARCHIVE).text
    commits = [commit.why for commit in sheaf.log()]
    assert commits[0] == "notes: prune"

    assert notes.prune(apply=True).moved == []
    assert [commit.why for commit in sheaf.log()] == commits
    sheaf.undo()
    assert notes.text == FULL


def test_notes_that_are_not_understood_are_not_rewritten(sheaf: Sheaf, notes: Notes) -> None:
    notes.block("No key")
    (Path(sheaf.root) / "NOTES.md").write_bytes(b"# Notes\n\xff\xfe\n")

    for change in (lambda: notes.block("x"), lambda: notes.set(phase="x"), lambda: notes.prune(apply=True)):
        with pytest.raises(BadHeader):
            change()
    assert (Path(sheaf.root) / "NOTES.md").read_bytes() == b"# Notes\n\xff\xfe\n"


def test_notes_under_a_name_in_small_letters_are_named_and_left_alone(sheaf: Sheaf, notes: Notes) -> None:
    write(sheaf, GOOD, "notes.md")

    with pytest.raises(Exists, match=r"notes\.md"):
        notes.set(phase="1")
    assert [row.path for row in sheaf.list()] == ["notes.md"]


def test_a_block_of_code_that_does_not_end_takes_no_heading_in(sheaf: Sheaf, notes: Notes) -> None:
    write(sheaf, "# Notes\n```\nx\n")

    with pytest.raises(TextRefused, match="would not be told from the rest"):
        notes.set(phase="1")
    notes.prune(apply=True)
    notes.set(phase="1")
    assert noted_under(notes.text, PHASE) == ["1"]


def test_no_secret_gets_into_the_notes(notes: Notes, tmp_path: Path) -> None:
    for number, (text, value) in enumerate(SECRETS):
        changes = (
            notes.block,
            notes.pend,
            lambda line: notes.set(objective=line),
            lambda line: notes.set(phase=line),
        )
        with pytest.raises(MemsheafError) as caught:
            changes[number % 4](text)
        assert value not in f"{caught.value} {caught.value.hint}"
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert [value for _, value in SECRETS if value.encode() in stored] == []


def test_a_secret_that_a_person_wrote_is_not_copied_to_the_archive(sheaf: Sheaf, notes: Notes) -> None:
    write(sheaf, "## Log\nThe password is Corr3ct-H0rse-Fake\n")

    with pytest.raises(SecretFound):
        notes.prune(apply=True)
    assert not (Path(sheaf.root) / ARCHIVE).exists()
