"""`memsheaf team`, as people type it; and docs/team.md, as it is written."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from command_line import run_command
from hub.postgres_server import Server, Team
from memsheaf.store import version_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "team.md"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a command on one of several machines; gives exit code, output and messages."""

    def run(machine: str, *words: str) -> tuple[int, str, str]:
        home = tmp_path / machine
        environment = {"MEMSHEAF_HOME": str(home), "HOME": str(home), "MEMSHEAF_EMBEDDER": "none"}
        environment |= {"PATH": os.environ["PATH"], "USER": machine}
        return run_command(words, environment)

    return run


@pytest.fixture
def ana(run: Run, postgres: Server, team: Team) -> Run:
    """A machine that created the team, as `ana`."""
    code, _, err = run("ana", "team", "create", team.name, postgres.url("dba", "dba", "hub"), "--as", "ana")
    assert code == 0, err
    return lambda *words: run("ana", *words)


def invited(ana: Run, run: Run, member: str, *more: str) -> Run:
    """A machine of another member, who joined."""
    line = json.loads(ana("team", "invite", member, *more, "--json")[1])["line"]
    code, _, err = run(member, *line.replace("'", "").split()[1:])
    assert code == 0, err
    return lambda *words: run(member, *words)


def test_the_page_runs_as_it_is_written(run: Run, postgres: Server) -> None:
    address = postgres.url("dba", "dba", "hub")
    password = "PASSWORD"
    ran = 0
    for block in re.findall(r"^```console\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        for prompt, command, said in re.findall(
            r"^(\w+)\$ memsheaf (.*)\n((?:(?!\w+\$ ).*\n)*)", block, re.MULTILINE
        ):
            here = command.replace("postgresql://dba:secret@db.example.com/memory", address)
            here = here.replace("@db.example.com/memory", address[address.index("@") :]).replace("PASSWORD", password)
            words = [one.strip("'\"") for one in re.findall(r"'[^']*'|\"[^\"]*\"|\S+", here)]
            code, out, err = run(prompt, *words)
            assert code == 0, (command, err)
            if found := re.search(r"platform\.bob:([^@]+)@", out):
                password = found[1]
            shown = out.replace(password, "PASSWORD").replace(address[address.index("@") :], "@db.example.com/memory")
            assert said.strip() in shown, command
            ran += 1
    assert ran == 5


def test_members_see_who_is_there_and_who_did_what(ana: Run, run: Run, team: Team) -> None:
    scope = ("--scope", f"team/{team.name}")
    bob = invited(ana, run, "bob")
    assert bob("remember", *scope, "The staging database is wiped at night")[0] == 0
    code, out, _ = ana("team", "members")
    assert code == 0
    assert re.search(r"ana \(you\) +admin .*\nbob +writer ", out)
    assert [one["name"] for one in json.loads(ana("team", "members", "--json")[1])["members"]] == ["ana", "bob"]
    [change] = json.loads(ana("team", "members", "--json")[1])["commits"]
    assert (change["member"], change["paths"]) == ("bob", ["project_staging-database-wiped-night.md"])
    assert "bob" in ana("team", "members")[1]
    assert ana("team", "admin", "--days", "30")[1] == "Dropped 0 texts.\n"
    assert bob("erase", *scope, change["paths"][0], "--yes")[0] == 0
    assert [one["at"][:2] for one in json.loads(ana("team", "members", "--json")[1])["commits"]] == ["20", "20"]


def test_a_folder_that_has_memories_is_told_what_became_of_them(
    ana: Run, run: Run, team: Team, tmp_path: Path
) -> None:
    scope = ("--scope", f"team/{team.name}")
    assert ana("remember", *scope, "The staging database is wiped at night")[0] == 0
    assert run("bob", "remember", *scope, "The build runs on Linux")[0] == 0
    file = tmp_path / "bob" / "team" / team.name / "project_staging-database-wiped-night.md"
    file.write_text("---\nname: Staging\ndescription: Mine\ntype: project\n---\nIt is wiped at noon.\n")
    line = json.loads(ana("team", "invite", "bob", "--json")[1])["line"]
    code, out, err = run("bob", "team", "join", line)
    assert (code, "3 memories" in out) == (0, True), err
    copy = f"{file.stem}-2.md"
    assert f"both changed {file.name}: the hub's text is there, yours is {copy}" in err
    assert f"here: project_build-runs-linux.md, {copy}" in err


