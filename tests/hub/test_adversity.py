"""What a replica meets that nobody planned: processes that overlap, states that were left behind, hostile members."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from subprocess import PIPE

import psycopg
import pytest

from command_line import run_command
from hub.git_remotes import add_hook, make_bare
from hub.machines import ScopeOnMachine
from hub.postgres_server import Team
from hub.test_replica import SECRET, Machines, consistent, files, machine, plug, put, save, sync, version_at
from memsheaf.errors import HubRefused, HubRestored
from memsheaf.hub import Erasure, HubSettings, Pulled
from memsheaf.hub.git import GitRemote
from memsheaf.hub.postgres import PostgresHub
from memsheaf.hub.replica import Replica
from memsheaf.hub.replica_state import read_ahead, remove_hub, write_settings
from memsheaf.store import ABSENT, HISTORY, Change, version_of
from memsheaf.store.folder import FolderStore
from memsheaf.store.safe_dir import Folder

__all__ = ["machine"]  # the fixture
PUSH = "SELECT * FROM memsheaf.push(%s, %s, %s, %s, %s, %s, %s, %s::text[], %s::text[], %s::text[], %s::bytea[])"


def test_a_file_that_is_held_is_journalled_once(machine: Machines) -> None:
    here = machine("m1")
    save(here, "a.md", SECRET)
    save(here, "b.md", b"plain")
    sync(here)
    before = list(here.history())
    for _ in range(3):
        sync(here)
    assert list(here.history()) == before
    save(here, "a.md", SECRET + b" changed")
    save(here, "c.md", b"in the same commit")
    sync(here)
    assert {*here.state().held} == {"a.md"}
    assert len(here.state().pending) == 1
    other = machine("m2")
    assert files(other) == {"b.md": b"plain", "c.md": b"in the same commit"}


def test_a_secret_that_was_taken_out_again_is_not_pushed_with_what_waited(machine: Machines) -> None:
    one, two = machine("m1"), machine("m2", queue=True)
    put(one, "a.md", b"text")
    sync(two)
    plug(two).out = "all"
    for text in (SECRET, b"text without"):
        save(two, "a.md", text)
        two.adopt(["a.md"])
    assert len(two.state().pending) == 2
    plug(two).out = ""
    two.sync()
    texts = [step.new for came in one.sync().pulled for step in came.commit.revisions]
    assert texts == [b"text", b"text without"]


def test_a_secret_that_somebody_insists_on_is_saved_here_alone(machine: Machines) -> None:
    one, two = machine("m1"), machine("m2")
    put(one, "a.md", SECRET)
    put(one, "b.md", b"plain")
    put(one, "a.md", SECRET + b" again")
    two.sync()
    assert files(two) == {"b.md": b"plain"}
    one.sync()
    assert {*one.state().held} == {"a.md"}
    assert files(one)["a.md"] == SECRET + b" again"


def test_a_commit_that_is_too_large_for_a_hub_is_split(machine: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("exchange", "merge"):
        monkeypatch.setattr(f"memsheaf.hub.{module}.LARGEST", 5)
    monkeypatch.setattr("memsheaf.hub.exchange.PORTION", 3)
    one, two = machine("m1"), machine("m2")
    one.commit([Change(f"{number}.md", b"text %d" % number, ABSENT) for number in range(7)], by="import")
    one.sync()
    put(one, "after.md", b"pushed")
    consistent(one, two)
    assert len(files(two)) == 8


def test_a_memory_that_the_hub_does_not_take_keeps_no_other_back(
    machine: Machines, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    one, two = machine("m1"), machine("m2", queue=True)
    if isinstance(plug(one).hub, GitRemote):
        look = (
            "while read old new ref; do git rev-list --objects $new | cut -d' ' -f1 | xargs -n1 git cat-file -p; done"
        )
        add_hook(tmp_path / "hub.git", f"{look} | grep -aq FORBIDDEN && exit 1\nexit 0")
    else:
        team: Team = request.getfixturevalue("team")
        with psycopg.connect(team.server.url(database=team.database)) as connection:
            namespace = f"namespace <> '{team.namespace}'"
            refused = (
                f"ALTER TABLE memsheaf.texts ADD CONSTRAINT {team.name} CHECK ({namespace} OR data <> 'FORBIDDEN')"
            )
            connection.execute(refused)
    plug(two).out = "all"
    for number in range(9):
        put(two, f"{number}.md", b"FORBIDDEN" if number == 4 else b"text %d" % number)
    changes = [Change(path, text, ABSENT) for path, text in (("x.md", b"FORBIDDEN"), ("y.md", b"beside it"))]
    two.commit(changes, by="user")
    put(two, "x.md", b"allowed by now")
    plug(two).out = ""
    synced = two.sync()
    assert [*synced.held] == ["4.md"]
    assert "does not take it" in synced.held["4.md"]
    assert (synced.refused, synced.pending) == ("", 0)
    put(two, "later.md", b"later")
    one.sync()
    assert {*files(one)} == {"later.md", "x.md", "y.md", *(f"{number}.md" for number in range(9) if number != 4)}
    put(two, "4.md", b"allowed")
    consistent(two, one)
    assert files(one)["4.md"] == b"allowed"


def test_an_erasure_waits_for_what_stands_in_its_way_and_nothing_else_does(machine: Machines, tmp_path: Path) -> None:
    one, two = machine("m1"), machine("m2")
    put(one, "a.md", b"private")
    sync(two)
    place = Path(two.root, "a.md")
    place.unlink()
    place.symlink_to(tmp_path)
    one.erase("a.md", by="user")
    put(one, "b.md", b"news")
    assert "a.md" in two.sync().left
    assert two.read("b.md").data == b"news"
    assert [*two.state().proofs.values()] == ["a.md"]
    place.unlink()
    assert not two.sync().left
    assert [*two.state().proofs.values()] == [""]
    assert not list(two.history("a.md"))


def test_an_undo_of_what_was_erased_meanwhile_is_journalled_once(machine: Machines) -> None:
    one, two = machine("m1"), machine("m2")
    one.commit([Change("a.md", b"a", ABSENT), Change("b.md", b"b", ABSENT)], by="user")
    two.sync()
    one.commit([Change(path, None, version_at(one, path)) for path in ("a.md", "b.md")], by="user")
    two.sync()
    two.erase("b.md", by="user")
    one.undo(by="user")
    consistent(one, two)
    ids = [commit.id for commit in one.history()]
    assert len(ids) == len({*ids})
    assert files(one) == {"a.md": b"a", "b.md": b"b"}


def test_a_hub_that_lost_what_was_pushed_since_the_last_pull_is_told(
    machine: Machines, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    one, two = machine("m1"), machine("m2")
    backup = tmp_path / "backup.git"
    is_git = isinstance(plug(one).hub, GitRemote)
    if is_git:
        shutil.copytree(tmp_path / "hub.git", backup)
    made = put(one, "a.md", b"acknowledged")
    if is_git:
        shutil.rmtree(tmp_path / "hub.git")
        shutil.copytree(backup, tmp_path / "hub.git")
    else:
        team: Team = request.getfixturevalue("team")
        with psycopg.connect(team.server.url(database=team.database)) as connection:
            for table, key in (("commits", "id"), ("revisions", "commit"), ("documents", "commit")):
                connection.execute(f"DELETE FROM memsheaf.{table} WHERE {key} = %s", [made.id])
    with pytest.raises(HubRestored):
        one.sync()
    put(two, "a.md", b"of another")
    with pytest.raises(HubRestored):
        one.sync()
    assert "lacks what was" in one.state().failed
    one.rejoin()
    assert not one.state().failed
    consistent(one, two)
    assert {*files(two).values()} == {b"acknowledged", b"of another"}


@pytest.mark.parametrize("damage", [b"", b"\0" * 300, b"{cut off", b'{"told": [1]}', b"[]"])
def test_a_state_that_is_damaged_is_made_anew(machine: Machines, damage: bytes) -> None:
    one, two = machine("m1", queue=True), machine("m2")
    put(one, "a.md", b"one")
    plug(one).out = "all"
    put(one, "b.md", b"queued")
    plug(one).out = ""
    put(two, "c.md", b"theirs")
    Path(one.root, HISTORY, "hub-state.json").write_bytes(damage)
    assert files(one) == {"a.md": b"one", "b.md": b"queued"}
    put(one, "d.md", b"saved")
    consistent(one, two)
    assert {*files(two)} == {"a.md", "b.md", "c.md", "d.md"}


@pytest.mark.parametrize(
    ("damage", "joined"), [(b"", True), (b"{cut", False), (b'{"url": "x"}', True), (b"[]", False), (None, True)]
)
def test_settings_that_are_damaged_keep_nobody_from_reading(
    tmp_path: Path, bare: Path, damage: bytes | None, joined: bool
) -> None:
    here = ScopeOnMachine(tmp_path / "one", "user", bare)
    here.join()
    path = here.write("Tea", "They drink green tea.")
    file = here.root / HISTORY / "hub.json"
    file.unlink()
    file.mkdir() if damage is None else file.write_bytes(damage)
    if not joined:
        (here.root / HISTORY / "hub-state.json").unlink()
    assert [one["path"] for one in here.json("list")["memories"]] == [path]
    assert str(file) in here.run("list")[1]
    assert "green tea" in here.run("show", path)[1]
    (here.root / path).write_text((here.root / path).read_text().replace("green", "black"))
    assert path in here.run("search", "black")[1]
    for words in (("remember", "They swim on Mondays."), ("forget", path), ("erase", path, "--yes")):
        code, told = here.run(*words)
        assert (code, f"{file}' is damaged" in told, "memsheaf hub add URL -s user" in told) == (1, True, True), words
    assert str(file) in here.run("hub", "status", scoped=False)[1]
    assert str(file) in here.run("doctor", scoped=False)[1]
    if damage is not None:
        here.join()
        here.write("Swimming", "They swim on Mondays.")
        other = ScopeOnMachine(tmp_path / "two", "user", bare)
        other.join()
        assert len(other.trust()) == 2
        assert "black tea" in other.run("show", path)[1]


def test_a_rejoin_waits_for_a_sync_under_way(machine: Machines) -> None:
    one, two = machine("m1"), machine("m2")
    put(one, "a.md", b"one")
    put(one, "b.md", b"bee")
    one.sync()
    put(two, "c.md", b"cee")
    other = machine("m1", join=False)
    rejoining = threading.Thread(target=other.rejoin)

    def answer(pulled: Pulled) -> Pulled:
        if not rejoining.ident:
            rejoining.start()
            rejoining.join(0.3)
        return pulled

    plug(one).answer = answer
    one.sync()
    rejoining.join()
    consistent(one, two)
    assert files(one) == {"a.md": b"one", "b.md": b"bee", "c.md": b"cee"}


def test_an_edit_in_the_moment_of_a_conflict_does_not_replace_the_hubs_text(tmp_path: Path, bare: Path) -> None:
    """The kernel holds the exchange of our file with the hub's until a person has saved it once more."""
    one, two = (ScopeOnMachine(tmp_path / name, "user", bare) for name in ("one", "two"))
    one.join()
    path = one.write("Tea", "They drink black tea.")
    two.join()
    file, trace = one.root / path, tmp_path / "trace"
    for place, word in ((two, "green"), (one, "white")):
        (place.root / path).write_text(file.read_text().replace("black", word))
    assert two.run("hub", "sync", "-s", "user", scoped=False)[0] == 0
    held = [
        "strace",
        "-f",
        "-qq",
        "-o",
        str(trace),
        "-P",
        str(one.root),
        "-e",
        "inject=renameat2:delay_enter=1000000:when=1",
    ]
    command = [*held, sys.executable, "-m", "memsheaf", "hub", "sync", "-s", "user"]
    with subprocess.Popen(command, env=one.environment, cwd=one.work, stdout=PIPE, stderr=PIPE) as process:
        while not trace.exists() or "renameat2(" not in trace.read_text():
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        file.write_text(file.read_text().replace("white", "herbal"))
        process.communicate()
    one.sync()
    two.sync()
    texts = sorted(found.read_text().rpartition("---\n")[2] for found in two.root.glob("*Tea*.md".lower()))
    assert texts == ["They drink green tea.\n", "They drink herbal tea.\n"]


