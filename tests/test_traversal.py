"""Every case of the path corpus through every door: the library, the command line, and an import of each form.

`CANNOT` says which case a door cannot express, and why. A new case of the corpus is run by itself, or missed by
`test_every_case_goes_through_every_door_that_can_express_it`.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import stat
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from command_line import run_command
from databases import SIDE_FILES, content
from memsheaf import transfer
from memsheaf.cli.commands import COMMANDS, load
from memsheaf.config import Settings
from memsheaf.errors import MemsheafError, Refused
from memsheaf.guard.paths import CATALOG
from memsheaf.scope import NAMED_LAYERS
from memsheaf.sheaf import Sheaf
from memsheaf.transfer import take_in
from test_sheaf import ACTIONS
from trees import as_nobody

Case = dict[str, Any]
CASES: list[Case] = json.loads((Path(__file__).parent / "corpora" / "traversal.json").read_text("utf-8"))["cases"]
ROUNDS, EVERY = (5000, 1) if os.environ.get("MEMSHEAF_LONG") else (10, 3)  # every third use, another next time
SECRET = "a private key"
INTERNAL = {".mem": ".history"}  # as the corpus calls our own folder
TEN_GIB = 10 << 30

# which door cannot express which case

DOORS = ("library", "command line", "folder", "zip", "tar")
FORMS = DOORS[2:]


def because(reason: str, ids: str) -> dict[str, str]:
    return dict.fromkeys(ids.split(), reason)


ASKS_NOTHING = because("an import takes no query", "T92 T94")
CANNOT: dict[str, dict[str, str]] = {
    "library": {},
    "command line": {},
    "folder": {
        **ASKS_NOTHING,
        **because("the name is that of a file outside the folder", "T01 T02 T04 T08 T10 T11 T13 T95 Z01 Z02"),
        **because("the name is that of a folder, or of none", "T19 T20 T23"),
        **because("no file name has a zero byte", "T37"),
        **because("on disk, a hard link is a file like any other", "Z04"),
    },
    "zip": {**ASKS_NOTHING, **because("a zip has no hard links", "Z04")},
    "tar": ASKS_NOTHING,
}
SLOW = {("folder", "Z08"), ("tar", "Z08")}  # members that can only be counted one by one
TRIED: set[tuple[str, str]] = set()


def expressible(door: str, surfaces: str, *expected: str) -> list[Case]:
    """The cases of these kinds that a door can express."""
    found = [case for case in CASES if case["surface"] in surfaces.split() and case["expect"] in expected]
    return [case for case in found if case["id"] not in CANNOT[door]]


def each(surfaces: str, *expected: str) -> pytest.MarkDecorator:
    """Run a test with each case of these kinds through each door that can express it."""
    pairs = [(door, case) for door in DOORS for case in expressible(door, surfaces, *expected)]
    TRIED.update((door, case["id"]) for door, case in pairs)
    runs = [
        pytest.param(door, case, id=f"{door} {case['id']}", marks=[pytest.mark.long] * ((door, case["id"]) in SLOW))
        for door, case in pairs
    ]
    return pytest.mark.parametrize(("door", "case"), runs, indirect=["door"])


# where it happens


def fact(text: str) -> bytes:
    return f"---\nname: N\ndescription: d\ntype: user\n---\n{text}\n".encode()


class Place:
    """A root with one memory, and around it files that nobody may read or change."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.outside, self.root = folder, folder / "outside", folder / "home" / "user"
        for name in ("etc/passwd", "etc/hosts", "etc/hosts.md", "etc/x.md", "tmp/OUTSIDE.md", "tmp/OUTDIR/x.md"):
            self._lay(self.outside / name)
        for name in ("secret.md", "home/secret.md", "home/user_evil/x.md"):
            self._lay(folder / name)
        (folder / "spoil.py").write_text("import sys; open(sys.argv[1], 'a').write('spoilt')")
        self.settings = Settings(home=str(folder / "home"), cache=str(folder / "cache"), embedder="none")
        with Sheaf.open("user", settings=self.settings) as sheaf:
            sheaf.put("kept.md", fact("stays").decode())

    def _lay(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(fact(SECRET))

    def tree(self) -> dict[str, bytes | str]:
        """What is on disk, in the root and around it; the cache aside, which proves nothing."""
        found: dict[str, bytes | str] = {}
        for here, folders, names in os.walk(self.folder):
            folders[:] = [name for name in folders if name not in ("cache", "sources")]
            for path in (os.path.join(here, name) for name in (*folders, *names)):
                if path.endswith(SIDE_FILES):
                    continue
                if os.path.islink(path):
                    found[path] = os.readlink(path)
                else:
                    found[path] = content(Path(path)) if os.path.isfile(path) else ""
        return found

    def around(self) -> dict[str, bytes | str]:
        """The part of it that is not in the root."""
        return {path: held for path, held in self.tree().items() if not path.startswith(f"{self.root}{os.sep}")}

    def arrange(self, case: Case, folder: Path | None = None) -> None:
        """Make in the root, or in a folder, what the case describes; the machine's own files are ours outside."""
        for kind, name, *more in case["setup"]:
            path = (folder or self.root) / INTERNAL.get(name, name)
            target = f"{self.outside}{more[0]}" if more and more[0].startswith("/") else "".join(more)
            if kind == "dir":
                path.mkdir()
            elif kind == "file":
                path.write_text(target)
            elif kind == "chmod":
                path.write_bytes(fact("unreadable"))
                path.chmod(int(target, 8))
            elif kind == "hardlink":
                os.link(target, path)
            else:
                assert kind == "symlink", kind
                shutil.rmtree(path, ignore_errors=True)
                path.symlink_to(target)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path)


