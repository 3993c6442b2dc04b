from __future__ import annotations

import json
import os
import random
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memsheaf.config import Settings
from memsheaf.errors import MemsheafError
from memsheaf.index.catalog import (
    EMPTY_CATALOG,
    MAX_BYTES,
    MAX_LINE_CHARS,
    MAX_LINES,
    SECTIONS,
    Line,
    lay_out,
    line_text,
)
from memsheaf.memory import parse
from memsheaf.sheaf import Sheaf
from memsheaf.state.trust import accept

CORPUS = Path(__file__).parents[1] / "corpora" / "injection.json"
with CORPUS.open(encoding="utf-8") as file:
    INJECTIONS: list[dict[str, Any]] = json.load(file)["cases"]


@pytest.fixture
def later(settings: Settings) -> Iterator[Sheaf]:
    """A sheaf whose clock stands still a little in the future: no file is too new to trust."""
    now = time.time() + 60
    with Sheaf.open("user", settings=settings, clock=lambda: now) as sheaf:
        yield sheaf


def write(sheaf: Sheaf, path: str, name: str, description: str = "d", kind: str = "user", more: str = "") -> str:
    """Write a memory as another program would, and say where."""
    place = os.path.join(sheaf.root, path)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with open(place, "w", encoding="utf-8") as file:
        file.write(f"---\nname: {name}\ndescription: {description}\ntype: {kind}\n{more}---\nbody\n")
    return place


def published(sheaf: Sheaf) -> str:
    return Path(sheaf.root, "MEMORY.md").read_text(encoding="utf-8")


def rendered_anew(sheaf: Sheaf) -> str:
    """The catalog as an index says that has never seen this folder."""
    nowhere = os.path.join(__file__, "cache")  # so it is kept in memory, and gone afterwards
    settings = Settings(home=os.path.dirname(sheaf.root), cache=nowhere, embedder="none")
    with Sheaf.open("user", settings=settings, read_only=True) as fresh:
        assert fresh.root == sheaf.root
        return fresh.catalog().text


def targets(text: str) -> list[str]:
    """The paths that a catalog's lines lead to."""
    return [a or b for a, b in re.findall(r"^- \[[^\]]*\]\((?:<([^>]*)>|([^)]*))\)", text, re.MULTILINE)]


def not_shown(text: str) -> int:
    found = re.search(r"^\(([\d,]+) more memor(?:y is|ies are) not shown", text, re.MULTILINE)
    return int(found[1].replace(",", "")) if found else 0


def require_sound(text: str, total: int) -> None:
    """The promises that every catalog keeps."""
    assert text.endswith("\n")
    assert text.count("\n") <= MAX_LINES == 200
    assert len(text.encode()) <= MAX_BYTES == 25_000
    assert all(len(line) <= MAX_LINE_CHARS for line in text.split("\n"))
    paths = targets(text)
    assert len(paths) == len(set(paths)) == text.count("\n- [")
    assert len(paths) + not_shown(text) == total


# what it looks like


def test_an_empty_catalog_says_so(sheaf: Sheaf) -> None:
    assert sheaf.catalog().text == EMPTY_CATALOG == "# Memory\n\n(empty)\n"

    memory = sheaf.write("First", "D", "user", "x")
    sheaf.forget(memory.path)

    assert published(sheaf) == EMPTY_CATALOG


def test_memories_stand_one_a_line_in_groups_by_type_in_the_order_of_their_paths(sheaf: Sheaf) -> None:
    sheaf.write("Where bugs are", "The tracker", "reference", "x")
    sheaf.write("Prefers tabs", "Indentation", "user", "x")
    sheaf.write("Auth rewrite", "Why it happens", "project", "x")
    sheaf.write("Answers briefly", "Style of answers", "feedback", "x")
    sheaf.write("Dana", "Who approves", "user", "x")
    write(sheaf, "cake.md", "Cake", "A recipe", "recipe")
    Path(sheaf.root, "notes.md").write_text("# Some notes\n")
    Path(sheaf.root, "broken.md").write_text("---\nname: [x\n---\nsecret body\n")

    text = sheaf.catalog().text

    problem = sheaf.read("broken.md").problem
    assert problem
    assert text == (
        "# Memory\n\n"
        "## User\n- [Dana](user_dana.md) — Who approves\n- [Prefers tabs](user_prefers-tabs.md) — Indentation\n\n"
        "## Feedback\n- [Answers briefly](feedback_answers-briefly.md) — Style of answers\n\n"
        "## Project\n- [Auth rewrite](project_auth-rewrite.md) — Why it happens\n\n"
        "## Reference\n- [Where bugs are](reference_bugs.md) — The tracker\n\n"
        f"## Other\n- [broken](broken.md) — {problem}\n- [Cake](cake.md) — A recipe\n"
        "- [notes](notes.md) — Some notes\n"
    )
    assert published(sheaf) == text