def test_a_folder_joins_anew_as_another_member(ana: Run, run: Run, team: Team) -> None:
    scope = f"team/{team.name}"
    assert ana("remember", "--scope", scope, "The staging database is wiped at night")[0] == 0
    line = json.loads(ana("team", "invite", "bob", "--json")[1])["line"]
    assert ana("hub", "remove", "-s", scope)[0] == 0
    code, _, err = ana(*line.replace("'", "").split()[1:])
    assert code == 0, err
    assert ana("remember", "--scope", scope, "The backup is made at noon")[0] == 0
    assert {one["member"] for one in json.loads(ana("team", "members", "--json")[1])["commits"]} == {"ana", "bob"}


def test_roles_limit_and_a_removed_member_is_kept_out(ana: Run, run: Run, team: Team) -> None:
    scope = ("--scope", f"team/{team.name}")
    eve = invited(ana, run, "eve", "--role", "reader")
    code, _, err = eve("remember", *scope, "The wiki is backed up on Mondays")
    assert (code, "eve has the role reader, and that needs writer" in err) == (1, True)
    for words in (
        ("invite", "mallory"),
        ("members", "--remove", "ana"),
        ("admin", "--days", "0"),
        ("admin", "--restored"),
    ):
        code, _, err = eve("team", *words)
        assert (code, "eve has the role reader, and that needs admin" in err) == (1, True)
    invited(ana, run, "eve")
    assert "at least one admin" in ana("team", "members", "--remove", "ana")[2]
    assert "own role" in ana("team", "invite", "ana", "--role", "reader")[2]
    assert "'nobody' is no member" in ana("team", "members", "--remove", "nobody")[2]
    assert ana("team", "members", "--remove", "eve")[1] == "Removed eve; what they wrote stays.\n"
    code, _, err = eve("team", "members")
    assert (code, "does not let you in" in err) == (1, True)


def test_what_a_reader_edited_is_told_and_goes_back_without_being_lost(
    ana: Run, run: Run, team: Team, tmp_path: Path
) -> None:
    scope = ("--scope", f"team/{team.name}")
    assert ana("remember", *scope, "We deploy on Fridays")[0] == 0
    eve = invited(ana, run, "eve", "--role", "reader")
    [memory] = json.loads(eve("list", *scope, "--json")[1])["memories"]
    file = next((tmp_path / "eve").rglob(memory["path"]))
    theirs = file.read_text()
    file.write_text(theirs.replace("Fridays", "Mondays"))
    file.with_name("mine.md").write_text("A note of Eve's.")

    for words in (("hub", "sync"), ("hub", "sync"), ("hub", "status")):
        said = "".join(eve(*words)[1:])
        assert "eve has the role reader, and that needs writer" in said
        assert f"`memsheaf hub sync --again -s team/{team.name}` puts the hub's texts back" in said
    assert "Mondays" in file.read_text()
    code, out, err = eve("hub", "sync", "--again", "-s", f"team/{team.name}")
    assert (code, "eve has the role reader" in out + err) == (1, True)
    assert (file.read_text(), file.with_name("mine.md").read_text()) == (theirs, "A note of Eve's.")
    same = [one for one in json.loads(eve("list", *scope, "--json")[1])["memories"] if one["path"] != "mine.md"]
    assert same == [memory]
    assert 'saved by "ana"' in "".join(eve("show", *scope, memory["path"])[1:])
    for words in (("hub", "sync"), ("hub", "status")):
        assert "not pushed yet: 1 change" in "".join(eve(*words)[1:])

    invited(ana, run, "eve", "--role", "writer")
    version = version_of(theirs.replace("Fridays", "Mondays").encode())
    assert eve("restore", *scope, memory["path"], version[:12])[0] == 0
    ana("hub", "sync")
    assert "Mondays" in ana("show", *scope, memory["path"])[1]