# the doors


@dataclass(frozen=True)
class Answer:
    """Whether a door did as it was asked, and what it said."""

    done: bool
    said: str


class Door(Protocol):
    """A way in. What it refuses is an answer; anything else that is raised is a crash."""

    def uses(self, name: str) -> Iterator[tuple[str, Answer]]: ...
    def in_scope(self, scope: str) -> Iterator[tuple[str, Answer]]: ...
    def write(self, path: str, text: str, *, replace: bool = False) -> Answer: ...
    def take_in(self, source: str, *, replace: bool = False, dry_run: bool = False) -> Answer: ...
    def rows(self) -> dict[str, str]: ...


class Library:
    def __init__(self, place: Place) -> None:
        self.place, self.turn = place, 0

    def uses(self, name: str) -> Iterator[tuple[str, Answer]]:
        self.turn = (self.turn + 1) % EVERY
        for what, act in list(ACTIONS.items())[self.turn :: EVERY]:
            # without a path, the whole log and a name of our own are what was asked for
            if name or what not in ("log", "remember", "replace"):
                yield what, self._ask(lambda sheaf, act=act: act(sheaf, name))  # type: ignore[misc]

    def in_scope(self, scope: str) -> Iterator[tuple[str, Answer]]:
        yield "list", self._ask(lambda sheaf: sheaf.list(), scope)
        yield "put", self._ask(lambda sheaf: sheaf.put("n.md", fact("b").decode()), scope)

    def write(self, path: str, text: str, *, replace: bool = False) -> Answer:
        return self._ask(lambda sheaf: sheaf.write(path, "d", "user", text, path=path, replace=replace))

    def take_in(self, source: str, *, replace: bool = False, dry_run: bool = False) -> Answer:
        return self._ask(lambda sheaf: take_in(sheaf.own, source, replace=replace, dry_run=dry_run))

    def rows(self) -> dict[str, str]:
        with Sheaf.open("user", settings=self.place.settings) as sheaf:
            return {row.path: row.problem for row in sheaf.list()}

    def search(self, query: str) -> Answer:
        return self._ask(lambda sheaf: [row.ref.path for row in sheaf.search(query)])

    def _ask(self, work: Callable[[Sheaf], object], scope: str = "user") -> Answer:
        try:
            with Sheaf.open(scope, settings=self.place.settings, by="user") as sheaf:
                return Answer(True, str(work(sheaf)))
        except MemsheafError as error:
            return Answer(False, f"{error}\n{error.hint}")