def test_what_nobody_confirmed_is_counted_and_not_shown(sheaf: Sheaf) -> None:
    sheaf.write("Claim", "From somewhere", "user", "x", trust="unconfirmed")
    write(sheaf, "odd.md", "Odd claim", more="trust: whatever\n")
    sheaf.write("Fact", "From the user", "user", "x")

    text = sheaf.catalog().text

    assert targets(text) == ["user_fact.md"]
    assert "laim" not in text
    assert "(2 unconfirmed memories" in text
    assert targets(sheaf.catalog(1).text) == ["user_fact.md"]


def test_a_path_with_blanks_or_brackets_is_still_a_link(sheaf: Sheaf) -> None:
    for path in ("with blanks.md", "with (brackets).md", "sub folder/x.md"):
        write(sheaf, path, "N")

    assert sorted(targets(sheaf.catalog().text)) == ["sub folder/x.md", "with (brackets).md", "with blanks.md"]


def expanded(payload: str) -> str:
    return "A" * 200_000 if "x 200000" in payload else payload


@pytest.mark.parametrize(
    "case", [c for c in INJECTIONS if c["field"] in ("name", "description")], ids=lambda c: c["id"]
)
def test_a_hostile_name_or_description_is_one_short_line_of_text(case: dict[str, Any], sheaf: Sheaf) -> None:
    hostile = json.dumps(expanded(case["payload"]), ensure_ascii=False)
    fields = {"name": '"Plain"', "description": '"Plain"', case["field"]: hostile}
    write(sheaf, "n.md", fields["name"], fields["description"])
    sheaf.write("Other", "D", "user", "x")

    text = sheaf.catalog().text

    require_sound(text, 2)
    assert text.isprintable() or all(line.isprintable() for line in text.split("\n"))
    assert sorted(targets(text)) == ["n.md", "user_other.md"]
    assert "\n# SYSTEM" not in text
    assert "](http" not in text
    require_sound(sheaf.catalog(1).text, 2)


@hypothesis_settings(max_examples=40)
@given(name=st.text(max_size=300), description=st.text(max_size=600), path=st.sampled_from(["n.md", "a b (c).md"]))
def test_whatever_a_header_says_its_line_is_one_line_with_one_link(name: str, description: str, path: str) -> None:
    header = f"---\nname: {json.dumps(name)}\ndescription: {json.dumps(description)}\ntype: user\n---\nb\n"

    memory = parse(path, header.encode())
    line = line_text(memory.name, memory.path, memory.summary)

    assert len(line) <= MAX_LINE_CHARS
    assert len(line.splitlines()) == 1
    assert targets(line) == [path]
    line.encode()


# how much of it


def lines_of(sizes: list[tuple[str, str]]) -> list[Line]:
    """Lines in the order of their rank: the last first."""
    lines: list[Line] = []
    for number, (kind, said) in enumerate(sizes):
        path = f"{number:05}.md"
        lines.append((path, kind, f"- [N]({path}) — {said}"))
    return sorted(lines, reverse=True)


ENTRY = st.tuples(st.sampled_from(list(SECTIONS)), st.sampled_from(["x", "日本語" * 20, "👩‍💻" * 30, "é" * 150]))


@given(
    entries=st.lists(ENTRY, max_size=60),
    waiting=st.sampled_from([0, 1, 12_345]),
    max_lines=st.integers(20, 70),
    max_bytes=st.integers(700, 6_000),
)
def test_whatever_the_budget_it_is_kept_and_every_memory_is_counted(
    entries: list[tuple[str, str]], waiting: int, max_lines: int, max_bytes: int
) -> None:
    lines = lines_of(entries)

    page = lay_out(lines, len(lines), waiting=waiting, max_lines=max_lines, max_bytes=max_bytes)

    assert page.text.count("\n") <= max_lines
    assert len(page.text.encode()) <= max_bytes
    assert page.total == len(lines)
    shown = targets(page.text)
    assert len(shown) == page.shown
    assert page.shown + not_shown(page.text) == page.total
    best = [line[0] for line in lines]
    assert set(shown) == set(best[: len(shown)]), "what is shown ranks before what is not"
    for line in page.text.split("\n"):
        assert not line.startswith("- [") or line in {entry[2] for entry in lines}, "a line is whole or absent"


