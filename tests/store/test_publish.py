"""MEMORY.md is written in the file that the one before last was in, and no reader ever notices."""

from __future__ import annotations

import os
import stat
import sys
import threading
from pathlib import Path

import pytest

from memsheaf.errors import Changed
from memsheaf.store import ABSENT, Change
from memsheaf.store.folder import FolderStore

NAME = "MEMORY.md"
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whether somebody reads a file")


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(str(tmp_path / "root"))


def place(store: FolderStore) -> Path:
    return Path(store.root, NAME)


def files(store: FolderStore) -> set[str]:
    return {path.name for path in Path(store.root, ".history").glob("derived-*")}


@pytest.mark.parametrize("second", [b"", b"short\n", b"x" * 30_000])
def test_a_shorter_or_longer_text_leaves_nothing_of_the_other(store: FolderStore, second: bytes) -> None:
    for data in (b"a" * 20_000, b"b" * 20_000, second):
        store.publish(NAME, data)

    assert place(store).read_bytes() == second


def test_who_has_it_open_goes_on_reading_what_it_was(store: FolderStore) -> None:
    store.publish(NAME, b"old\n" * 5_000)
    with place(store).open("rb") as reader:
        begun = reader.read(4)
        for number in range(5):
            store.publish(NAME, b"%03d\n" % number * 5_000)
        rest = reader.read()

    assert begun + rest == b"old\n" * 5_000
    assert place(store).read_bytes() == b"004\n" * 5_000


def test_a_reader_of_this_process_that_maps_it_is_seen_too(store: FolderStore) -> None:
    import mmap

    store.publish(NAME, b"old\n" * 5_000)
    with place(store).open("rb") as reader:
        mapped = mmap.mmap(reader.fileno(), 0, access=mmap.ACCESS_READ)
    for number in range(3):
        store.publish(NAME, b"%03d\n" % number * 5_000)

    assert mapped[:] == b"old\n" * 5_000
    mapped.close()


def test_a_second_name_of_the_file_keeps_its_text(store: FolderStore, tmp_path: Path) -> None:
    store.publish(NAME, b"kept\n")
    os.link(place(store), tmp_path / "mine.md")
    for number in range(4):
        store.publish(NAME, b"# %d\n" % number)

    assert (tmp_path / "mine.md").read_bytes() == b"kept\n"


@pytest.mark.skipif(os.name != "posix", reason="needs modes and links")
def test_modes_do_not_travel_and_a_link_stays(store: FolderStore, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere.md"
    target.write_bytes(b"not ours\n")
    store.publish(NAME, b"# 0\n")
    place(store).chmod(0o644)
    for number in range(1, 4):
        store.publish(NAME, b"# %d\n" % number)
        assert stat.S_IMODE(place(store).lstat().st_mode) == 0o600
    place(store).unlink()
    place(store).symlink_to(target)
    for sure in (False, True):
        with pytest.raises(Changed):
            store.publish(NAME, b"# 4\n", sure=sure)

    assert place(store).is_symlink()
    assert target.read_bytes() == b"not ours\n"


def test_a_spare_that_somebody_removed_is_made_anew(store: FolderStore) -> None:
    for number in range(4):
        store.publish(NAME, b"# %d\n" % number)
        for left in files(store):
            Path(store.root, ".history", left).unlink()

    assert place(store).read_bytes() == b"# 3\n"


def test_readers_and_two_writers_at_once_meet_only_whole_texts(store: FolderStore) -> None:
    texts = {b"%02d\n" % number * 8_000 for number in range(20)}
    store.publish(NAME, b"00\n" * 8_000)
    torn: list[bytes] = []
    stop = threading.Event()

    def write(first: int) -> None:
        other = FolderStore(store.root)
        for turn in range(200):
            other.publish(NAME, b"%02d\n" % ((first + turn) % 20) * 8_000)

    def read() -> None:
        while not stop.is_set():
            with place(store).open("rb", buffering=0) as file:
                begun = file.read(12_000) or b""
                data = begun + (file.read() or b"")
            if data not in texts:
                torn.append(data[:3] + data[-3:])

    readers = [threading.Thread(target=read) for _ in range(2)]
    writers = [threading.Thread(target=write, args=(first,)) for first in (0, 10)]
    for thread in readers + writers:
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    for thread in readers:
        thread.join()
    assert torn == []


def test_retention_takes_the_spare_too(store: FolderStore) -> None:
    store.commit([Change("user_a.md", b"text", ABSENT)], by="agent")
    store.publish(NAME, b"# secret\n")
    store.publish(NAME, b"# later\n")
    store.prune()

    assert not [name for name in files(store) if name.startswith("derived-")]
    assert place(store).read_bytes() == b"# later\n"