def lines(name: str) -> dict[str, list[str]]:
    """A line of each command that takes the name of a memory."""
    return {
        "show": ["show", "--", name],
        "remember": ["remember", f"--replaces={name}", "--", "Text."],
        "remember a fact": ["remember", "--reason", "r", f"--replaces={name}", "--", "Text."],
        "replace a piece": ["edit", "--old", "a", "--new", "b", "--", name],
        "edit": ["edit", "--", name],
        "forget": ["forget", "--", name],
        "diff": ["diff", "--", name],
        "blame": ["diff", "--blame", "--", name],
        "log": ["log", "--", name],
        "restore": ["restore", "--", name, "0123456789ab"],
        "erase": ["erase", "--yes", "--", name],
        "cite": ["audit", "--cite", "README.md:1", "--", name],
        "audit": ["audit", "--", name],
        "consolidate": ["consolidate", "--expect", "a question", "--", name],
        "promote": ["promote", "ffffff", f"--replaces={name}"],
    }


class CommandLine:
    def __init__(self, place: Place) -> None:
        self.place, self.turn = place, 0
        self.environment = {
            "MEMSHEAF_HOME": place.settings.home,
            "MEMSHEAF_CACHE": place.settings.cache,
            "MEMSHEAF_EMBEDDER": "none",
            "MEMSHEAF_SCOPE": "user",
            "HOME": str(place.folder),
            "EDITOR": f"'{sys.executable}' '{place.folder / 'spoil.py'}'",
        }

    def uses(self, name: str) -> Iterator[tuple[str, Answer]]:
        self.turn = (self.turn + 1) % EVERY
        for command, words in list(lines(name).items())[self.turn :: EVERY]:
            yield command, self.ask(*words)

    def in_scope(self, scope: str) -> Iterator[tuple[str, Answer]]:
        plain = {name: [name] for name in ("list", "show", "undo", "doctor")}
        moving = {"search": ["search", "x"], "export": ["export", "out.zip"], "import": ["import", "outside"]}
        for command, words in {**lines("kept.md"), **plain, **moving}.items():
            yield command, self.ask(words[0], "--scope", scope, *words[1:])
            if scope.startswith("agent/"):
                yield command, self.ask(words[0], "--agent", scope.removeprefix("agent/"), *words[1:])

    def write(self, path: str, text: str, *, replace: bool = False) -> Answer:
        """No command takes the path of a new memory: another program has made it."""
        if not replace or path not in self.rows():
            return Library(self.place).write(path, text, replace=replace)
        about = ["--name", path, "--description", "d", "--type", "user"]
        return self.ask("remember", *about, f"--replaces={path}", "--", text)

    def take_in(self, source: str, *, replace: bool = False, dry_run: bool = False) -> Answer:
        return self.ask("import", "--json", *["--replace"] * replace, *["--dry-run"] * dry_run, source)

    def rows(self) -> dict[str, str]:
        return {row["path"]: row["problem"] for row in json.loads(self.ask("list", "--json").said)["memories"]}

    def search(self, query: str) -> Answer:
        return self.ask("search", "--", query)

    def ask(self, *words: str) -> Answer:
        code, out, err = run_command(words, self.environment)
        said = out + err
        assert code in (0, 1, 2)
        assert code == 0 or words[0] in ("import", "export") or said.startswith("memsheaf: ")
        assert said.replace("\n", "").isprintable()
        return Answer(code == 0, out if "--json" in words else said)


