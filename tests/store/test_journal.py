"""Where the journal left a path: found without reading all else of its commits."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsheaf.store import ABSENT, Change, Commit, Revision, version_of
from memsheaf.store.folder import FolderStore
from memsheaf.store.journal import FEW, Journal
from memsheaf.store.journal_lines import decode, encode
from memsheaf.store.safe_dir import Folder

TEXTS = ["plain\n", '{"path": "b.md", "before": ""}\n', '"quotes" \\ and {"path": "a.md", \n', "猫 🦓\n", ""]
PATHS = ["a.md", "b.md", 'quote".md'.replace('"', "'"), "猫.md", "sub/a.md"]


def heads(root: Path, paths: list[str] | None) -> dict[str, tuple[str, bytes | None]]:
    with Folder.open(str(root)) as folder, folder.folder(".history") as history:
        journal = Journal(history)
        try:
            steps = {path: journal.last_step(path, head) for path, head in journal.heads(paths).items()}
            return {path: (step.after, step.new) for path, step in steps.items() if step}
        finally:
            journal.close()


@given(st.lists(st.lists(st.tuples(st.sampled_from(PATHS), st.sampled_from(TEXTS)), min_size=1), max_size=5))
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_few_paths_are_where_a_look_at_everything_finds_them(
    tmp_path_factory: pytest.TempPathFactory, story: list[list[tuple[str, str]]]
) -> None:
    root = tmp_path_factory.mktemp("root")
    store = FolderStore(str(root))
    now: dict[str, str] = {}
    for step in story:
        changes = []
        for path, text in dict(step).items():
            if now.get(path) != text:
                expect = version_of(now[path].encode()) if path in now else ABSENT
                changes.append(Change(path, text.encode(), expect))
                now[path] = text
        if changes:
            store.commit(changes, by="agent")
    store.close()
    if now:
        assert len(PATHS) <= FEW
        assert (
            heads(root, PATHS)
            == heads(root, None)
            == {path: (version_of(text.encode()), text.encode()) for path, text in now.items()}
        )


def test_rot_in_one_text_of_a_commit_hides_no_other(tmp_path: Path) -> None:
    store = FolderStore(str(tmp_path))
    store.commit([Change(f"{name}.md", f"text {name}\n".encode(), ABSENT) for name in "abc"], by="agent")
    store.close()
    journal = next((tmp_path / ".history").glob("journal-*"))
    journal.write_bytes(journal.read_bytes().replace(b"text b", b"rot b!"))

    assert sorted(heads(tmp_path, ["a.md", "b.md", "c.md"])) == ["a.md", "c.md"]
    assert heads(tmp_path, ["a.md"])["a.md"][1] == b"text a\n"


def test_a_commit_that_is_not_in_place_yet_does_not_count(tmp_path: Path) -> None:
    store = FolderStore(str(tmp_path))
    store.commit([Change("a.md", b"one\n", ABSENT)], by="agent")
    store.commit([Change("a.md", b"two\n", version_of(b"one\n"))], by="agent")
    store.close()
    journal = next((tmp_path / ".history").glob("journal-*"))
    lines = journal.read_bytes().splitlines(keepends=True)
    second = max(number for number, line in enumerate(lines) if b'"two' in line)
    journal.write_bytes(b"".join(lines[: second + 1]))

    assert heads(tmp_path, ["a.md"])["a.md"][1] == b"one\n"


def test_a_line_with_something_else_for_a_version_is_no_commit() -> None:
    step = Revision("a.md", ABSENT, version_of(b"x"), None, None)
    line = encode(Commit("0" * 12, "2026-11-15T00:00:00.000Z", "user", "", (step,)), "boot")

    assert decode(line)
    assert decode(line.replace(b'"before": ""', b'"before": "../x"')) is None
    assert decode(line.replace(step.after.encode(), b"../x")) is None
