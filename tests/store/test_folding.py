"""A long journal: what is past retention is folded, and work costs its recent part only."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from memsheaf.config import Settings
from memsheaf.errors import StoreFailed, VersionGone
from memsheaf.sheaf import Sheaf
from memsheaf.store import ABSENT, Change, Commit, journal, journal_folding, version_of
from memsheaf.store.folder import FolderStore
from memsheaf.transfer import erase

DAY = 86_400.0
START = 1_790_000_000.0
MEMORY = "---\nname: {}\ndescription: About {}\ntype: user\n---\n{}\n"


class Clock:
    now = START

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of a 32nd of their size: what is folded is the same, and sooner there."""
    for module in (journal, journal_folding):
        monkeypatch.setattr(module, "SEGMENT_BYTES", 1 << 15)


def large(word: str) -> bytes:
    """Three such texts fill a segment of the journal."""
    return f"{word}\n".encode() * (12_500 // (len(word) + 1))


def change(store: FolderStore, path: str, data: bytes | None, by: str = "agent") -> Commit:
    place = Path(store.root, path)
    return store.commit([Change(path, data, version_of(place.read_bytes()) if place.exists() else ABSENT)], by=by)


def long_past(root: Path, clock: Clock, segments: int = 12) -> FolderStore:
    """Memories that nobody touched since they were written, and one that fills segments with its changes."""
    store = FolderStore(str(root), clock=clock)
    for name in ("first", "second", "third"):
        change(store, f"user_{name}.md", MEMORY.format(name, name, f"the {name} text").encode())
    for number in range(2 * segments):
        change(store, "user_busy.md", large(f"text number {number}"))
        clock.now += DAY / 10
    store.close()
    return store


def told(store: FolderStore, path: str | None = None) -> list[tuple[object, ...]]:
    return [
        (commit.id, commit.at, commit.by, tuple((step.path, step.before, step.after) for step in commit.revisions))
        for commit in store.history(path)
    ]


def segments(root: Path, kind: str = "journal") -> list[Path]:
    return sorted((root / ".history").glob(f"{kind}-*.jsonl"))


def test_what_is_past_retention_is_folded_and_the_log_still_tells_all(tmp_path: Path) -> None:
    clock = Clock()
    store = long_past(tmp_path, clock)
    before, size = told(store), sum(path.stat().st_size for path in (tmp_path / ".history").iterdir())
    retired = next(iter(store.history("user_busy.md"))).revisions[0].before

    clock.now += 40 * DAY
    assert store.prune() > 20
    assert store.prune() == 0

    assert told(store) == before
    assert told(store, "user_second.md") == [one for one in before if "user_second.md" in str(one[3])]
    assert (len(segments(tmp_path)), len(segments(tmp_path, "archive"))) == (1, 1)
    assert sum(path.stat().st_size for path in (tmp_path / ".history").iterdir()) < size / 10
    assert store.damaged() == []
    with pytest.raises(VersionGone):
        store.version("user_busy.md", retired)


def test_the_text_that_a_memory_has_now_is_kept_however_old(tmp_path: Path) -> None:
    clock = Clock()
    store = long_past(tmp_path, clock)
    text = (tmp_path / "user_first.md").read_bytes()
    clock.now += 40 * DAY
    store.prune()

    (tmp_path / "user_first.md").unlink()
    (tmp_path / "user_second.md").write_bytes(b"by hand\n")
    commit = store.adopt(["user_first.md", "user_second.md"])

    assert commit
    assert {step.path: step.old for step in commit.revisions}["user_first.md"] == text
    store.undo(commit.id, by="user")
    assert (tmp_path / "user_first.md").read_bytes() == text
    assert b"the second text" in (tmp_path / "user_second.md").read_bytes()


def test_a_text_goes_when_what_retired_it_is_past_retention_too(tmp_path: Path) -> None:
    clock = Clock()
    store = long_past(tmp_path, clock)
    clock.now += 40 * DAY
    store.prune()
    change(store, "user_first.md", b"another text\n")
    clock.now += 20 * DAY
    store.prune()
    assert "the first text" in journal_text(tmp_path)

    clock.now += 20 * DAY
    store.prune()
    assert "the first text" not in journal_text(tmp_path)
    assert "the second text" in journal_text(tmp_path)


def journal_text(root: Path) -> str:
    return "".join(path.read_text(errors="replace") for path in (root / ".history").iterdir())


def test_a_crash_before_the_segments_were_removed_doubles_nothing(tmp_path: Path) -> None:
    clock = Clock()
    store = long_past(tmp_path, clock, segments=4)
    before = told(store)
    aside = tmp_path.parent / "aside"
    shutil.copytree(tmp_path / ".history", aside)
    clock.now += 40 * DAY
    store.prune()

    for path in aside.glob("journal-*"):
        if not (tmp_path / ".history" / path.name).exists():
            shutil.copy(path, tmp_path / ".history")
    assert told(store) == before
    assert store.adopt(None) is None

    store.prune()
    assert told(store) == before
    assert len(segments(tmp_path)) == 1


def untouchable(root: Path) -> None:
    """Put links to nowhere in the place of sealed segments: whoever opens one fails. The oldest tells its age."""
    for path in segments(root)[1:-1]:
        path.unlink()
        path.symlink_to("nowhere")


def in_a_sheaf(root: Path, cache: Path, work: Callable[[Sheaf], object]) -> None:
    with Sheaf.open("user", settings=Settings(home=str(root.parent), cache=str(cache), embedder="none")) as sheaf:
        work(sheaf)


def test_save_undo_log_open_and_a_first_look_read_no_sealed_segment(tmp_path: Path) -> None:
    root, clock = tmp_path / "user", Clock()
    clock.now = time.time()
    long_past(root, clock)
    (root / "user_busy.md").unlink()
    in_a_sheaf(root, tmp_path / "cache", lambda sheaf: sheaf.list())
    untouchable(root)

    (root / "user_third.md").unlink()
    noticed: list[str] = []

    def work(sheaf: Sheaf) -> None:
        assert {row.path for row in sheaf.list()} == {"user_first.md", "user_second.md"}
        sheaf.write("New", "About new", "user", "A new text.")
        sheaf.undo()
        noticed.extend(step.path for commit in sheaf.log(limit=3) for step in commit.revisions)

    in_a_sheaf(root, tmp_path / "another cache", work)
    assert noticed == ["user_new.md", "user_new.md", "user_third.md"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(b"user_", b"../u_").replace(b'{"through"', b'{"beyond"') + data,
        lambda data: data.replace(b'"after": "', b'"after": "0'),
        lambda data: data.replace(b'{"through": ', b'{"through": 99'),
        lambda data: b"\xff\0\n" * 99 + data,
    ],
)
def test_a_spoilt_note_of_the_heads_changes_nothing(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    store = long_past(tmp_path, Clock(), segments=4)
    notes = tmp_path / ".history" / "heads"
    notes.write_bytes(spoil(notes.read_bytes()))

    assert store.adopt(None) is None
    assert store.adopt(["user_first.md", "user_busy.md"]) is None
    change(store, "user_first.md", b"by hand\n")
    assert store.undo(by="user").revisions[0].path == "user_first.md"
    assert b"the first text" in (tmp_path / "user_first.md").read_bytes()


def test_what_is_erased_is_in_no_archive_and_no_note(tmp_path: Path) -> None:
    root, clock = tmp_path / "user", Clock()
    store = long_past(root, clock)
    clock.now += 40 * DAY
    store.prune()
    for number in range(4):
        change(store, "user_busy.md", large(f"later {number}"))
    store.close()
    assert "user_first.md" in (root / ".history" / "heads").read_text()
    assert "user_first.md" in (root / ".history" / "kept").read_text()

    in_a_sheaf(root, tmp_path / "cache", lambda sheaf: erase(sheaf.own, "user_first.md"))

    assert "first" not in journal_text(root)
    assert len(list(store.history("user_second.md"))) == 1


def test_notes_of_a_day_cost_the_journal_little_more_than_themselves(tmp_path: Path) -> None:
    store = FolderStore(str(tmp_path))
    texts = [b""]
    for number in range(40):
        texts.append(texts[-1] + f"- note {number} ünï {'x' * 220}\n".encode())
        change(store, "log.md", texts[-1])

    assert sum(path.stat().st_size for path in segments(tmp_path)) < 4 * len(texts[-1])
    for text in reversed(texts[1:]):
        assert store.version("log.md", version_of(text)) == text
    for text in reversed(texts[1:-1]):
        store.undo(by="user")
        assert (tmp_path / "log.md").read_bytes() == text


def test_what_was_appended_survives_retention_erasure_and_another_segment(tmp_path: Path) -> None:
    clock = Clock()
    store = FolderStore(str(tmp_path), clock=clock)
    text = b"x" * 600
    versions = []
    for number in range(40):
        text += f"line {number}\n".encode()
        versions.append(text)
        change(store, "log.md", text)
        change(store, "noise.md", large(f"noise {number}") if number % 8 == 0 else f"noise {number}".encode())
        clock.now += DAY
    clock.now += 5 * DAY
    store.prune()
    store.erase("noise.md", by="user")

    recent = versions[-24:]
    assert [store.version("log.md", version_of(one)) for one in recent] == recent
    with pytest.raises(VersionGone):
        store.version("log.md", version_of(versions[2]))
    assert store.damaged() == []
    assert "noise" not in journal_text(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "journal-²²²²²².jsonl",
        "journal-999999.jsonl",
        "journal-0000001.jsonl",
        "journal-٠٠٠٠٠٢.jsonl",
        "journal-000009.jsonl.bak",
        "archive-999999.jsonl",
        "archive-²²²²²².jsonl",
        "journal-99999999999999999999.jsonl",
    ],
)
def test_a_name_that_somebody_else_made_up_ends_no_command(tmp_path: Path, name: str) -> None:
    store = FolderStore(str(tmp_path))
    change(store, "a.md", b"one\n")
    (tmp_path / ".history" / name).write_bytes(b'{"sealed": true}\n{"folded": 999999}\n')

    store = FolderStore(str(tmp_path))
    change(store, "a.md", b"two\n")
    assert store.adopt(None) is None
    assert store.prune() == 0
    assert [step.after for commit in store.history() for step in commit.revisions] == [
        version_of(b"two\n"),
        version_of(b"one\n"),
    ]
    store.undo(by="user")
    assert Path(tmp_path, "a.md").read_bytes() == b"one\n"
    assert store.damaged() == []
    os.unlink(tmp_path / ".history" / name)


