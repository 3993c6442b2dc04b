"""No secret reaches the disk: every channel refuses, and not a byte of the value is left anywhere."""

from __future__ import annotations

import json
import os
import re
import time
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from command_line import environment_in, run_command
from memsheaf.config import Settings
from memsheaf.errors import MemsheafError, SecretFound
from memsheaf.memory import Allow
from memsheaf.sheaf import Sheaf
from memsheaf.store import ABSENT
from memsheaf.tools import TOOLS, Tools, schema
from memsheaf.transfer import take_in
from memsheaf.work.checks import examine

CORPUS = Path(__file__).parent / "corpora" / "secrets.json"
CASES: list[dict[str, Any]] = json.loads(CORPUS.read_text(encoding="utf-8"))["cases"]
SECRETS = [
    ("".join(case["parts"]), "".join(case["parts"][place] for place in case["secret"]))
    for case in CASES
    if case["expect"] in ("flag", "flag_best_effort")
]
HARMLESS = ["".join(case["parts"]) for case in CASES if case["expect"] == "pass"]
EVERY = 1 if os.environ.get("MEMSHEAF_LONG") else 12  # such a secret takes all ways in, the others one each
KEY = "AKIAZFAKE" + "FAKEFAKE234"
OTHER = "glpat-FAKEfake" + "0123456789ab"
HEAD = "---\nname: N\ndescription: d\ntype: user\n---\n"


@pytest.fixture
def sheaf(tmp_path: Path) -> Iterator[Sheaf]:
    settings = Settings(home=str(tmp_path / "home"), cache=str(tmp_path / "cache"), embedder="none")
    with Sheaf.open("user", settings=settings) as sheaf:
        sheaf.write("Sound", "D", "user", "one\ntwo")
        yield sheaf


def traces(folder: Path, value: str) -> list[str]:
    """Where below a folder anything of the value is: in names, in bytes, spelt as JSON spells it, in any case."""
    core = max(re.findall(r"[A-Za-z0-9]+|[a-z ]+", value), key=len)
    forms = {form.lower().encode() for form in (value, json.dumps(value)[1:-1], core)}
    found = []
    for path in folder.rglob("*"):
        data = os.fsencode(path.name) + (path.read_bytes() if path.is_file() else b"")
        found += [path.name for form in forms if form in data.lower()]
    return found


def some(number: int, ways: list[Any]) -> list[Any]:
    """The ways in that a secret of the corpus takes: all, or one of them in turn."""
    return ways if number % EVERY == 0 else [ways[number % len(ways)]]


def said(error: MemsheafError) -> str:
    return f"{error} {error.hint} {error!r} {error.__dict__}"


def test_no_secret_of_the_corpus_passes_through_the_library(sheaf: Sheaf, tmp_path: Path) -> None:
    for number, (text, value) in enumerate(SECRETS):
        line = " ".join(text.split())
        attempts: list[Callable[[], object]] = [
            partial(sheaf.write, "N", "d", "user", text),
            partial(sheaf.write, "Sound", "D", "user", text, replace=True),
            partial(sheaf.revise, "user_sound.md", "one", text),
            partial(sheaf.insert, "user_sound.md", 1, text),
            partial(sheaf.put, "n.md", HEAD + text + "\n"),
            partial(sheaf.put, "n.md", text, free=True),
            partial(sheaf.put, "NOTES.md", text, free=True),
            partial(sheaf.put, "n.md", HEAD + "x", why=text),
            partial(sheaf.forget, "user_sound.md", why=text),
        ]
        for attempt in some(number, attempts):
            with pytest.raises(SecretFound) as caught:
                attempt()
            assert value not in said(caught.value)
        fields: list[dict[str, Any]] = [{"reason": line}, {"conversation": line}, {"citations": [line]}]
        for given in some(number, [{"name": line}, {"description": line}, *fields]):
            with pytest.raises(MemsheafError) as refused:  # what cannot be seen in a line is refused before
                sheaf.write(**{"name": "N", "description": "d", "type": "user", "content": "x", **given})
            assert value not in said(refused.value)
        assert traces(tmp_path, value) == []
    assert [row.path for row in sheaf.list()] == ["user_sound.md"]


