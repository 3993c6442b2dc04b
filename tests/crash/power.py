"""Cuts the power after every system call of a commit, and looks at what a medium would have kept.

    python tests/crash/power.py                       every work, every moment, every way to lose
    python tests/crash/power.py --every 5 update batch

The calls of a commit are replayed on a medium that keeps only what was flushed: a file's content when the file
was, a name when its folder was. What was not flushed is lost in several ways, because file systems differ.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from strike import Report, Told, Victims, bare, files_of, prepare, told
from victim import BATCH, START, WORKS, Files, changed, store_at

from memsheaf.store import ABSENT, Change

NEXT_BOOT = "other"
PAGE_SIZE = 4096
CALL = re.compile(r"^\d+ +(\w+)\((.*)\) += (-?\d+)", re.DOTALL)
PLACE = re.compile(r"(?:AT_FDCWD|\d+)<([^>]*)>|\"([^\"]*)\"")  # every byte of a text is \xNN


@dataclass(slots=True)
class Node:
    """A file or a folder: what it holds now, and what of that would be there after a power cut."""

    now: bytes | None
    kept: bytes | None


@dataclass(slots=True)
class Medium:
    """A tree of names and nodes, and what of it was flushed."""

    now: dict[str, Node] = field(default_factory=dict)
    kept: dict[str, Node] = field(default_factory=dict)
    acknowledged: bool = False

    @classmethod
    def of(cls, place: str) -> Medium:
        """A medium that has kept all there is under a place."""
        medium = cls()
        for folder, folders, names in os.walk(place):
            for name in folders:
                medium.now[os.path.join(folder, name)] = Node(None, None)
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    data = file.read()
                medium.now[os.path.join(folder, name)] = Node(data, data)
        medium.kept = dict(medium.now)
        return medium

    def replay(self, line: str) -> None:
        """Take over what one call did, if it did anything."""
        found = CALL.match(line)
        if not found or int(found[3]) < 0:
            return
        words = [_text(a or b) for a, b in PLACE.findall(found[2])]
        if step := STEPS.get(found[1]):
            step(self, words, found[2], int(found[3]))

    def _open(self, words: list[bytes], call: str, _: int) -> None:
        path = _join(words)
        if "O_CREAT" in call and path not in self.now:
            self.now[path] = Node(b"", None)

    def _write(self, words: list[bytes], call: str, count: int) -> None:
        node = self.now.get(os.fsdecode(words[0]))
        if node and node.now is not None:
            node.now += words[1][:count]  # all that we write without a place, we append

    def _write_at(self, words: list[bytes], call: str, count: int) -> None:
        node = self.now.get(os.fsdecode(words[0]))
        if node and node.now is not None:
            start = int(call.rpartition(",")[2], 0)
            before = node.now[:start].ljust(start, b"\0")
            node.now = before + words[1][:count] + node.now[start + count :]

    def _truncate(self, words: list[bytes], call: str, _: int) -> None:
        node = self.now.get(os.fsdecode(words[0]))
        if node and node.now is not None:
            node.now = node.now[: int(call.rpartition(",")[2])]

    def _rename(self, words: list[bytes], call: str, _: int) -> None:
        source, target = (_join(words[:2]), _join(words[2:])) if len(words) > 2 else map(os.fsdecode, words)
        moved, displaced = self.now.pop(source, Node(b"", None)), self.now.get(target)
        self.now[target] = moved
        if displaced and "RENAME_EXCHANGE" in call:
            self.now[source] = displaced

    def _unlink(self, words: list[bytes], call: str, _: int) -> None:
        self.now.pop(_join(words), None)

    def _make_folder(self, words: list[bytes], call: str, _: int) -> None:
        self.now[_join(words)] = Node(None, None)

    def _flush(self, words: list[bytes], call: str, _: int) -> None:
        path = os.fsdecode(words[0])
        node = self.now.get(path)
        if node and node.now is not None:
            node.kept = node.now
        for name in {*self.now, *self.kept}:
            if os.path.dirname(name) == path:
                _copy(self.now, self.kept, name)

    def _flush_all(self, words: list[bytes], call: str, _: int) -> None:
        for node in self.now.values():
            node.kept = node.now
        self.kept = dict(self.now)

    def _hear(self, words: list[bytes], call: str, _: int) -> None:
        self.acknowledged |= words[1] == b"ok\n"


STEPS: dict[str, Callable[[Medium, list[bytes], str, int], None]] = {
    "openat": Medium._open,
    "write": Medium._write,
    "pwrite64": Medium._write_at,
    "ftruncate": Medium._truncate,
    "rename": Medium._rename,
    "renameat": Medium._rename,
    "renameat2": Medium._rename,
    "unlink": Medium._unlink,
    "unlinkat": Medium._unlink,
    "mkdir": Medium._make_folder,
    "mkdirat": Medium._make_folder,
    "fsync": Medium._flush,
    "fdatasync": Medium._flush,
    "sync": Medium._flush_all,
    "sendto": Medium._hear,
}


def _text(written: str) -> bytes:
    return bytes.fromhex(written.replace("\\x", ""))


def _join(words: list[bytes]) -> str:
    return os.fsdecode(os.path.join(*words[:2]))


def _copy(source: dict[str, Node], target: dict[str, Node], name: str) -> None:
    if name in source:
        target[name] = source[name]
    else:
        target.pop(name, None)


Image = dict[str, bytes | None]


def only_flushed(medium: Medium) -> Image:
    """Nothing reached the medium that was not flushed."""
    return {path: node.now if node.now is None else node.kept or b"" for path, node in medium.kept.items()}


def names_first(medium: Medium) -> Image:
    """Every name reached it, contents only when flushed: new files come back empty."""
    return {path: node.now if node.now is None else node.kept or b"" for path, node in medium.now.items()}


def zeros(medium: Medium) -> Image:
    """Names and sizes reached it, contents only when flushed."""
    return {path: _refilled(node, lambda left: bytes(len(left))) for path, node in medium.now.items()}


def some_pages(medium: Medium) -> Image:
    """Names reached it, and of contents the first pages, about half."""
    return {
        path: _refilled(node, lambda left: left[: len(left) // 2 // PAGE_SIZE * PAGE_SIZE])
        for path, node in medium.now.items()
    }


def _refilled(node: Node, lose: Callable[[bytes], bytes]) -> bytes | None:
    if node.now is None:
        return None
    kept = node.kept or b""
    return kept + lose(node.now[len(kept) :]) if node.now.startswith(kept) else kept


def by_chance(seed: int) -> Callable[[Medium], Image]:
    """Each name and each content reached it or not."""

    def lose(medium: Medium) -> Image:
        chance = random.Random(seed)
        names = dict(medium.kept)
        for name in sorted({*medium.now, *medium.kept}):
            if chance.random() < 0.5:
                _copy(medium.now, names, name)
        return {path: chance.choice(_contents(node)) for path, node in names.items()}

    return lose


def _contents(node: Node) -> list[bytes | None]:
    """What may be found in a file after a power cut."""
    if node.now is None:
        return [None]
    return [node.now, b"", bytes(len(node.now))] if node.kept is None else [node.now, node.kept]


LOSSES = {
    "only what was flushed": only_flushed,
    "empty new files": names_first,
    "files of zeros": zeros,
    "some pages": some_pages,
    "by chance 1": by_chance(1),
    "by chance 2": by_chance(2),
    "by chance 3": by_chance(3),
}


def lay_out(image: Image, old_place: str, place: str) -> None:
    """Make an image real at another place; a name whose folder was lost is lost with it."""
    for path in sorted(image):
        data, target = image[path], place + path.removeprefix(old_place)
        if not os.path.isdir(os.path.dirname(target)):
            continue
        if data is None:
            os.mkdir(target)
        else:
            with open(target, "wb") as file:
                file.write(data)


def cut(work: str, place: str, victims: Victims, *, every: int = 1) -> Report:
    """Cut the power after every call of one kind of work, and lose what was not flushed in every way."""
    report = Report(work, "power")
    begun = os.path.join(place, "begun")
    os.makedirs(begun)
    root = prepare(work, begun, victims)
    before, old = files_of(root), told(root)
    medium = Medium.of(begun)
    well = victims.run(work, root)
    assert well.said == (WORKS[work].said,), f"{work} goes wrong without any fault: {well.said}"
    new = told(root)
    for number, line in enumerate(well.trace.splitlines()):
        was_acknowledged = medium.acknowledged
        medium.replay(line)
        if (number % every and medium.acknowledged == was_acknowledged) or not os.path.exists(root):
            continue
        for way, lose in LOSSES.items():
            copy = os.path.join(place, "copy")
            os.mkdir(copy)
            lay_out(lose(medium), begun, copy)
            report.aimed += 1
            report.hit += 1
            report.acknowledged += medium.acknowledged
            found = _examine(os.path.join(copy, "user"), work, medium.acknowledged, before, old, new)
            report.wrong += [f"{work}, {way}, after call {number} ({_name(line)}): {wrong}" for wrong in found]
            shutil.rmtree(copy)
    return report


def _name(line: str) -> str:
    found = CALL.match(line)
    return found[1] if found else line


def _examine(root: str, work: str, acknowledged: bool, before: Files, old: Told, new: Told) -> list[str]:
    try:
        return list(_wrong(root, work, acknowledged, before, old, new))
    except Exception as error:  # noqa: BLE001 - whatever is raised here is a finding
        return [f"reopening raised {error!r}"]


def _wrong(root: str, work: str, acknowledged: bool, before: Files, old: Told, new: Told) -> Iterator[str]:
    store = store_at(root, boot=NEXT_BOOT)
    store.recover()
    files, after, also = files_of(root), WORKS[work].after, WORKS[work].also
    if work == "raced":  # the person flushed nothing, so the power may take that save back as a whole
        also += (changed(START, BATCH),)
    if acknowledged and files != after:
        lost = sorted(path for path in {*files, *after} if files.get(path) != after.get(path))
        yield f"it was acknowledged, and is not there: {lost}"
    elif files not in (before, after, *also):
        yield f"half done: {files!s:.200}"
    if damaged := store.damaged():
        yield f"the history is damaged at {damaged}"
    history = told(root)
    if work == "prune" and (bare(history) != bare(old) or store.adopt(None)):
        yield "the log has changed"
    if (
        work not in ("erase", "raced", "taken", "prune")
        and history != (new if acknowledged or files != before else old)
        and history != new
    ):
        yield "the history tells another story"
    store.commit([Change("next.md", b"next\n", ABSENT)], by="user")
    if files_of(root) != {**files, "next.md": b"next\n"}:
        yield "the next commit changed something else"
    store.undo(by="user")
    if work == "erase" and acknowledged and any(b"a, second" in data for data in _all_bytes(root)):
        yield "the erased text came back"


def _all_bytes(root: str) -> Iterator[bytes]:
    for folder, _, names in os.walk(root):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                yield file.read()


def main() -> int:
    """Cut, print what was found, and fail if anything was wrong."""
    # what these make, or what others did while they were at it, may be lost
    works = [work for work in WORKS if work not in ("publish", "remember", "raced")]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("works", nargs="*", metavar="WORK", help=f"of {', '.join(works)}; all unless named")
    parser.add_argument("--every", type=int, default=1, help="cut after every n-th call only")
    options = parser.parse_args()
    failed = 0
    with Victims() as victims:
        for work in options.works or works:
            with tempfile.TemporaryDirectory() as place:
                report = cut(work, place, victims, every=options.every)
            print(report, flush=True)
            for wrong in report.wrong:
                print(f"  {wrong}")
            failed += len(report.wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