@pytest.mark.parametrize("number", [999_999_998, 999_999_999])
def test_a_journal_at_its_last_number_grows_and_stays_in_order(tmp_path: Path, number: int) -> None:
    store = FolderStore(str(tmp_path))
    change(store, "a.md", b"one\n")
    (tmp_path / ".history" / f"journal-{number}.jsonl").write_bytes(b'{"sealed": true}\n')
    texts = [b"one\n", *(large(f"turn {turn}") for turn in range(9))]

    for text in texts[1:]:
        change(FolderStore(str(tmp_path)), "a.md", text)

    store = FolderStore(str(tmp_path))
    after = [step.after for commit in store.history() for step in commit.revisions]
    assert after == [version_of(text) for text in reversed(texts)]
    assert max(path.name for path in segments(tmp_path)) == "journal-999999999.jsonl"
    store.undo(by="user")
    assert Path(tmp_path, "a.md").read_bytes() == texts[-2]
    with pytest.raises(StoreFailed, match="no number left"):
        store.graft([Commit("5f0c", "2026-11-01T00:00:00.000Z", "user", "", ())])
    assert Path(tmp_path, "a.md").read_bytes() == texts[-2]
    assert [name for name in os.listdir(tmp_path / ".history") if name.startswith("draft")] == []


# what stands in the journal's folder and is not ours