def test_no_secret_of_the_corpus_passes_through_the_tools(sheaf: Sheaf, tmp_path: Path) -> None:
    tools = Tools(sheaf)
    fact = {"name": "N", "description": "d", "type": "user", "content": "x"}
    for number, (text, value) in enumerate(SECRETS):
        calls: list[tuple[str, dict[str, object]]] = [
            ("memory_write", {**fact, "name": text}),
            ("memory_write", {**fact, "description": text}),
            ("memory_write", {**fact, "type": text}),
            ("memory_write", {**fact, "content": text}),
            ("memory_write", {"filename": "n.md", "content": text}),
            ("memory_update", {"filename": "user_sound.md", "old_text": "one", "new_text": text}),
            ("memory_insert", {"filename": "user_sound.md", "line": 0, "text": text}),
        ]
        for name, arguments in some(number, calls):
            answer = tools.call(name, arguments)
            assert answer.startswith("Error: "), (name, arguments)
            assert value not in answer
        assert traces(tmp_path, value) == []
    assert "remember only where that is" in tools.call("memory_write", {**fact, "content": KEY})


def test_a_secret_is_no_name_for_a_file_and_is_not_said_again(sheaf: Sheaf, tmp_path: Path) -> None:
    for filename in (f"{KEY}.md", f"../{KEY}.md", f"a/{OTHER}/b.md", f"{OTHER}"):
        answer = Tools(sheaf).call(
            "memory_write", {"name": "N", "description": "d", "type": "user", "content": "x", "filename": filename}
        )
        assert answer.startswith("Error: ")
        with pytest.raises(MemsheafError) as caught:
            sheaf.write("N", "d", "user", "x", path=filename)
        code, out = run(tmp_path, "remember", "x", "--name", "N", *ADD, "--replaces", filename)
        assert code == 1
        for words in (answer, said(caught.value), out):
            assert KEY not in words
            assert OTHER not in words
    assert traces(tmp_path, KEY) == traces(tmp_path, OTHER) == []


def test_tools_have_no_way_to_insist() -> None:
    assert "secret" not in json.dumps([schema(tool) for tool in TOOLS]).lower()


def run(tmp_path: Path, *words: str, **more: str) -> tuple[int, str]:
    environment = environment_in(tmp_path, MEMSHEAF_SCOPE="user", TMPDIR=str(tmp_path / "tmp"), **more)
    code, out, err = run_command(words, environment)
    return code, out + err


ADD = ("--description", "d", "--type", "user")


def test_no_secret_of_the_corpus_passes_through_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    assert run(tmp_path, "remember", "one", "--name", "Sound", *ADD)[0] == 0
    for number, (text, value) in enumerate(SECRETS[:: min(4, EVERY)]):
        lines = [
            ("remember", text, "--name", "N", *ADD),
            ("remember", "x", "--name", text, *ADD),
            ("remember", "x", "--name", "N", "--description", text, "--type", "user"),
            ("remember", "x", "--name", "N", "--description", "d", "--type", text),
            ("remember", "x", "--name", "N", *ADD, "--replaces", text),
            ("edit", "user_sound.md", "--old", "one", "--new", text),
            ("edit", "user_sound.md", "--rename", text),
        ]
        for words in some(number, lines):
            code, out = run(tmp_path, *words, *(["--json"] if number % 2 else []))
            assert code != 0, words
            assert value not in out
        assert traces(tmp_path, value) == []


def test_a_person_may_insist(sheaf: Sheaf, tmp_path: Path) -> None:
    kept = sheaf.write("N", f"key {KEY}", "user", "x", allow=Allow(secrets=True))
    sheaf.revise("user_sound.md", "one", KEY, allow=Allow(secrets=True))
    sheaf.insert("user_sound.md", 0, OTHER, allow=Allow(secrets=True))
    sheaf.put("free.md", KEY, free=True, allow=Allow(secrets=True))

    assert KEY in sheaf.read(kept.path).text
    code, out = run(tmp_path, "remember", KEY, "--name", "M", *ADD)
    assert code == 1
    assert "--allow-secret" in out
    assert run(tmp_path, "remember", KEY, "--name", "M", *ADD, "--allow-secret")[0] == 0
    assert KEY in sheaf.read("user_m.md").body


