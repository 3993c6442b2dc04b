"""Hubs that refuse: a save is kept here whatever the reason, and what a hub never had is never removed."""

from __future__ import annotations

import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from hub.git_remotes import add_hook, git, make_bare
from hub.machines import ScopeOnMachine, replica_of
from hub.postgres_server import VERIFIER, Server, Team
from memsheaf.errors import HubUnreachable
from memsheaf.hub.service import HubService

TEA, MILK = "They drink green tea.", "They take milk with it."
CLOSED = "this branch is closed to everybody"
Mend = Callable[[], None]


def texts(machine: ScopeOnMachine) -> set[str]:
    """The texts that a machine lists."""
    with machine.open() as sheaf:
        return {sheaf.read(row.path).body.strip() for row in sheaf.list()}


def follow_hints(machine: ScopeOnMachine, said: str) -> list[str]:
    """Run every memsheaf command that a message names, for this scope; gives them."""
    commands = re.findall(r"`memsheaf ((?:hub|team|list|log|show|doctor)[^`]*)`", said)
    for command in commands:
        words = command.replace("SCOPE", machine.scope).split()
        if not {"URL", "LINE", "MEMBER"} & {*words}:
            machine.run(*words, scoped=False)
    return commands


@pytest.mark.parametrize(
    ("message", "count"), [(CLOSED, 3), ("You are not allowed to push code to protected branches on this project", 1)]
)
def test_a_host_that_refuses_pushes_is_reported_and_no_hint_that_is_followed_removes_a_memory(
    tmp_path: Path, bare: Path, message: str, count: int
) -> None:
    machine = ScopeOnMachine(tmp_path / "laptop", "user", bare)
    for number in range(count):
        machine.write(f"Tea {number}", f"{TEA} {number}")
    before = texts(machine)
    mend = add_hook(bare, f"echo '{message}' >&2; exit 1").unlink

    code, said = machine.run("hub", "add", str(bare), "-s", "user", scoped=False)
    assert code == 1
    assert message in said
    assert "is shared" not in said
    assert {*follow_hints(machine, said)} >= {"hub sync -s user", "hub remove -s user"}
    assert texts(machine) == before
    assert machine.json("hub", "add", str(bare), "-s", "user", scoped=False)["code"] == 1
    for words in (("sync", "--again", "-s", "user"), ("sync",), ("sync", "--again", "-s", "user"), ("status",)):
        answer = machine.run("hub", *words, scoped=False)[1]
        assert message in answer, (words, answer)
        follow_hints(machine, answer)
        assert texts(machine) == before
    with machine.open() as sheaf:
        assert len(sheaf.list()) == count

    mend()
    assert machine.run("hub", "sync", "-s", "user", scoped=False)[0] == 0
    other = ScopeOnMachine(tmp_path / "desktop", "user", bare)
    other.join()
    assert texts(other) == before


def test_an_address_that_fails_leaves_the_hub_that_works_as_it_was(tmp_path: Path, bare: Path) -> None:
    machine = ScopeOnMachine(tmp_path / "laptop", "user", bare)
    machine.write("Tea", TEA)
    machine.join()
    for offline in ("refuse", "queue"):
        machine.run("hub", "add", "-s", "user", "--offline", offline, scoped=False)
        before = machine.json("hub", "status", scoped=False)
        code, said = machine.run("hub", "add", str(tmp_path / "nosuch.git"), "-s", "user", scoped=False)
        assert (code, "Nothing was changed" in said) == (1, True), said
        assert machine.json("hub", "status", scoped=False) == before
        code, said = machine.run("remember", f"They own a {offline} canoe.")
        assert (code, "wait" in said) == (0, False), said
        with machine.open() as sheaf:
            assert replica_of(sheaf).state().pending == ()


def test_a_hub_that_was_emptied_removes_nothing_when_a_blocked_path_becomes_free(tmp_path: Path, bare: Path) -> None:
    one, two = (ScopeOnMachine(tmp_path / name, "user", bare) for name in ("laptop", "desktop"))
    two.write("Milk", MILK)
    two.join()
    (two.root / "notes.md").mkdir()
    one.join()
    (one.root / "notes.md").write_text("---\nname: Notes\ndescription: Notes\ntype: user\n---\nSome notes.\n")
    one.sync()
    assert "notes.md" in two.sync().left
    (two.root / "notes.md").rmdir()
    shutil.rmtree(bare)
    make_bare(bare)
    answer = two.run("hub", "sync", "-s", "user", scoped=False)[1]
    assert texts(two) == {MILK}
    assert "hub sync --again -s user" in answer
    follow_hints(two, answer)
    assert texts(two) == {MILK}