def test_what_was_saved_while_all_was_pulled_stays(machine: Machines) -> None:
    one = machine("m1")
    put(one, "a.md", b"one")
    one.sync()
    other = machine("m1", join=False)
    whole = plug(one).hub.pull("")

    def answer(pulled: Pulled) -> Pulled:
        put(other, "b.md", b"two")
        return whole._replace(whole=True)

    plug(one).answer = answer
    one.sync()
    plug(one).answer = None
    assert files(one) == {"a.md": b"one", "b.md": b"two"}
    one.sync()
    with Folder.open(one.root) as folder, folder.folder(HISTORY) as history:
        assert read_ahead(history) == {}


def test_a_commit_with_an_odd_id_or_time_is_journalled_as_any_other(machine: Machines) -> None:
    one, two = machine("m1"), machine("m2")
    put(two, "a.md", b"one")

    def answer(pulled: Pulled) -> Pulled:
        odd = [one._replace(commit=one.commit._replace(id="../" + "a" * 40, at="soon\n")) for one in pulled.commits]
        return pulled._replace(commits=odd)

    plug(one).answer = answer
    one.sync()
    plug(one).answer = None
    assert one.damaged() == []
    assert [len(commit.id) for commit in one.history("a.md")] == [12]
    consistent(one, two)