def test_a_refusal_says_what_and_where(sheaf: Sheaf) -> None:
    def where(name: str, description: str, content: str) -> str:
        with pytest.raises(SecretFound) as caught:
            sheaf.write(name, description, "user", content)
        assert caught.value.hint == "Keep it where secrets are kept, and remember only where that is."
        return str(caught.value)

    assert where("N", "d", f"a\nb {KEY}") == "line 2 of the text holds an AWS access key; nothing was stored"
    assert where("N", f"key {KEY}", "a") == "the description holds an AWS access key; nothing was stored"
    assert where(f"key {OTHER}", "d", "a") == "the name holds a GitLab token; nothing was stored"
    assert where(f"key {KEY}", f"key {KEY}", f"key {KEY}") == "the text holds an AWS access key; nothing was stored"


def test_a_header_cannot_spell_a_secret_past_the_gate(sheaf: Sheaf) -> None:
    spelt = HEAD.replace("description: d", f'description: "\\x{ord(KEY[0]):02x}{KEY[1:]}"')

    with pytest.raises(SecretFound):
        sheaf.put("n.md", spelt + "x\n")


def test_an_old_secret_does_not_block_an_unrelated_edit(sheaf: Sheaf) -> None:
    Path(sheaf.root, "old.md").write_text(f"{HEAD}mine is {KEY}\nand more\n", encoding="utf-8")

    sheaf.revise("old.md", "and more", "and less")
    sheaf.insert("old.md", 0, "first")
    assert f"mine is {KEY}" in sheaf.read("old.md").body
    with pytest.raises(SecretFound):
        sheaf.revise("old.md", "and less", OTHER)
    sheaf.revise("old.md", KEY, "in the vault")
    with pytest.raises(SecretFound):
        sheaf.revise("old.md", "in the vault", KEY)


def test_a_memory_with_a_secret_in_its_name_can_be_forgotten(sheaf: Sheaf) -> None:
    sheaf.write(f"key {KEY}", "d", "user", "x", path="k.md", allow=Allow(secrets=True))

    sheaf.forget("k.md")

    assert [row.path for row in sheaf.list()] == ["user_sound.md"]


def test_an_older_version_of_ours_comes_back(sheaf: Sheaf) -> None:
    first = sheaf.write("N", "d", "user", KEY, allow=Allow(secrets=True))
    sheaf.revise(first.path, KEY, "gone")

    sheaf.own.restore(first.path, first.version)
    sheaf.forget(first.path)
    sheaf.undo()

    assert KEY in sheaf.read(first.path).body


def test_an_import_leaves_out_what_holds_a_secret_and_names_it(sheaf: Sheaf, tmp_path: Path) -> None:
    for number, (text, _) in enumerate(SECRETS[:: min(4, EVERY)]):
        with zipfile.ZipFile(tmp_path / f"{number}.zip", "w") as bundle:
            bundle.writestr("good.md", HEAD + "fine\n")
            bundle.writestr("bad.md", HEAD + text + "\n")
        done = take_in(sheaf.own, str(tmp_path / f"{number}.zip"))
        assert [path for path, _ in done.refused] == ["bad.md"]
        assert "holds" in done.refused[0][1]
        assert sheaf.read("good.md").body == "fine\n"
    assert all(traces(tmp_path / part, value) == [] for _, value in SECRETS for part in ("home", "cache"))
    assert take_in(sheaf.own, str(tmp_path / "0.zip"), allow=Allow(secrets=True)).added == ["bad.md"]


def test_an_import_does_not_say_a_secret_that_is_a_file_s_name(sheaf: Sheaf, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / f"{KEY}.md").write_text(HEAD + "x\n", encoding="utf-8")

    done = take_in(sheaf.own, str(tmp_path / "in"))

    assert done.refused == [
        ("[removed: an AWS access key].md", "the file name holds an AWS access key; nothing was stored")
    ]


