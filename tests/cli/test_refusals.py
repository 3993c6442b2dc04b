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
from memsheaf.cli.command import COMMANDS

Run = Callable[..., tuple[int, str, str]]
Tree = Callable[[], dict[str, bytes]]
CASES = json.loads((Path(__file__).parent.parent / "corpora" / "traversal.json").read_text())["cases"]
REJECTED = [case["input"] for case in CASES if case["surface"] == "name" and case["expect"] == "reject"]
FACT = b"---\nname: N\ndescription: d\ntype: user\n---\nText.\n"

BY_NAME: dict[str, tuple[str, ...]] = {
    "show": (),
    "add": ("Fact", "Text.", "--description", "d", "--type", "user", "--file"),
    "update": ("--old", "a", "--new", "b"),
    "edit": (),
    "forget": (),
    "log": (),
    "diff": (),
    "blame": (),
    "restore": (),
    "erase": ("--yes",),
}


def line(command: str, name: str) -> list[str]:
    """A command's line for a memory of this name."""
    options = BY_NAME[command]
    if command == "add":
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
    run("session", "start", "Work", "--id", "one")
    run("session", "note", "Releases go out on Fridays", "--section", "key")
    item = json.loads(run("promote", "--json")[1])["items"][0]["id"]
    before = tree()

    for name in sample(REJECTED, 3):  # all of them go through `tests/test_traversal.py`
        for words in (
            ["task", "status", "--", name],
            ["task", "note", "x", f"--task={name}"],
            ["task", "start", "Title", f"--slug={name}"],
            ["task", "deliver", "--", f"../{name}", "text"],
            ["session", "note", "x", f"--session=../{name}"],
            ["session", "start", f"--id={name}"],
            ["promote", item, f"--to=task/{name}"],
            ["promote", item, f"--to=team/{name}", "--yes"],
            ["promote", item, "--reason", "r", f"--cite=../{name}:1"],
            ["audit", f"--scope=task/{name}"],
        ):
            assert run(*words)[0] in (1, 2), words
    assert tree() == before


LOOKS = (
    "list; search x; recall tabs; why tabs; catalog; prompt; log; scopes; doctor; audit; verify; dream; brief; "
    "review; task list; task status; task phase; task event; session list --all; session show; notes; "
    "notes prune; fact; diary show; inbox; conversations; promote; expect; hub; "
    "index --status"
)


def test_looking_creates_nothing(run: Run, tree: Tree) -> None:
    before = tree()

    for words in LOOKS.split("; "):
        assert run(*words.split(" "))[0] in (0, 1), words
        assert tree() == before, words