@pytest.mark.parametrize("kind", ["link", "folder"])
@pytest.mark.parametrize(
    "name",
    ["heads", "kept", "pruned", "tombstones", "catalogs", "uses", "journal-000009.jsonl", "archive-000001.jsonl"],
)
def test_what_is_no_plain_file_among_the_journals_files_makes_no_change_look_refused(
    tmp_path: Path, name: str, kind: str
) -> None:
    settings = Settings(str(tmp_path), embedder="none", cache=str(tmp_path / "cache"), state=str(tmp_path / "state"))
    place = tmp_path / "user" / ".history" / name
    place.parent.mkdir(parents=True)
    if kind == "link":
        place.symlink_to(tmp_path / "elsewhere")
    else:
        place.mkdir()
    for word in ("kestrel", "heron"):
        with Sheaf.open("user", settings=settings, by="user") as sheaf:
            sheaf.write(word, f"About the {word}", "user", f"The {word} nests in May.")
    with Sheaf.open("user", settings=settings, by="user") as sheaf:
        assert {row.name for row in sheaf.list()} == {"kestrel", "heron"}
        assert len(list(sheaf.own.store.history())) == 2
        sheaf.undo()
        assert {row.name for row in sheaf.list()} == {"kestrel"}
    assert not (tmp_path / "elsewhere").exists()


def test_a_segment_whose_seal_is_lost_is_not_taken_for_the_last(tmp_path: Path) -> None:
    store = long_past(tmp_path, Clock())
    before, last = told(store), segments(tmp_path)[-1]
    (tmp_path / ".history" / "heads").write_bytes(b'{"through": 3}\n')
    fourth = segments(tmp_path)[3]
    fourth.write_bytes(fourth.read_bytes().replace(b'{"sealed": true}\n', b""))

    change(FolderStore(store.root), "user_new.md", b"new")

    assert b"user_new.md" in last.read_bytes()
    assert told(store)[1:] == before