class Import:
    """Bring in a folder or an archive that was made for the purpose."""

    def __init__(self, place: Place, form: str) -> None:
        self.line = CommandLine(place)
        self.form = form
        self.place, self.turn = place, 0

    def uses(self, name: str) -> Iterator[tuple[str, Answer]]:
        source = pack(self.form, self.place, [(name, fact("new"))])
        self.turn = (self.turn + 1) % EVERY
        for what in ("import", "replace", "replace")[self.turn :: EVERY]:
            yield what, self._came_in(self.take_in(source, replace=what == "replace"))

    def in_scope(self, scope: str) -> Iterator[tuple[str, Answer]]:
        source = pack(self.form, self.place, [("n.md", fact("new"))])
        for options in ([], ["--replace"], ["--dry-run"]):
            yield f"import {options}", self.line.ask("import", "--scope", scope, *options, source)

    def write(self, path: str, text: str, *, replace: bool = False) -> Answer:
        return self._came_in(self.take_in(pack(self.form, self.place, [(path, fact(text))]), replace=replace))

    def take_in(self, source: str, *, replace: bool = False, dry_run: bool = False) -> Answer:
        return self.line.take_in(source, replace=replace, dry_run=dry_run)

    def rows(self) -> dict[str, str]:
        return self.line.rows()

    def _came_in(self, answer: Answer) -> Answer:
        """Whether anything was stored: what is hidden or not Markdown is passed over without an error."""
        told = json.loads(answer.said)
        return Answer(bool(told.get("added") or told.get("replaced")), answer.said)


@pytest.fixture
def door(request: pytest.FixtureRequest, place: Place) -> Door:
    if request.param in FORMS:
        return Import(place, request.param)
    return Library(place) if request.param == "library" else CommandLine(place)


# what is imported


def pack(form: str, place: Place, members: Iterable[tuple[str, bytes]], *, mode: int = 0o600) -> str:
    """A folder, a zip or a tar archive with these members, their names as they are."""
    sources = place.folder / "sources"
    sources.mkdir(exist_ok=True)
    source = Path(tempfile.mkdtemp(dir=sources), "in")
    if form == "folder":
        for name, data in members:
            path = Path(os.path.normpath(source / name))
            assert path.is_relative_to(source), "no folder holds it: CANNOT is the place to say so"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            path.chmod(mode)
    elif form == "zip":
        with zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED) as file:
            for name, data in members:
                info = zipfile.ZipInfo()
                info.filename, info.external_attr = name, (stat.S_IFREG | mode) << 16
                file.writestr(info, data)
    else:
        with tarfile.open(source, "w") as archived:
            for name, data in members:
                member = tarfile.TarInfo("member")
                member.size, member.mode, member.pax_headers = len(data), mode, {"path": name}
                archived.addfile(member, io.BytesIO(data))
    return str(source)


def described(case: Case, form: str, place: Place) -> str:
    """A source as the corpus describes it in words."""
    good, member = ("good.md", fact("good")), case["member"]
    if case["expect"] == "mode_reset":
        return pack(form, place, [good], mode=int(member.rpartition(" ")[2], 8))
    if case["expect"] == "conflict":
        return pack(form, place, [(name, fact(name)) for name in member.split(" then ")])
    name, _, target = member.partition(" -> ")
    if not target:
        return pack(form, place, [good, (name, fact("evil"))])
    source = pack(form, place, [good])
    with tarfile.open(source, "a") as file:
        link = tarfile.TarInfo(name)
        link.type, link.linkname = tarfile.LNKTYPE, target
        file.addfile(link)
    return source


def bomb(form: str, place: Place, *, admits: int = TEN_GIB) -> str:
    """Ten gibibytes of zeros in ten megabytes, or in a file with a hole."""
    zeros = bytes(16 << 20)
    times = TEN_GIB // len(zeros)
    source = pack(form, place, [("good.md", fact("good"))])
    if form == "folder":
        os.truncate(os.path.join(source, "good.md"), TEN_GIB)
    elif form == "tar":
        header = tarfile.TarInfo("bomb.md")
        header.size = TEN_GIB
        Path(source).write_bytes(gzip.compress(header.tobuf()) + gzip.compress(zeros) * times)
    else:
        packer = zlib.compressobj(wbits=-15)
        piece = packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH)  # may stand any number of times in a row
        with zipfile.ZipFile(source, "a") as file:
            info = zipfile.ZipInfo("bomb.md")
            with file.open(info, "w", force_zip64=True) as member:
                member.write(piece * times + packer.flush())
            # What was stored is packed already, and the directory, written when the zip is closed, shall say so.
            info.compress_type, info.file_size = zipfile.ZIP_DEFLATED, admits
    return source


