from __future__ import annotations

import os
from pathlib import Path

from databases import history
from memsheaf.sheaf import Sheaf
from memsheaf.work.checks import examine

PLAIN = "---\nname: n\ndescription: d\ntype: user\n---\nbody\n"


def write(sheaf: Sheaf, path: str, data: bytes | str) -> None:
    os.makedirs(sheaf.root, exist_ok=True)
    Path(sheaf.root, path).write_bytes(data.encode() if isinstance(data, str) else data)


def found(sheaf: Sheaf) -> list[tuple[str, str]]:
    return [(finding.level, finding.path) for finding in examine(sheaf)]


def test_a_scope_without_a_memory_is_not_ill(sheaf: Sheaf) -> None:
    assert found(sheaf) == [("info", sheaf.root)]
    assert not os.path.exists(sheaf.root)


def test_sound_memories_give_nothing_to_say(sheaf: Sheaf) -> None:
    sheaf.write("First", "D", "user", "x")
    sheaf.put("NOTES.md", "free text", free=True)
    sheaf.revise("user_first.md", "x", "y")

    assert examine(sheaf) == []


def test_each_kind_of_problem_is_found_and_comes_with_advice(sheaf: Sheaf) -> None:
    sheaf.write("Sound", "D", "user", "x")
    cases: list[tuple[str, bytes | str, str, str]] = [
        ("bad.md", "---\nname: [\n---\nx\n", "error", "line"),
        ("open.md", "---\nname: n\nno end\n", "error", "closing"),
        ("empty.md", "", "error", "empty"),
        ("bytes.md", b"caf\xe9", "error", "UTF-8"),
        ("zero.md", b"\0" * 512, "error", "zero"),
        ("large.md", "x" * 300_000, "error", "larger"),
        ("huge.md", "x" * 1_500_000, "error", "larger"),
        ("con.md", PLAIN, "error", "name"),
        ("CLAUDE.md", PLAIN, "error", "name"),
        ("n.sync-conflict-20260305-101010-ABCDEFG.md", PLAIN, "warning", "copy"),
        ("n (conflicted copy).md", PLAIN, "warning", "copy"),
        ("odd.md", PLAIN.replace("user", "recipe"), "warning", "recipe"),
        ("typeless.md", PLAIN.replace("type: user\n", ""), "warning", "type"),
        ("merge.md", PLAIN + "<<<<<<< HEAD\na\n=======\nb\n>>>>>>> x\n", "warning", "conflict"),
        ("hash.md", PLAIN.replace("name: n", "name: issue #42"), "warning", "comment"),
        ("claim.md", PLAIN.replace("type: user", "type: user\ntrust: unconfirmed"), "info", "unconfirmed"),
    ]
    for path, data, _, _ in cases:
        write(sheaf, path, data)

    findings = examine(sheaf)

    assert sorted(found(sheaf)) == sorted((level, path) for path, _, level, _ in cases)
    assert [finding.level for finding in findings] == ["error"] * 9 + ["warning"] * 6 + ["info"], "the worst first"
    problems = {finding.path: finding.problem for finding in findings if finding.advice}
    assert [path for path, _, _, said in cases if said not in problems[path]] == []


def test_what_is_not_a_plain_file_is_found(sheaf: Sheaf, tmp_path: Path) -> None:
    sheaf.write("Sound", "D", "user", "x")
    (tmp_path / "target.md").write_text(PLAIN)
    Path(sheaf.root, "a.md").symlink_to(tmp_path / "target.md")
    Path(sheaf.root, "b.md").symlink_to(tmp_path / "nowhere")
    Path(sheaf.root, "c.md").mkdir()
    os.mkfifo(Path(sheaf.root, "d.md"))

    assert found(sheaf) == [("error", name) for name in ("a.md", "b.md", "c.md", "d.md")]


def test_a_history_that_was_damaged_is_found_and_the_memories_still_work(sheaf: Sheaf) -> None:
    first = sheaf.write("First", "D", "user", "a text")
    sheaf.own.store.close()
    history(sheaf.root).write_bytes(b"this is no database, and never was one" * 1000)
    sheaf.write("Second", "D", "user", "x")

    [finding] = examine(sheaf)

    assert (finding.level, finding.path[: len(".history/history.db.damaged-")]) == (
        "warning",
        ".history/history.db.damaged-",
    )
    assert ".recover" in finding.advice
    assert sheaf.read(first.path).body == "a text\n"
    assert [commit.why for commit in sheaf.log("user_second.md")] == ["remember Second"]


def test_a_folder_that_everybody_may_write_to_is_found(sheaf: Sheaf) -> None:
    sheaf.write("Sound", "D", "user", "x")
    os.chmod(sheaf.root, 0o777)

    findings = examine(sheaf)

    assert [(finding.level, finding.path) for finding in findings] == [("warning", sheaf.root)]
    os.chmod(sheaf.root, 0o700)
    assert examine(sheaf) == []


def test_looking_changes_no_memory(sheaf: Sheaf) -> None:
    sheaf.write("Sound", "D", "user", "x")
    write(sheaf, "bad.md", "---\nname: [\n---\n")
    before = {path: path.read_bytes() for path in Path(sheaf.root).glob("*.md") if path.name != "MEMORY.md"}

    examine(sheaf)

    assert {path: path.read_bytes() for path in before} == before