def test_an_erasure_of_names_that_no_memory_has_stops_no_sync(machine: Machines) -> None:
    one, two = machine("m1"), machine("m2")
    put(two, "a.md", b"one")
    put(two, "b.md", b"two")
    one.sync()
    odd = Erasure("0e0e0e0e0e0e", ("../x", "", "MEMORY.md", "None", "a.md"), ())
    plug(one).answer = lambda pulled: pulled._replace(erasures=[odd])
    one.sync()
    assert files(one) == {"b.md": b"two"}


def test_to_wait_for_another_process_here_is_not_to_wait_for_the_hub(
    machine: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, held, saved = machine("m1"), machine("m2"), threading.Event(), threading.Event()
    for name in ("QUEUE_SECONDS", "REFUSE_SECONDS"):
        monkeypatch.setattr(f"memsheaf.hub.{name}", 2.0)

    def hold() -> None:
        with FolderStore(one.root).locked("lock"):
            held.set()
            saved.wait(3.0)  # nothing can be saved before it ends

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    one.hub.close()
    put(one, "a.md", b"text")
    saved.set()
    thread.join()
    assert (one.state().pending, one.state().down_at) == ((), 0.0)
    two.sync()
    assert files(two) == {"a.md": b"text"}


def test_a_join_that_is_interrupted_leaves_no_hub(tmp_path: Path) -> None:
    environment = os.environ | {"MEMSHEAF_HOME": str(tmp_path), "GIT_SSH_COMMAND": "sleep 60 #"}
    command = [sys.executable, "-m", "memsheaf", "hub", "add", "ssh://silent.invalid/memory.git", "-s", "user"]
    with subprocess.Popen(command, env=environment, stdout=PIPE, stderr=PIPE) as process:
        settings = tmp_path / "user" / HISTORY / "hub.json"
        while not settings.exists() and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert (process.returncode, settings.exists()) == (130, False)


@pytest.mark.parametrize("odd", [{"id": "a" * 16}, {"at": "nonsense"}, {"at": ""}, {"undoes": "a" * 16}])
def test_a_database_takes_no_commit_that_a_journal_does_not(team: Team, odd: dict[str, str]) -> None:
    given = {"id": os.urandom(6).hex(), "at": "2026-01-01T00:00:00.000Z", "machine": "m", "by": "u", "why": ""}
    values = [*(given | {"undoes": ""} | odd).values()]
    steps = [["b.md"], [""], [version_of(b"text")], [b"text"]]
    with psycopg.connect(team.url("bob")) as connection, pytest.raises(psycopg.errors.CheckViolation):
        connection.execute(PUSH, [team.namespace, *values, *steps])


def test_a_member_who_owns_something_is_removed_all_the_same(team: Team) -> None:
    address = team.url("bob")
    hub = PostgresHub(team.settings("root", "m0", "admin"))
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE TEMP TABLE mine (x int)")
        connection.execute("SELECT lo_create(0)")
        assert hub.administer("remove", "bob")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT * FROM memsheaf.hello(%s)", [team.namespace])
    hub.close()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(address)


def test_every_reason_that_a_folder_takes_a_hub_takes(machine: Machines) -> None:
    here = machine("m1")
    for number, why in enumerate(("x" * 20_000, "a NUL \0", "half a pair \ud800")):
        put(here, f"{number}.md", b"text", why=why)
    assert len(files(machine("m2"))) == 3


def test_a_first_sync_pushes_in_portions(machine: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memsheaf.hub.exchange.PORTION", 2)
    monkeypatch.setattr("memsheaf.hub.exchange.PORTION_BYTES", 100)
    here = machine("m1", join=False)
    for number in range(5):
        save(here, f"{number}.md", b"x" * (150 if number == 3 else 10))
    assert [len(one.revisions) for one in here.sync().pushed] == [2, 1, 1, 1]
    assert files(machine("m2")) == files(here)


def test_what_a_running_process_saves_goes_to_the_hub_that_its_scope_has_now(
    machine: Machines, tmp_path: Path
) -> None:
    running, other = machine("m1", queue=True), machine("m2")
    put(running, "a.md", b"one")
    running.sync()
    now = running.settings._replace(namespace="another")
    with Folder.open(running.root) as folder, folder.folder(HISTORY) as history:
        remove_hub(history)
        write_settings(history, now)
    moved = Replica(running.root, now, GitRemote(now._replace(url=str(tmp_path / "new.git")), folder=str(tmp_path)))
    make_bare(tmp_path / "new.git")
    moved.sync()
    put(running, "b.md", b"two")
    with pytest.raises(HubRefused, match="another hub"):
        running.sync()
    assert len(moved.sync().pushed) == 1
    other.sync()
    assert files(other) == {"a.md": b"one"}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://ana:secret@host:8443/a.git", "https://host:8443/a.git"),
        ("https://secret@host/a.git", "https://host/a.git"),
        ("ssh://git:secret@host:22/a.git", "ssh://git@host:22/a.git"),
        ("postgresql://t.ana:p%40secret@host/db?sslpassword=secret", "postgresql://t.ana@host/db"),
        ("postgresql://db/x?user=ana&password=secret", "postgresql://db/x"),
        ("postgresql://ana:a#secret@host/db", "postgresql://ana@host/db"),
        ("git@host:ana/a@b.git", "git@host:ana/a@b.git"),
        ("file:///srv/a@b/hub.git", "file:///srv/a@b/hub.git"),
    ],
)
def test_an_address_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert HubSettings(url, "", "", "").check_address() == shown


@pytest.mark.parametrize(
    "url",
    [
        *(f"{scheme}://ana:{password}@host/db" for scheme in ("postgresql", "https", "ssh", "POSTGRESQL")
          for password in ("sec/ret", "sec@ret", "sec?ret", "sec/ret@x", "1/secret", "[secret", "se%cret")),
        "postgresql://host/db?password=sec@ret", "https://host/sec@ret.git", "postgres:/ana:secret@host/db",
        "ana:secret@host:a.git", "host=db password=secret",
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["hub add -s team/x", "team create x", "team admin"])
def test_what_may_be_a_password_is_in_no_message(tmp_path: Path, url: str, command: str) -> None:
    code, out, err = run_command([*command.split(), url], {"MEMSHEAF_HOME": str(tmp_path)})
    assert code == 1
    assert "ret" not in out + err
    assert "se%c" not in out + err