def crowd(form: str, place: Place) -> str:
    """A million empty members; in a folder, where making them takes minutes, one more than are allowed."""
    if form == "folder":
        return pack(form, place, ((f"{number}.txt", b"") for number in range(transfer.MAX_MEMBERS + 1)))
    count = 1_000_000
    source = pack(form, place, [("empty.txt", b"")])
    if form == "tar":
        Path(source).write_bytes(tarfile.TarInfo("empty.txt").tobuf() * count + bytes(1024))
    else:
        data = Path(source).read_bytes()
        start, end = data.index(b"PK\1\2"), data.index(b"PK\5\6")
        entries = data[start:end] * count
        wide = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, len(entries), start)
        locator = struct.pack("<4sLQL", b"PK\6\7", 0, start + len(entries), 1)
        last = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
        Path(source).write_bytes(data[:start] + entries + wide + locator + last)
    return source


BOUNDED = {"Z07": bomb, "Z08": crowd}


# names


REFUSED = {door: expressible(door, "name abs_path url glob", "reject") for door in DOORS}
TRIED.update((door, case["id"]) for door, cases in REFUSED.items() for case in cases)


@pytest.mark.parametrize(("door", "cases"), REFUSED.items(), ids=DOORS, indirect=["door"])
def test_no_use_of_a_hostile_name_does_anything(door: Door, place: Place, cases: list[Case]) -> None:
    wrong = []
    before = place.tree()
    for case in cases:
        name = case["input"].replace("{ROOT}", str(place.root)).replace("{ROOTNAME}", place.root.name)
        for what, answer in door.uses(name):
            if answer.done or SECRET in answer.said:
                wrong.append(f"{case['id']}: {what} says {answer.said}")
        if place.tree() != before:
            wrong.append(f"{case['id']}: something on disk has changed")
            before = place.tree()
    assert wrong == []


@each("name", "accept")
def test_a_good_name_is_stored_as_it_is(door: Door, place: Place, case: Case) -> None:
    assert door.write(case["input"], "some words").done

    assert door.rows() == {"kept.md": "", case["input"]: ""}
    assert b"some words" in (place.root / case["input"]).read_bytes()


@each("name", "accept_or_reject")
def test_a_doubtful_name_is_stored_or_refused(door: Door, place: Place, case: Case) -> None:
    stored = door.write(case["input"], "some words").done

    assert set(door.rows()) == {"kept.md", *[case["input"]] * stored}
    for _, answer in door.uses(case["input"]):
        assert answer.said


@each("name_pair", "same_file_or_conflict", "two_files_or_conflict")
@pytest.mark.parametrize("replace", [False, True], ids=["", "replacing"])
def test_of_two_names_that_may_be_one_file_none_loses_its_text(
    door: Door, place: Place, case: Case, replace: bool
) -> None:
    first, second = case["input"]
    assert door.write(first, "the first").done

    done = door.write(second, "the second", replace=replace).done

    if case["expect"] == "same_file_or_conflict":
        assert len(door.rows()) == 2
        assert done == replace
    else:
        assert len(door.rows()) == 2 + done
        assert b"the first" in (place.root / first).read_bytes()


@each("project", "reject")
def test_a_hostile_scope_is_none(door: Door, place: Place, case: Case) -> None:
    before = place.tree()

    for scope in (case["input"], *(f"{layer}/{case['input']}" for layer in NAMED_LAYERS)):
        for what, answer in door.in_scope(scope):
            assert not answer.done, (scope, what)
            assert place.tree() == before, (scope, what)