def test_an_erasure_of_a_hub_that_was_lost_is_not_waited_for_on_the_new_one(tmp_path: Path, bare: Path) -> None:
    one = ScopeOnMachine(tmp_path / "laptop", "user", bare)
    path = one.write("Tea", TEA)
    one.write("Milk", MILK)
    one.join()
    assert one.run("erase", path, "--yes")[0] == 0
    shutil.rmtree(bare)
    make_bare(bare)
    one.run("hub", "sync", "--again", "-s", "user", scoped=False)
    two = ScopeOnMachine(tmp_path / "desktop", "user", bare)
    two.join()
    one.sync()
    for machine in (one, two):
        assert machine.json("hub", "status", "-s", "user", scoped=False)["scopes"][0]["open_erasures"] == {}
        assert texts(machine) == {MILK}


def test_an_erasure_whose_report_was_lost_with_the_hub_is_reported_again(tmp_path: Path, bare: Path) -> None:
    one, two = (ScopeOnMachine(tmp_path / name, "user", bare) for name in ("laptop", "desktop"))
    path = one.write("Tea", TEA)
    one.join()
    two.join()
    assert one.run("erase", path, "--yes")[0] == 0
    shutil.copytree(bare, tmp_path / "backup.git")
    two.sync()
    shutil.rmtree(bare)
    shutil.copytree(tmp_path / "backup.git", bare)
    assert "not yet on" in one.run("hub", "status", "-s", "user", scoped=False)[1]
    assert two.run("hub", "sync", "--again", "-s", "user", scoped=False)[0] == 0
    assert "not yet on" not in one.run("hub", "status", "-s", "user", scoped=False)[1]
    assert texts(one) == texts(two) == set()


# what is queued


def fake_ssh(folder: Path, monkeypatch: pytest.MonkeyPatch, message: str) -> Mend:
    """Let ssh print a message and fail."""
    program = folder / "ssh"
    program.write_text(f"#!/bin/sh\necho '{message}' >&2\nexit 255\n")
    program.chmod(0o755)
    works = os.environ["GIT_SSH_COMMAND"]
    monkeypatch.setenv("GIT_SSH_COMMAND", str(program))
    return lambda: monkeypatch.setenv("GIT_SSH_COMMAND", works)


def break_git(kind: str, bare: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Mend]:
    """Let a repository fail in this way; gives what the user is told, and a function that mends it."""
    aside = bare.with_name("aside.git")

    def back() -> None:
        shutil.rmtree(bare, ignore_errors=True)
        aside.rename(bare)

    if kind == "key":
        message = "git@host: Permission denied (publickey)."
        return "Permission denied (publickey)", fake_ssh(bare.parent, monkeypatch, message)
    if kind == "host key":
        return "Host key verification failed", fake_ssh(bare.parent, monkeypatch, "Host key verification failed.")
    if kind == "hook":
        return CLOSED, add_hook(bare, f"echo '{CLOSED}' >&2; exit 1").unlink
    if kind == "protected":
        message = "GitLab: You are not allowed to push code to protected branches on this project."
        return message, add_hook(bare, f"echo '{message}' >&2; exit 1").unlink
    if kind == "full":
        git(bare, "config", "receive.maxInputSize", "1")
        return "unpack", lambda: print(git(bare, "config", "--unset", "receive.maxInputSize"))
    if kind == "no git":
        path = os.environ["PATH"]
        monkeypatch.setenv("PATH", str(bare))
        return "git is not installed", lambda: monkeypatch.setenv("PATH", path)
    bare.rename(aside)
    if kind == "emptied":
        make_bare(bare)
        return "lacks what was", back
    if kind == "replaced":
        make_bare(bare)
        tree = git(bare, "mktree")
        git(bare, "update-ref", "refs/heads/memsheaf/user", git(bare, "commit-tree", "-m", "another", tree))
        return "lacks what was", back
    assert kind == "gone"
    return "repository", back


LONG = ("host key", "protected", "replaced", "login")  # like others
GIT = [
    "key",
    "hook",
    "full",
    "no git",
    "emptied",
    "gone",
    *(pytest.param(kind, marks=pytest.mark.long) for kind in LONG[:3]),
]