def test_what_is_wrong_is_said_with_what_to_do(run: Run, ana: Run, postgres: Server, team: Team) -> None:
    dba = postgres.url("dba", "dba", "hub")
    cases = {
        ("create", team.name, dba, "--as", "zoe"): f"the team '{team.name}' exists already",
        ("create", "x" * 40, dba, "--as", "y" * 40): "longer than the 63 bytes",
        ("create", "blue", team.url("poor"), "--as", "zoe"): "needs CREATEROLE and CREATE on the database",
        ("create", "blue", "postgresql://dba@127.0.0.1:1/hub", "--as", "zoe"): "does not answer",
        ("create", "blue", postgres.url("dba", "wrong", "hub"), "--as", "zoe"): "authentication failed",
        ("create", "blue team", dba): "is not allowed",
        ("create", "x" * 41, dba, "--as", "zoe"): "Use up to 40 letters",
        ("join", "postgresql://dba@db.example.com/x"): "that is no invitation",
        ("join", "hello"): "that is no invitation",
        ("members",): "this machine is not in a team",
        ("members", "--team", "blue"): "this machine is not in team/blue",
        ("invite", "bob", "--role", "owner"): "none of reader, writer, admin",
    }
    for words, said in cases.items():
        code, out, err = run("zoe", "team", *words)
        assert (code in (1, 2), out) == (True, ""), words
        assert said in err, (words, err)


def test_a_login_of_a_team_in_another_database_is_not_taken_over(
    ana: Run, run: Run, team: Team, postgres: Server
) -> None:
    bob, other = f"{team.name}.bob", f"{team.name}2.zoe"
    with psycopg.connect(postgres.url(), autocommit=True) as connection:  # a server has its logins in common
        for login in (bob, other):
            connection.execute(f"CREATE ROLE \"{login}\" LOGIN PASSWORD 'theirs' IN ROLE memsheaf_member")
    for words in (("invite", "bob"), ("create", f"{team.name}2", postgres.url("dba", "dba", "hub"), "--as", "zoe")):
        code, _, err = ana("team", *words)
        assert (code, "the server has a login" in err) == (1, True)
    psycopg.connect(postgres.url(bob, "theirs", "hub")).close()
    assert invited(ana, run, "carl")("hub", "sync")[0] == invited(ana, run, "carl")("hub", "sync")[0] == 0


def test_a_line_that_does_not_let_in_leaves_the_one_that_does(ana: Run, run: Run, team: Team) -> None:
    old = json.loads(ana("team", "invite", "bob", "--json")[1])["line"]
    bob = invited(ana, run, "bob")
    assert bob("hub", "add", "-s", f"team/{team.name}", "--offline", "queue")[0] == 0
    code, _, err = bob("team", "join", old)
    assert (code, "authentication failed" in err) == (1, True)
    code, out, _ = bob("hub", "sync")
    assert (code, "pushed 0" in out) == (0, True)
    invited(ana, run, "bob")
    assert bob("hub", "sync")[0] == 0
    assert "changes are queued" in bob("hub", "status")[1]


def test_a_database_that_cannot_hold_every_text_is_refused(run: Run, postgres: Server, team: Team) -> None:
    name = f"ascii_{team.name}"
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'")
        connection.execute(f"GRANT CREATE ON DATABASE {name} TO dba")
    code, _, err = run("ana", "team", "create", team.name, postgres.url("dba", "dba", name), "--as", "ana")
    assert (code, "is SQL_ASCII; it has to be UTF8" in err) == (1, True)