@given(count=st.integers(180, 215), kinds=st.integers(1, 5))
def test_up_to_the_last_line_that_fits_nothing_is_cut(count: int, kinds: int) -> None:
    sections = list(SECTIONS)[:kinds]
    lines = lines_of([(sections[number % kinds], "x") for number in range(count)])

    page = lay_out(lines, count)

    require_sound(page.text, count)
    fits = 1 + 2 * kinds + count <= MAX_LINES
    assert (page.shown == count) == fits
    if not fits:
        assert page.text.count("\n") >= MAX_LINES - 2, "no line is wasted"


@pytest.mark.parametrize("unit", ["x", "👩‍💻"])
def test_five_thousand_memories_with_long_descriptions_fit_the_budget(unit: str) -> None:
    said = unit * (500 // len(unit.encode()))
    memories = [
        parse(f"user_{n:04}.md", f"---\nname: N {n}\ndescription: {said}\ntype: user\n---\nb\n".encode())
        for n in range(5_000)
    ]
    texts = [(memory.path, line_text(memory.name, memory.path, memory.summary)) for memory in memories]
    lines = [(path, "user", text) for path, text in reversed(texts)]

    page = lay_out(lines, len(lines))

    require_sound(page.text, 5_000)
    assert "user_4999.md" in targets(page.text), "the newest is shown"
    assert len(page.text.encode()) > MAX_BYTES - 1_000 or page.text.count("\n") > MAX_LINES - 3


def test_a_large_folder_is_cut_at_a_line_and_every_page_together_is_everything(sheaf: Sheaf) -> None:
    everything = {f"{kind}_{n:04}.md" for n in range(100) for kind in ("user", "project", "feedback", "recipe")}
    for path in everything:
        kind = path.partition("_")[0]
        write(sheaf, path, f"名前 {path}", "説明" * 80, kind)

    page = sheaf.catalog()

    require_sound(page.text, 400)
    assert published(sheaf) == page.text
    assert page.total == 400
    paths = pages(sheaf)
    assert len(paths) == len(everything)
    assert set(paths) == everything
    assert set(pages(sheaf, kind="user")) == {path for path in everything if path.startswith("user")}
    assert set(pages(sheaf, kind="other")) == {path for path in everything if path.startswith("recipe")}


def pages(sheaf: Sheaf, kind: str = "") -> list[str]:
    """The paths of all pages, in order."""
    found: list[str] = []
    number = 1
    while paths := targets(sheaf.catalog(number, type=kind).text):
        found += paths
        number += 1
    return found


@pytest.mark.parametrize("number", [-1, 3, 10**6])
def test_a_page_that_is_not_there_is_empty(number: int, sheaf: Sheaf) -> None:
    sheaf.write("First", "D", "user", "x")

    assert sheaf.catalog(number).shown == 0


# what is shown first


def test_the_newest_is_shown_however_many_there_are(sheaf: Sheaf) -> None:
    for number in range(250):
        place = write(sheaf, f"a{number:03}.md", f"Old {number}")
        os.utime(place, (1_700_000_000 + number, 1_700_000_000 + number))
    sheaf.list()

    memory = sheaf.write("Zebra", "The newest", "reference", "x")
    outside = write(sheaf, "zz.md", "Later still")

    assert {memory.path, os.path.basename(outside)} <= set(targets(sheaf.catalog().text))
    assert (
        targets(sheaf.catalog(1).text)[:2] == ["zz.md", memory.path]
        or targets(sheaf.catalog(1).text)[0] == memory.path
    )


def test_pins_come_first_and_never_push_the_newest_out(sheaf: Sheaf) -> None:
    for number in range(300):
        write(sheaf, f"p{number:03}.md", f"Pinned {number}", more="pinned: true\n")
    for number in range(100):
        os.utime(write(sheaf, f"u{number:03}.md", f"Plain {number}"), (1_700_000_000, 1_700_000_000))
    sheaf.list()

    memory = sheaf.write("Newest", "D", "user", "x")

    shown = targets(sheaf.catalog().text)
    assert memory.path in shown
    assert sum(path.startswith("p") for path in shown) == 150
    require_sound(published(sheaf), 401)
    ranked = pages(sheaf)
    assert all(path.startswith("p") for path in ranked[:300])
    assert len(ranked) == len(set(ranked)) == 401


def test_pins_beyond_the_shown_ones_move_up(sheaf: Sheaf) -> None:
    for number in range(170):
        write(sheaf, f"p{number:03}.md", f"Pinned {number}", more="pinned: true\n")
        write(sheaf, f"u{number:03}.md", f"Plain {number}")

    shown = [path for path in targets(sheaf.catalog().text) if path.startswith("p")]
    for path in shown[:4]:
        sheaf.forget(path)

        assert published(sheaf) == rendered_anew(sheaf)


def test_a_pinned_memory_stays_among_many_others(sheaf: Sheaf) -> None:
    sheaf.write("Rules", "Stays", "user", "x", pinned=True)
    for number in range(300):
        write(sheaf, f"000-{number:04}.md", f"000-{number}", "z" * 100)

    text = sheaf.catalog().text

    require_sound(text, 301)
    assert "user_rules.md" in targets(text)


# the same files, the same bytes


def test_the_catalog_is_the_same_after_the_index_and_the_file_were_deleted(sheaf: Sheaf) -> None:
    for number in range(260):
        write(sheaf, f"n{number:03}.md", f"N {number}", kind=random.Random(number).choice(["user", "project", "x"]))
    first = sheaf.catalog().text

    assert rendered_anew(sheaf) == first
    sheaf.own.index.delete()
    os.unlink(os.path.join(sheaf.root, "MEMORY.md"))
    assert sheaf.catalog().text == first
    assert published(sheaf) == first


BROKEN = "---\nname: [\n---\n"
Step = Callable[[Sheaf, random.Random], object]


def some(sheaf: Sheaf, chance: random.Random) -> str:
    return chance.choice([row.path for row in sheaf.own.index.rows()] or ["none.md"])


def outside(sheaf: Sheaf, path: str) -> str:
    return os.path.join(sheaf.root, path)


def rename_outside(sheaf: Sheaf, chance: random.Random) -> None:
    os.replace(outside(sheaf, some(sheaf, chance)), outside(sheaf, f"r{chance.randrange(40):02}.md"))


STEPS: dict[str, Step] = {
    "remember": lambda sheaf, chance: sheaf.write(
        f"Name {chance.randrange(60)}", "d" * chance.randrange(1, 150), chance.choice(["user", "project"]), "x",
        pinned=chance.random() < 0.5, replace=chance.random() < 0.5, trust=chance.choice(["", "", "unconfirmed"]),
    ),
    "forget": lambda sheaf, chance: sheaf.forget(some(sheaf, chance)),
    "revise": lambda sheaf, chance: sheaf.revise(some(sheaf, chance), "body", "body body"),
    "unpin": lambda sheaf, chance: sheaf.revise(some(sheaf, chance), "pinned: true\n", ""),
    "retype": lambda sheaf, chance: sheaf.revise(some(sheaf, chance), "type: user", "type: reference"),
    "undo": lambda sheaf, chance: sheaf.undo(),
    "create outside": lambda sheaf, chance: write(
        sheaf, f"o{chance.randrange(40):02}.md", "O", "日本語" * chance.randrange(30), chance.choice(["user", "cake"])
    ),
    "edit outside": lambda sheaf, chance: write(sheaf, some(sheaf, chance), "Edited", str(chance.random())),
    "break outside": lambda sheaf, chance: Path(outside(sheaf, some(sheaf, chance))).write_text(BROKEN),
    "date outside": lambda sheaf, chance: os.utime(outside(sheaf, some(sheaf, chance)), (1e9, 1e9 + chance.random())),
    "rename outside": rename_outside,
    "delete outside": lambda sheaf, chance: os.unlink(outside(sheaf, some(sheaf, chance))),
}  # fmt: skip


@hypothesis_settings(max_examples=4)
@given(base=st.sampled_from([(0, 0), (8, 3), (215, 20), (130, 160)]), seed=st.integers(0, 2**32))
def test_built_step_by_step_the_catalog_is_what_a_fresh_index_would_say(base: tuple[int, int], seed: int) -> None:
    chance = random.Random(seed)
    with TemporaryDirectory() as folder:
        settings = Settings(home=os.path.join(folder, "home"), cache=os.path.join(folder, "cache"), embedder="none")
        with Sheaf.open("user", settings=settings) as sheaf:
            os.makedirs(sheaf.root)
            for number in range(sum(base)):
                pin = "pinned: true\n" if number < base[1] else ""
                os.utime(write(sheaf, f"b{number:03}.md", f"Base {number}", more=pin), (1e9, 1e9 + number // 3))
            sheaf.list()
            for _ in range(12):
                name = chance.choice(list(STEPS))
                try:
                    STEPS[name](sheaf, chance)
                except (MemsheafError, FileNotFoundError):
                    continue
                if "outside" in name:
                    sheaf.list()
                assert published(sheaf) == rendered_anew(sheaf), name
                assert sheaf.catalog().text == published(sheaf), name


# whoever changes the files


def test_what_an_editor_does_to_the_files_shows_at_the_next_look(sheaf: Sheaf) -> None:
    sheaf.write("First", "Before", "user", "x")
    assert "Before" in sheaf.catalog().text

    created = write(sheaf, "new.md", "New", "Created outside")
    assert "Created outside" in sheaf.catalog().text
    with open(created, "r+") as file:
        text = file.read()
        file.seek(0)
        file.write(text.replace("Created", "Altered"))
    assert "Altered outside" in sheaf.catalog().text
    os.rename(created, outside(sheaf, "moved.md"))
    assert targets(sheaf.catalog().text) == ["moved.md", "user_first.md"]
    os.unlink(outside(sheaf, "moved.md"))
    assert targets(sheaf.catalog().text) == ["user_first.md"]
    write(sheaf, "deep/er/n.md", "Deep")
    assert "deep/er/n.md" in targets(sheaf.catalog().text)
    assert published(sheaf) == sheaf.catalog().text == rendered_anew(sheaf)


def test_switching_a_branch_switches_the_catalog(settings: Settings, tmp_path: Path) -> None:
    app = tmp_path / "app"
    (app / ".memory").mkdir(parents=True)

    def git(*words: str) -> None:
        alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "PATH": os.environ["PATH"]}
        command = ["git", "-C", str(app), "-c", "user.name=n", "-c", "user.email=e@example.org", *words]
        subprocess.run(command, check=True, capture_output=True, env=alone)

    git("init", "-q", "-b", "main")
    accept(settings.home, str(app))
    (app / ".gitignore").write_text(".history\nMEMORY.md\n")
    with Sheaf.open("project", settings=settings, cwd=str(app)) as sheaf:
        sheaf.write("Shared", "On both branches", "project", "x")
        git("add", ".")
        git("commit", "-q", "-m", "one")
        first = sheaf.catalog().text
        git("checkout", "-q", "-b", "side")
        sheaf.write("Side", "Only there", "project", "x")
        sheaf.revise("project_shared.md", "On both branches", "Otherwise there")
        git("add", ".")
        git("commit", "-q", "-m", "two")
        second = sheaf.catalog().text

        git("checkout", "-q", "main")
        assert sheaf.catalog().text == first == published(sheaf)
        git("checkout", "-q", "side")
        assert sheaf.catalog().text == second == published(sheaf)


@pytest.mark.parametrize("change", ["deleted", "emptied", "zeroed", "shortened"])
def test_a_catalog_that_somebody_spoilt_comes_back_at_the_next_look(change: str, later: Sheaf) -> None:
    later.write("First", "D", "user", "x")
    assert later.list()
    text = later.catalog().text
    place = Path(later.root, "MEMORY.md")
    match change:
        case "deleted":
            place.unlink()
        case "emptied":
            place.write_text("")
        case "zeroed":
            place.write_bytes(bytes(len(text)))
        case _:
            place.write_text("# Memory\n\n## User\n")

    assert later.catalog().text == text == published(later)
    assert [row.path for row in later.list()] == ["user_first.md"]


def test_a_look_that_finds_nothing_new_does_not_write_the_catalog(sheaf: Sheaf, settings: Settings) -> None:
    sheaf.write("First", "D", "user", "x")
    sheaf.catalog()
    place = os.path.join(sheaf.root, "MEMORY.md")
    before = os.stat(place)

    sheaf.catalog()
    sheaf.list()
    sheaf.prompt()
    with Sheaf.open("user", settings=settings) as again:
        again.list()
    sheaf.own.index.delete()
    sheaf.list()
    Path(sheaf.root, "CONTEXT.md").write_text("not in the catalog")
    sheaf.list()

    after = os.stat(place)
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)


def test_an_edit_that_leaves_the_catalog_as_it_is_does_not_write_it(sheaf: Sheaf) -> None:
    sheaf.write("First", "D", "user", "x")
    before = os.stat(os.path.join(sheaf.root, "MEMORY.md"))

    sheaf.revise("user_first.md", "x", "y")

    assert os.stat(os.path.join(sheaf.root, "MEMORY.md")).st_mtime_ns == before.st_mtime_ns


def test_a_date_in_the_future_does_not_hold_the_first_place_for_ever(sheaf: Sheaf) -> None:
    for number in range(250):
        os.utime(write(sheaf, f"f{number:03}.md", "F", more="updated: 2999-01-01\n"), (1e9, 1e9))

    sheaf.write("Newest", "D", "user", "x")

    assert time.gmtime().tm_year < 2999
    assert targets(sheaf.catalog(1).text)[0] == "user_newest.md"
    assert "user_newest.md" in targets(sheaf.catalog().text)