@pytest.mark.parametrize("kind", GIT)
def test_a_git_hub_that_queues_keeps_every_save_whatever_the_reason(
    tmp_path: Path, bare: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("SSH_LIKE", str(tmp_path / "plan.json"))
    monkeypatch.setenv("GIT_SSH_COMMAND", f"{sys.executable} -S {Path(__file__).parent / 'ssh_like.py'}")
    monkeypatch.setenv("GIT_SSH_VARIANT", "ssh")
    monkeypatch.setattr("memsheaf.hub.QUEUE_SECONDS", 60.0)  # a busy machine takes long to refuse
    (tmp_path / "plan.json").write_text("{}")
    machine = ScopeOnMachine(tmp_path / "laptop", "user", bare)
    assert machine.run("hub", "add", f"ssh://host{bare}", "-s", "user", scoped=False)[0] == 0
    machine.write("Tea", TEA)
    check_kept(machine, *break_git(kind, bare, monkeypatch))
    other = ScopeOnMachine(tmp_path / "desktop", "user", bare)
    other.join()
    assert texts(other) == texts(machine)


def break_postgres(kind: str, team: Team) -> tuple[str, Mend]:
    """As `break_git`, for a database."""
    server, login = team.server, f'"{team.name}.ana"'

    def run(*statements: str, database: str = "hub") -> None:
        with psycopg.connect(server.url(database=database), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def role(name: str) -> None:
        run(f"UPDATE memsheaf.members SET role = '{name}' WHERE namespace = '{team.namespace}' AND name = 'ana'")

    if kind == "password":
        run(f"ALTER ROLE {login} PASSWORD 'other'")
        return "authentication failed", lambda: run(f"ALTER ROLE {login} PASSWORD '{VERIFIER}'")
    if kind == "login":
        run(f"ALTER ROLE {login} NOLOGIN")
        return "not permitted to log in", lambda: run(f"ALTER ROLE {login} LOGIN")
    if kind == "role":
        role("reader")
        return "needs writer", lambda: role("writer")
    if kind == "dropped":
        run("ALTER DATABASE hub ALLOW_CONNECTIONS false", database="postgres")
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'hub'"
        run(ended, "ALTER DATABASE hub RENAME TO away", database="postgres")
        back = "ALTER DATABASE away RENAME TO hub", "ALTER DATABASE hub ALLOW_CONNECTIONS true"
        return "does not exist", lambda: run(*back, database="postgres")
    assert kind == "away"
    server.stop()
    return "does not answer", server.start


@pytest.fixture
def own_team() -> Iterator[Team]:
    """A team on a server of its own, which may be stopped."""
    folder = tempfile.mkdtemp(prefix="pg-refusals-")  # a socket has a short path
    server = Server(folder)
    server.create()
    server.start()
    server.create_hub()
    yield Team(server, "platform")
    server.stop("immediate")
    shutil.rmtree(folder)


POSTGRES = ["password", "role", "dropped", "away", pytest.param("login", marks=pytest.mark.long)]


@pytest.mark.parametrize("kind", POSTGRES)
def test_a_database_that_queues_keeps_every_save_whatever_the_reason(
    tmp_path: Path, own_team: Team, kind: str
) -> None:
    machine = ScopeOnMachine(tmp_path / "ana", "team/platform", own_team, offline="queue")
    machine.join()
    machine.write("Tea", TEA)
    check_kept(machine, *break_postgres(kind, own_team))
    other = ScopeOnMachine(tmp_path / "bob", "team/platform", own_team, "bob")
    other.join()
    assert texts(other) == texts(machine)


def test_a_machine_joins_its_team_again_after_it_was_moved_to_another_address(tmp_path: Path, own_team: Team) -> None:
    own_team.url("ana", "admin")
    ana, bob = (ScopeOnMachine(tmp_path / name, "team/platform", own_team, name) for name in ("ana", "bob"))
    ana.join()
    bob.join()
    ana.write("Tea", TEA)
    bob.sync()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    own_team.server.stop()
    own_team.server.start(port)
    with psycopg.connect(own_team.server.url(database="hub")) as connection:  # as after dump and restore
        connection.execute("UPDATE memsheaf.commits SET xid = (xid::text::bigint + 1000000000)::text::xid8")
    code, said = ana.run("team", "join", own_team.url("ana"), scoped=False)
    assert (code, "was moved to another server" in said, "`memsheaf team admin --restored`" in said) == (
        1,
        True,
        True,
    ), said
    assert ana.run("team", "admin", "--restored", scoped=False)[0] == 0
    for machine in (ana, bob):
        code, said = machine.run("team", "join", own_team.url(machine.member), scoped=False)
        assert code == 0, said
    bob.write("Milk", MILK)
    ana.sync()
    assert texts(ana) == texts(bob) == {TEA, MILK}


def test_an_address_of_another_machine_needs_tls_unless_it_says_otherwise(tmp_path: Path, own_team: Team) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    own_team.server.stop()
    own_team.server.start(port)
    plain = own_team.url("ana").replace("127.0.0.1", "0.0.0.0")  # this machine, by a name that is not known as such
    ana = ScopeOnMachine(tmp_path / "ana", "team/platform", own_team)
    code, said = ana.run("team", "join", plain, scoped=False)
    assert (code, "does not support SSL" in said, "?sslmode=disable" in said) == (1, True, True), said
    dba = own_team.server.url("dba", "dba", "hub").replace("127.0.0.1", "0.0.0.0")
    assert "does not support SSL" in ana.run("team", "create", "blue", dba, scoped=False)[1]
    with closing(HubService(dba)) as service, pytest.raises(HubUnreachable, match="does not support SSL"):
        service.check()

    certificate, key = tmp_path / "server.crt", tmp_path / "server.key"
    line = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    words = [*line.split(), "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(words, check=True, capture_output=True)
    with tls_in_front_of(port, certificate, key) as secured:
        address = plain.replace(f"0.0.0.0:{port}", f"localhost:{secured}")
        verified = f"{address}?sslmode=verify-full&sslrootcert={certificate}"
        assert ana.run("team", "join", verified, scoped=False)[0] == 0
        ana.write("Tea", TEA)
        other = ScopeOnMachine(tmp_path / "other", "team/platform", own_team)
        wrong = verified.replace("localhost", "127.0.0.1")  # the certificate is of another name
        for refused in (f"{address}?sslmode=verify-full&sslrootcert={tmp_path}/none.crt", wrong):
            code, said = other.run("team", "join", refused, scoped=False)
            assert (code, "certificate" in said, "sslrootcert" in said) == (1, True, True), said
        assert other.run("team", "join", address.replace("localhost", "0.0.0.0"), scoped=False)[0] == 0
        assert texts(other) == {TEA}


@contextmanager
def tls_in_front_of(port: int, certificate: Path, key: Path) -> Iterator[int]:
    """A server that speaks TLS as PostgreSQL does, and passes on what is in it; gives its port."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)

    def copy(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def serve(client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection(("127.0.0.1", port)) as server:
            client.recv(8)  # SSLRequest
            client.sendall(b"S")
            with context.wrap_socket(client, server_side=True) as secured:
                back = threading.Thread(target=copy, args=(server, secured))
                back.start()
                copy(secured, server)
                back.join()

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("0.0.0.0", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)


def check_kept(machine: ScopeOnMachine, reason: str, mend: Mend) -> None:
    """Save and change memories on a machine whose hub fails, and see that they are kept, told, and pushed later."""
    code, said = machine.run("edit", "project_tea.md", "--old", "green", "--new", "black")
    assert code == 0, said
    assert said.count(reason) == 1
    code, said = machine.run("remember", MILK, "--type", "project")
    assert code == 0, said
    assert "wait here" in said
    saved = {TEA.replace("green", "black"), MILK}
    assert texts(machine) == saved
    status = machine.run("hub", "status", "-s", machine.scope, scoped=False)[1]
    assert reason in status
    assert "not pushed" in status
    follow_hints(machine, status)
    assert texts(machine) >= {MILK}
    machine.run("edit", "project_tea.md", "--old", "black", "--new", "white")
    mend()
    machine.run("hub", "sync", "-s", machine.scope, scoped=False)
    if "hub sync --again" in machine.run("hub", "sync", "-s", machine.scope, scoped=False)[1]:
        machine.run("hub", "sync", "--again", "-s", machine.scope, scoped=False)
    assert machine.json("hub", "status", "-s", machine.scope, scoped=False)["scopes"][0]["pending"] == 0
    assert MILK in texts(machine)