MISTAKES = """
chat 1: --model 'no model' -p hello ; --model nobody:x -p hello ; --scope nobody -p hello
chat 1: --resume 20990101 -p hello ; --resume -p hello
extract 1: --model nonsense:model
review 1: --approve ffff ; --reject none.md
add 1: Fact Text. --description d --type user --expires soon
add 1: Fact 'The password is Corr3ct-H0rse-Fake' --description d --type user
add 1: 'Prefers tabs' Text. --description d --type user
update 1: user_prefers-tabs.md --old '' --new x ; user_prefers-tabs.md --old zebra --new x
update 1: user_prefers-tabs.md --old 'Use tabs.' --new 'password: Corr3ct-H0rse-Fake'
update 1: user_prefers-tabs.md --old s --new x ; user_prefers-tabs.md --old 'type: user' --new 'type: ../../x'
update 1: nothing.md --old a --new b
edit 1: nothing.md
forget 1: nothing.md
list 2: x ; --type '' ; --typ user ; --scope
show 1: nothing.md
search 2:  ; x --limit 0
recall 1: --scope nobody 'tabs or spaces?'
why 1: --scope user --scope nobody 'tabs or spaces?'
cite 1: nothing.py ; ../x.py ; https://example.com/x
verify 1: nothing.md ; --scope nobody
inbox 1: add - ; --scope nobody
conversations 1: show last ; show 2026 ; remove ../secret --yes ; --scope nobody
consolidate 1: --scope nobody ; --model 'no model'
dream 1: status --scope nobody
expect 1: 'a question' nothing.md ; 'a question' ../secret.md
expect 1: 'is the password Corr3ct-H0rse-Fake good?' user_prefers-tabs.md
compact 1: - ; - --scope nobody
brief 2: extra ; --scope user ; --task x
diary 1: - ; 'the password is Corr3ct-H0rse-Fake' ; 'a note' --scope nobody ; show --scope nobody
catalog 2: x
prompt 1: --scope user --scope nobody
promote 1: ffffff ; ffffff --to nobody ; --session ../x ; --task nothing ; --to nobody ; --to agent/x
session 1: show ; note x ; end --session nobody ; start --id ../x ; start 'The password is Corr3ct-H0rse-Fake'
session 1: end x
worker 1: --hub nonsense
hub 1: often ; add nobody URL ; add task/x URL ; sync user ; rejoin user ; remove user ; status user
team 1:  ; invite x ; members ; log --team x ; restored ; join hello ; create 'a b' URL ; create x URL
task 1: start 'Feature X' --slug ../x ; start con
task 1: start 'The password is Corr3ct-H0rse-Fake' ; start 'Feature X' --goal 'The password is Corr3ct-H0rse-Fake'
task 1: note x ; note x --task ../x ; status --task nobody ; status nobody ; status ../x ; verify 'two words' d
task 1: done ; event 'not JSON'
audit 1: --tree missing ; --scope nonsense
audit 1: --check --tree missing
notes 1: set --blocker 'iteration 3 passed' ; set --blocker 'the password is Corr3ct-H0rse-Fake'
notes 1: set --objective '```'
fact 1: add Subject 'Tests run with make.' ; add Subject Maybe. --cite x.py:1 --reason r --category project
fact 1: supersede nothing.md 'Tests run with make.' --reason r
web 2: x ; --port high ; --port 65536 ; --host 0.0.0.0
mcp 1: --scope nonsense ; --http --port 0 --scope nonsense ; --http --port 0 --host 0.0.0.0
mcp 1: --http --port 0 --host :: --behind-proxy ; --http --port 0 --allow-host '*.example.com'
mcp 1: --http --port 0 --tls-cert missing.pem --tls-key missing.pem
log 2: --limit -1 ; ''
diff 1: nothing.md ; user_prefers-tabs.md 0123456789ab
blame 1: nothing.md
undo 1: 0123456789ab
redo 1:
restore 1: user_prefers-tabs.md 0123456789ab ; nothing.md 0123456789ab
erase 1: nothing.md --yes
export 2:  ; ''
import 1: nowhere.zip
scopes 2: x
init 1:
trust 1:  ; --yes
doctor 2: x
index 1: --scope nobody
models 2: '' ; try nobody:x
cost 2: x ; --days 0 ; --days many
completion 2:  ; tcsh
install 1: --yes ; claude-desktop --project --yes
uninstall 2: nobody
link 2:  ; nobody ; claude-code
unlink 2:  ; nobody
plugin 2:  ; ''
on 2: x
off 2: x
demo 2: x
remember 1: 'The password is Corr3ct-H0rse-Fake' ; 'I prefer tabs' --expires someday
config 1: set learning.policy bogus ; set tools maybe ; set retention_days soon ; set spend.tokens_per_day -1
help 2: nothing
"""

ODD_MISTAKES: list[tuple[str, int, list[str]]] = [
    ("add", 1, ["Fact", "Text.", "--description", "d\ntype: evil", "--type", "user"]),
    ("add", 1, ["Fact\x1b[31m", "Text.", "--description", "d", "--type", "user"]),
    ("add", 1, ["Fact", "x" * 300_000, "--description", "d", "--type", "user"]),
    ("diary", 1, ["x" * 20_000]),
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
    assert {command for command, _, _ in mistakes()} == set(COMMANDS)


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

    for command in ("update", "edit", "forget", "diff", "blame", "restore", "erase", "undo"):
        first, *rest = ["undo"] if command == "undo" else line(command, tabs)
        assert run(first, "--agent", "nobody", *rest)[0] == 1, command
        assert tree() == before, command