@each("query", "bounded", "literal")
def test_a_query_is_words_and_nothing_else(door: Door, place: Place, case: Case) -> None:
    assert isinstance(door, Library | CommandLine)
    assert door.write("trap.md", "a" * 64 + "!").done  # a pattern that goes back and forth is lost in it
    assert door.write("said.md", case["input"]).done
    door.search("loads what it needs")
    before = place.tree()
    started = time.process_time()

    answer = door.search(case["input"])

    assert time.process_time() - started < 60
    assert "said.md" in answer.said
    assert place.tree() == before


# what is in the folder


@each("fs_fixture", "reject")
def test_what_leads_out_of_the_root_is_not_followed(door: Door, place: Place, case: Case) -> None:
    place.arrange(case)
    operation, *paths = case["op"]
    if operation == "open_store":
        paths = ["new.md"]
    else:
        assert operation == "read"
        paths += [f"{path}.md" for path in paths if not path.endswith(".md")]
        assert SECRET not in str(door.rows())
    before = place.tree()

    for path in paths:
        for what, answer in door.uses(path):
            assert not answer.done or what == "log", what
            assert SECRET not in answer.said, what
            assert place.tree() == before, what


@each("fs_fixture", "replace_link_or_reject", "outside_unchanged")
def test_writing_to_a_link_leaves_the_other_end_alone(door: Door, place: Place, case: Case) -> None:
    place.arrange(case)
    operation, path = case["op"]
    assert operation == "write"
    before = place.around()

    answer = door.write(path, "new text", replace=True)

    assert place.around() == before
    assert sorted(name for name in os.listdir(place.root) if name[0] != ".") == sorted([CATALOG, "kept.md", path])
    assert answer.done or case["expect"] == "replace_link_or_reject"
    assert not answer.done or b"new text" in (place.root / path).read_bytes()


@each("fs_fixture", "listed_unreadable", "listed_escaped")
def test_a_file_that_cannot_be_used_is_listed_and_hides_no_other(door: Door, place: Place, case: Case) -> None:
    assert case["op"] == ["list"]
    assert door.write("rehearsal.md", "loads what it needs").done
    assert door.rows()
    place.arrange(case)
    odd = os.fsencode(case["setup"][0][1]).decode(errors="backslashreplace")

    with as_nobody(place.folder):
        assert door.write("next.md", "text").done
        rows = door.rows()

    assert set(rows) == {"kept.md", "next.md", "rehearsal.md", odd}
    assert [path for path, problem in rows.items() if problem] == [odd]


SWAP = """
import ctypes, os, sys
folder, link = map(os.fsencode, sys.argv[1:])
libc, here, exchange = ctypes.CDLL(None, use_errno=True), -100, 2
print("ready", flush=True)
while not libc.renameat2(here, folder, here, link, exchange):
    pass
"""