def test_an_edit_that_is_refused_keeps_the_person_s_text_without_the_secret(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    run(tmp_path, "remember", "one", "--name", "Sound", *ADD)
    editor = tmp_path / "editor.sh"
    editor.write_text(
        f'#!/bin/sh\necho "a long thought" >> "$1"\necho "AKIAZFAKE""{KEY[9:]}" >> "$1"\ncp "$1" "$1~"\n'
    )
    editor.chmod(0o700)

    code, out = run(tmp_path, "edit", "user_sound.md", EDITOR=str(editor))

    assert code == 1
    (kept,) = [path for path in (tmp_path / "tmp").rglob("*") if path.is_file()]
    assert str(kept) in out
    assert "--allow-secret" in out
    assert kept.read_text(encoding="utf-8").endswith("one\na long thought\n[removed: an AWS access key]\n")
    assert traces(tmp_path, KEY) == []
    assert run(tmp_path, "edit", "user_sound.md", "--allow-secret", EDITOR=str(editor))[0] == 0


def test_the_doctor_finds_what_slipped_in_and_does_not_say_it(sheaf: Sheaf, tmp_path: Path) -> None:
    for number, (text, value) in enumerate([*SECRETS[:: min(5, EVERY)], SECRETS[-1]]):
        path = Path(sheaf.root, "old.md")
        path.write_text(f"{HEAD if number % 2 else ''}fine\n{text}\n", encoding="utf-8")
        findings = [finding for finding in examine(sheaf) if "holds" in finding.problem]
        assert [(finding.level, finding.path) for finding in findings] == [("warning", "old.md")]
        assert findings[0].problem.startswith("line ")
        assert value not in repr(findings)
    code, out = run(tmp_path, "doctor", "--json")
    assert code == 0
    assert SECRETS[-1][1] not in out
    assert json.loads(out)["findings"][0]["path"] == "old.md"


def test_harmless_texts_are_stored_unchanged_and_the_doctor_is_content(sheaf: Sheaf) -> None:
    for number, text in enumerate(HARMLESS):
        memory = sheaf.put(f"{number}.md", f"{HEAD}{text}\n", expect=ABSENT)
        assert sheaf.read(memory.path).body == f"{text}\n"
    assert not [finding for finding in examine(sheaf) if "holds" in finding.problem]


def test_what_is_far_too_large_is_refused_before_anything_else_is_done(sheaf: Sheaf) -> None:
    def cost(attempt: Callable[[], object]) -> float:
        begin = time.process_time()
        with pytest.raises(MemsheafError):
            attempt()
        return time.process_time() - begin

    large, honest = "tomorrow " * 800_000, f"on Friday {KEY} " * 4_000
    judged = cost(lambda: sheaf.put("n.md", honest, free=True))
    for attempt in (
        lambda: sheaf.write("N", "d", "user", large),
        lambda: sheaf.write("N", large, "user", "x"),
        lambda: sheaf.write(large, "d", "user", "x"),
        lambda: sheaf.revise("user_sound.md", "one", large),
        lambda: sheaf.insert("user_sound.md", 0, large),
        lambda: sheaf.put("n.md", HEAD + large),
        lambda: sheaf.put("n.md", large, free=True),
        lambda: sheaf.put("n.md", "x", free=True, why=large),
    ):
        assert cost(attempt) < judged


@pytest.mark.parametrize("path", ["mine.md", "MEMORY-kept.md", "user_headed.md"])
def test_the_first_line_of_what_somebody_wrote_by_hand_is_told_without_its_secret(sheaf: Sheaf, path: str) -> None:
    head = "---\nname: N\ntype: user\n---\n" if path.startswith("user") else ""
    long = "the zebra service of the staging cluster " * 12
    Path(sheaf.root, path).write_text(f"{head}{long}{KEY} is the key\n\nAnd {OTHER} for the zebra.\n")

    (row,) = [row for row in sheaf.list() if row.path == path]
    told = [row.description, sheaf.prompt(), sheaf.catalog().text, Path(sheaf.root, "MEMORY.md").read_text()]
    recalled = sheaf.recall("What is the key of the zebra service in the staging cluster?")

    assert all(KEY[:6] not in text for text in told)
    assert "zebra" in row.description
    assert "zebra" in recalled.text
    if not head:
        assert KEY not in recalled.text
        assert OTHER not in recalled.text
    Path(sheaf.root, path).write_text(f"{head}{KEY}\n")
    (row,) = [row for row in sheaf.list() if row.path == path]
    assert row.description == "[removed: an AWS access key]"
