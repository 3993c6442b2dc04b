"""Plain mistakes and hostile words, through every command that takes them: nothing changes.

The whole path corpus goes through the commands in `tests/test_traversal.py`.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

from cases import sample
from memsheaf.cli.commands import COMMANDS

Run = Callable[..., tuple[int, str, str]]
Tree = Callable[[], dict[str, bytes]]
CASES = json.loads((Path(__file__).parent.parent / "corpora" / "traversal.json").read_text())["cases"]
REJECTED = [case["input"] for case in CASES if case["surface"] == "name" and case["expect"] == "reject"]
FACT = b"---\nname: N\ndescription: d\ntype: user\n---\nText.\n"

BY_NAME: dict[str, tuple[str, ...]] = {
    "show": (),
    "remember": ("Text.", "--replaces"),
    "edit": ("--old", "a", "--new", "b"),
    "forget": (),
    "log": (),
    "diff": (),
    "restore": (),
    "erase": ("--yes",),
}


def line(command: str, name: str) -> list[str]:
    """A command's line for a memory of this name."""
    options = BY_NAME[command]
    if command == "remember":
        return [command, *options, name]
    return [command, *options, "--", name, *(["98af5cb2fc62"] if command == "restore" else [])]


def test_a_hostile_name_is_refused_by_the_real_program_too(
    tmp_path: Path, tabs: str, tree: Tree, environment: dict[str, str]
) -> None:
    (tmp_path / "home" / "projects" / "secret.md").write_bytes(FACT)
    before = tree()
    program = [sys.executable, "-m", "memsheaf", *line("forget", "../secret.md")]
    done = subprocess.run(program, env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert tree() == before


def test_a_hostile_name_of_a_task_or_a_session_is_refused(run: Run, tree: Tree) -> None:
    run("task", "start", "Feature X")
    run("session", "start", "Work", "-s", "session/one")
    run("session", "note", "Releases go out on Fridays", "--section", "key")
    item = json.loads(run("promote", "--json")[1])["items"][0]["id"]
    before = tree()

    for name in sample(REJECTED, 3):  # all of them go through `tests/test_traversal.py`
        for words in (
            ["task", "status", f"--scope=task/{name}"],
            ["task", "note", "x", f"--scope=task/../{name}"],
            ["task", "note", "text", f"--file=../{name}"],
            ["session", "note", "x", f"--scope=session/../{name}"],
            ["session", "start", f"--scope=session/{name}"],
            ["promote", item, f"--to=task/{name}"],
            ["promote", item, f"--to=team/{name}", "--yes"],
            ["promote", item, "--reason", "r", f"--cite=../{name}:1"],
            ["audit", f"--scope=task/{name}"],
        ):
            assert run(*words)[0] in (1, 2), words
    assert tree() == before


LOOKS = (
    "list; search x; recall tabs; recall --why tabs; show; show --prompt; log; scopes; doctor; audit; notes; review; "
    "task; task status --all; task phase; task event; session show --all; session; notes set --prune; "
    "notes diary --since 2026-11-15; learn --waiting; chat --list; promote; consolidate; consolidate --if-due; hub; "
    "doctor --cost 3; config; help --all"
)


def test_looking_creates_nothing(run: Run, tree: Tree) -> None:
    before = tree()

    for words in LOOKS.split("; "):
        assert run(*words.split(" "))[0] in (0, 1), words
        assert tree() == before, words


MISTAKES = """
chat 1: --model 'no model' -p hello ; --model nobody:x -p hello ; --scope nobody -p hello
chat 1: --resume 20990101 -p hello ; --resume -p hello ; --list last ; --list 2026 ; --remove ../secret --yes
learn 1: --model nonsense:model ; - --later ; --waiting --scope nobody
review 1: --approve ffff ; --reject none.md
remember 1: 'The password is Corr3ct-H0rse-Fake' ; 'Use tabs.' --replaces nothing.md ; x --replaces ../secret.md
remember 1: 'The password is Corr3ct-H0rse-Fake' --name Fact --description d -t user
remember 1: Text. --name 'Prefers tabs' --description d -t user
remember 1: 'Tests run with make.' --reason r ; 'Maybe.' --name Subject --cite x.py:1 --reason r -t project
remember 1: 'Tests run with make.' --replaces nothing.md --reason r
edit 1: user_prefers-tabs.md --old '' --new x ; user_prefers-tabs.md --old zebra --new x
edit 1: user_prefers-tabs.md --old 'Use tabs.' --new 'password: Corr3ct-H0rse-Fake'
edit 1: user_prefers-tabs.md --old s --new x ; user_prefers-tabs.md --old 'type: user' --new 'type: ../../x'
edit 1: nothing.md --old a --new b ; nothing.md
edit 2: user_prefers-tabs.md --old a ; user_prefers-tabs.md --pin maybe
forget 1: nothing.md
forget 2:  ; nothing.md --all ; -t user
list 2: x ; --type '' ; --typ user ; --scope
show 1: nothing.md ; --prompt --scope nobody
search 2:  ; x --limit 0
recall 1: --scope nobody 'tabs or spaces?' ; --why --scope nobody 'tabs or spaces?'
audit 1: nothing.md ; --cite nothing.py ; --cite ../x.py ; --cite https://example.com/x ; --scope nonsense
consolidate 1: --scope nobody ; --if-due --scope nobody
consolidate 1: nothing.md --expect 'a question' ; ../secret.md --expect 'a question'
consolidate 1: user_prefers-tabs.md --expect 'is the password Corr3ct-H0rse-Fake good?'
compact 1: - ; - --scope nobody
promote 1: ffffff ; ffffff --to nobody ; -s session/../x ; -s task/nothing ; --to nobody ; --to agent/x
promote 2: --reason r ; -s user
notes 2: extra ; show --scope user
notes 1: set --blocker 'iteration 3 passed' ; set --blocker 'the password is Corr3ct-H0rse-Fake'
notes 1: set --objective '```'
notes 1: diary - ; diary 'the password is Corr3ct-H0rse-Fake' ; diary 'a note' --scope nobody
session 1: note x ; end -s session/nobody ; start -s session/../x ; start 'The password is Corr3ct-H0rse-Fake'
task 1: start con ; start 'The password is Corr3ct-H0rse-Fake'
task 1: start 'Feature X' --goal 'The password is Corr3ct-H0rse-Fake'
task 1: note x ; note x -s task/../x ; status -s task/nobody ; status -s task/../x ; verify 'two words' d
task 1: end ; event 'not JSON'
worker 1: --hub nonsense
hub 2: often
hub 1: add URL -s nobody ; add URL -s task/x ; sync -s user ; sync --again -s user ; remove -s user
hub 2: add URL ; add -s user ; sync --again ; remove
team 1:  ; invite x ; members ; members -s team/x ; admin --restored ; join hello ; create 'a b' URL ; create x URL
web 2: x ; --port high ; --port 65536 ; --host 0.0.0.0
mcp 1: --scope nonsense ; --http --port 0 --scope nonsense ; --http --port 0 --host 0.0.0.0
mcp 1: --http --port 0 --host :: --behind-proxy ; --http --port 0 --allow-host '*.example.com'
mcp 1: --http --port 0 --tls-cert missing.pem --tls-key missing.pem
log 2: --limit -1 ; ''
diff 1: nothing.md ; user_prefers-tabs.md 0123456789ab ; nothing.md --blame
undo 1: 0123456789ab ; --redo
restore 1: user_prefers-tabs.md 0123456789ab ; nothing.md 0123456789ab
erase 1: nothing.md --yes
export 2:  ; ''
import 1: nowhere.zip
scopes 2: x
init 1:
trust 1:  ; --yes
doctor 2: x ; --cost ; --cost many
completion 2:  ; tcsh
install 1: --yes ; claude-desktop --project --yes
install 2: cursor --link ; --plugin ''
uninstall 2: nobody
on 2: x
off 2: x
demo 2: x
config 1: learning.policy bogus ; tools maybe ; retention_days soon ; spend.tokens_per_day -1
"""

ODD_MISTAKES: list[tuple[str, int, list[str]]] = [
    ("remember", 1, ["Text.", "--name", "Fact", "--description", "d\ntype: evil", "--type", "user"]),
    ("remember", 1, ["Text.", "--name", "Fact\x1b[31m", "--description", "d", "--type", "user"]),
    ("remember", 1, ["x" * 300_000, "--name", "Fact", "--description", "d", "--type", "user"]),
    ("notes", 1, ["diary", "x" * 20_000]),
    ("task", 1, ["start", "Feature\nX"]),
    ("notes", 1, ["set", "--blocker", "two\nlines"]),
]


def mistakes() -> list[tuple[str, int, list[str]]]:
    """Lines that are wrong: the command, the exit code, and the words behind it."""
    found = list(ODD_MISTAKES)
    for each in MISTAKES.strip().split("\n"):
        start, _, rest = each.partition(":")
        command, code = start.split(" ")
        found += [(command, int(code), shlex.split(words)) for words in rest.split(" ; ")]
    return found


def test_every_command_has_its_mistakes_tried() -> None:
    assert {command for command, _, _ in mistakes()} == {name.partition(" ")[0] for name in COMMANDS}


def test_an_archive_that_reaches_outside_is_refused_with_what_to_do(run: Run, tabs: str, tree: Tree) -> None:
    with ZipFile("memories.zip", "w") as archive:
        archive.writestr("../fact.md", FACT)
    before = tree()

    code, _, err = run("import", "memories.zip")

    assert (code, "reaches outside" in err, "Look at it by hand" in err) == (1, True, True)
    assert tree() == before


def test_a_mistake_is_told_and_changes_nothing(run: Run, tabs: str, tree: Tree) -> None:
    before = tree()
    for command, expected, words in mistakes():
        code, out, err = run(command, *words)
        assert (code, out) == (expected, ""), (command, words, err)
        assert err.startswith("memsheaf: "), (command, words)
        assert len(err.strip().splitlines()) >= 2, f"no hint: {command} {words}"
        assert tree() == before, (command, words)


def test_a_change_to_a_scope_that_is_not_there_does_not_create_it(run: Run, tabs: str, tree: Tree) -> None:
    before = tree()

    for command in ("edit", "forget", "diff", "restore", "erase", "undo"):
        first, *rest = ["undo"] if command == "undo" else line(command, tabs)
        assert run(first, "--agent", "nobody", *rest)[0] == 1, command
        assert tree() == before, command