@contextmanager
def swapping(folder: Path, link: Path) -> Iterator[None]:
    """Exchange a folder and a link for each other, over and over, from another process."""
    command = [sys.executable, "-c", SWAP, str(folder), str(link)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as swapper:
        assert swapper.stdout
        assert swapper.stdout.readline() == b"ready\n"
        try:
            yield
            assert swapper.poll() is None
        finally:
            swapper.kill()


@each("fs_fixture", "no_escape")
def test_a_folder_swapped_for_a_link_meanwhile_leads_nowhere(door: Door, place: Place, case: Case) -> None:
    ((kind, folder, target),) = case["setup"]
    operation, path = case["op"]
    assert (kind, operation) == ("race_swap", "write_loop")
    assert door.write(path, "inside").done
    (place.root / "link").symlink_to(f"{place.outside}{target}")
    before = place.around()

    answers: list[Answer] = []
    with swapping(place.root / folder, place.root / "link"):
        for number in range(100 * ROUNDS):
            answers.append(door.write(path, f"inside {number}", replace=True))
            if number >= ROUNDS and len({answer.done for answer in answers}) == 2:
                break  # it met the link, and it met the folder

    assert {answer.done for answer in answers} == {True, False}
    assert SECRET not in str(answers)
    assert place.around() == before
    inside = {path: held for path, held in place.tree().items() if path not in before}
    assert SECRET.encode() not in b"".join(held for held in inside.values() if isinstance(held, bytes))


# what is in a folder that is imported

SETUPS = [case for case in CASES if case["surface"] == "fs_fixture"]
LINKED = [case for case in SETUPS if case["setup"][0][0] in ("symlink", "dir", "file")]


@pytest.mark.parametrize("case", LINKED, ids=lambda case: str(case["id"]))
def test_an_import_follows_no_link(place: Place, case: Case) -> None:
    source = pack("folder", place, [("kept.md", fact("stays"))])
    place.arrange(case, Path(source))
    before = place.tree()

    CommandLine(place).take_in(source)

    assert place.tree() == before


def test_an_import_follows_no_link_that_is_swapped_in_meanwhile(place: Place) -> None:
    source = Path(pack("folder", place, [("d/x.md", fact("inside"))]))
    (source / "link").symlink_to(place.outside / "etc")
    found: set[bytes] = set()

    with swapping(source / "d", source / "link"):
        for _ in range(100 * ROUNDS):
            with suppress(Refused):
                found.update(member.data for member in transfer.read_archive(str(source)) if not member.why)

    assert found == {fact("inside")}


# archives


def form_of(door: Door, case: Case) -> str:
    return door.form if isinstance(door, Import) else case["kind"].split()[0]


@each("archive", "reject", "conflict")
@pytest.mark.parametrize("option", ["", "replace", "dry_run"])
def test_an_archive_that_reaches_out_is_refused_whole(door: Door, place: Place, case: Case, option: str) -> None:
    source = described(case, form_of(door, case), place)
    before = place.tree()

    answer = door.take_in(source, replace=option == "replace", dry_run=option == "dry_run")

    assert not answer.done
    assert place.tree() == before


@each("archive", "bounded")
def test_an_archive_without_measure_is_refused_at_once(door: Door, place: Place, case: Case) -> None:
    form = form_of(door, case)
    source = BOUNDED[case["id"]](form, place)
    started = time.process_time()

    answer = door.take_in(source)

    assert time.process_time() - started < (240 if (form, case["id"]) in SLOW else 60)
    assert not answer.done
    assert set(door.rows()) == {"kept.md"}


@each("archive", "mode_reset")
def test_modes_do_not_come_in(door: Door, place: Place, case: Case) -> None:
    assert door.take_in(described(case, form_of(door, case), place)).done

    assert stat.S_IMODE((place.root / "good.md").stat().st_mode) == 0o600


def test_a_bomb_that_lies_about_its_size_is_not_unpacked(place: Place) -> None:
    source = bomb("zip", place, admits=900)
    started = time.process_time()

    assert not Library(place).take_in(source).done
    assert time.process_time() - started < 60
    assert set(Library(place).rows()) == {"kept.md"}


def test_the_bomb_is_one(place: Place) -> None:
    source = bomb("zip", place)

    assert os.path.getsize(source) < 11 << 20
    with zipfile.ZipFile(source) as file, file.open("bomb.md") as member:
        assert file.getinfo("bomb.md").file_size == TEN_GIB
        assert member.read(40 << 20) == bytes(40 << 20)


# nothing is left out


def test_every_case_goes_through_every_door_that_can_express_it() -> None:
    cannot = {(door, case) for door, reasons in CANNOT.items() for case in reasons}

    assert TRIED.isdisjoint(cannot)
    assert TRIED | cannot == {(door, case["id"]) for door in DOORS for case in CASES}


def test_every_command_that_takes_the_name_of_a_memory_is_asked() -> None:
    taking = {name for name in COMMANDS for argument in load(name).arguments if argument.value == "MEMORY"}

    assert {line[0] for line in lines("").values()} == taking
