"""What members must not do, tried in raw SQL with their own credentials: all of it is refused, or shows nothing.

Each line of attempts.sql is one. Whoever tries sees neither the victim's text nor the name of its file, and nothing
of the victim has changed after.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from hub.postgres_server import Server, Team
from hub.test_contract import commit
from memsheaf.errors import HubRefused
from memsheaf.hub import HubSettings, Machine
from memsheaf.hub.postgres import PostgresHub
from memsheaf.hub.postgres_admin import scram_verifier
from memsheaf.store import version_of

SECRET, PATH = b"The launch code is heron", "project_launch-code.md"
TABLES = ("spaces", "members", "commits", "revisions", "texts", "documents", "erasures", "machines", "proofs")
ATTEMPTS = Path(__file__).with_name("attempts.sql").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^-- ([a-z ]+)\n((?:(?!--).+\n)+)", ATTEMPTS, re.MULTILINE))
PUSH = (
    "SELECT * FROM memsheaf.push('V', '{}', '2026-11-17T10:00:00Z', '', '', '', '', string_to_array('{}', ','), "
    "ARRAY['{}'], ARRAY['{}'], ARRAY['x'::bytea])"
)


class Victim:
    """A team with a text, and what its tables hold."""

    def __init__(self, server: Server, team: Team) -> None:
        self.server, self.team = server, team
        self.hub = PostgresHub(team.settings("ana", "m1"))
        self.made = commit((PATH, None, SECRET))
        self.hub.push(self.made)
        self.hub.report(Machine("m1", "laptop", "", ""))

    def state(self) -> list[object]:
        with psycopg.connect(self.server.url(database="hub")) as connection:
            found = [
                connection.execute(
                    f"SELECT t::text FROM memsheaf.{table} t WHERE namespace = %s ORDER BY 1", [self.team.namespace]
                )
                for table in TABLES
            ]
            logins = connection.execute(
                "SELECT rolname, rolpassword FROM pg_authid WHERE rolname LIKE %s ORDER BY 1", [f"{self.team.name}.%"]
            )
            return [cursor.fetchall() for cursor in (*found, logins)]

    def try_all(self, attempts: str, connection: psycopg.Connection) -> int:
        """Make each attempt; all must be refused or show nothing, and leave everything as it was."""
        before = self.state()
        lines = attempts.strip().split("\n")
        for line in lines:
            statement, pushes, push = line.partition("PUSH ")
            statement += PUSH.format(*push.replace(" -", " ").split(" ")) if pushes else ""
            for short, long in (
                ("'V'", f"'{self.team.namespace}'"), ("V.", f"{self.team.name}."), ("VICTIM", self.team.name),
                ("SHA-256", "SCRAM"), ("SHA", version_of(SECRET)), ("SCRAM-SCRAM", "SCRAM-SHA-256"),
                ("'X'", f"'{version_of(b'x')}'"), ("['NULL']", "[NULL]::text[]"), ("PATH", PATH),
                ("THEIRS", self.made.id),
            ):  # fmt: skip
                statement = statement.replace(short, long)
            told = refused_or_empty(connection, statement)
            assert told is None or not any(word in told for word in (SECRET.decode(), PATH, SECRET.hex())), line
            assert told is not None, f"not refused: {line}"
        assert self.state() == before
        return len(lines)


def refused_or_empty(connection: psycopg.Connection, statement: str) -> str | None:
    """What the database said when it refused, "" when the last statement gave no row, None when it did something."""
    try:
        with connection.cursor() as cursor:
            if statement.startswith("COPY"):
                with cursor.copy(statement.encode()) as copy:
                    return None if b"".join(map(bytes, copy)) else ""
            cursor.execute(statement.encode())
            while cursor.nextset():
                pass
            return "" if cursor.description and not cursor.fetchall() else None
    except psycopg.Error as error:
        return f"{error} {error.diag.message_detail} {error.diag.context}"
    finally:
        connection.rollback()
        connection.execute("RESET ALL; DISCARD TEMP")
        connection.commit()


def pull_once(settings: HubSettings, member: str = "") -> int:
    with closing(PostgresHub(settings, member=member)) as hub:
        return len(hub.pull().commits)


@pytest.fixture
def victim(postgres: Server, team: Team) -> Iterator[Victim]:
    found = Victim(postgres, team)
    yield found
    found.hub.close()


@pytest.fixture
def neighbour(postgres: Server, team: Team) -> Team:
    """Another team in the same database."""
    return Team(postgres, team.name + "x")


def test_an_admin_of_another_team_sees_and_changes_nothing(victim: Victim, neighbour: Team) -> None:
    with psycopg.connect(neighbour.url("eve", "admin")) as connection:
        victim.try_all(SECTIONS["in the name of another"], connection)
        assert victim.try_all(SECTIONS["strangers"] + SECTIONS["with temporary objects"], connection) >= 70


def test_a_login_of_another_application_sees_and_changes_nothing(victim: Victim) -> None:
    login = f"app-{victim.team.name}"
    with psycopg.connect(victim.server.url(database="hub"), autocommit=True) as connection:
        connection.execute(f"CREATE ROLE \"{login}\" LOGIN PASSWORD 'x'")
    with psycopg.connect(victim.server.url(login, "x", "hub")) as connection:
        victim.try_all(SECTIONS["strangers"], connection)


def test_a_removed_member_sees_and_changes_nothing_even_while_connected(victim: Victim) -> None:
    with psycopg.connect(victim.team.url("gone", "admin")) as connection:
        connection.execute("SELECT memsheaf.join_space(%s)", [f"{victim.team.name}:agent/x"])
        connection.commit()
        root = PostgresHub(victim.team.settings("root", "m9", "admin"))
        assert root.administer("remove", "gone") is True
        root.close()
        victim.try_all(SECTIONS["strangers"], connection)
        agent = f"SELECT * FROM memsheaf.pull('{victim.team.name}:agent/x', '')"
        assert refused_or_empty(connection, agent)
    with psycopg.connect(victim.server.url(database="hub")) as connection:
        left = connection.execute("SELECT * FROM memsheaf.members WHERE login = %s", [f"{victim.team.name}.gone"])
        assert left.fetchall() == []
    with pytest.raises(HubRefused, match="does not let you in"):
        pull_once(victim.team.settings("gone", "m8"))


def test_a_server_that_names_nobody_sees_nothing(victim: Victim) -> None:
    login = f"server-{victim.team.name}"
    with psycopg.connect(victim.server.url(database="hub"), autocommit=True) as connection:
        connection.execute(f"CREATE ROLE \"{login}\" LOGIN PASSWORD 'x' IN ROLE memsheaf_service")
    url = victim.server.url(login, "x", "hub")
    with psycopg.connect(url) as connection:
        victim.try_all(SECTIONS["strangers"] + SECTIONS["with temporary objects"], connection)
    settings = victim.team.settings("ana", "m1")._replace(url=url)
    for member in ("", "nobody", f"{victim.team.name}x.ana"):
        with pytest.raises(HubRefused):
            pull_once(settings, member)
    hub = PostgresHub(settings, member=f"{victim.team.name}.ana")
    assert (hub.me, len(hub.pull().commits)) == ("ana", 1)
    hub.push(commit(("more.md", None, b"more")))
    assert hub.log(1)[0].member == "ana"
    hub.close()


def test_a_reader_reads_and_changes_nothing(victim: Victim) -> None:
    with psycopg.connect(victim.team.url("carl", "reader")) as connection:
        victim.try_all(SECTIONS["readers"], connection)
    assert pull_once(victim.team.settings("carl", "m2")) == 1


def test_a_writer_writes_only_what_is_sound_and_only_as_themselves(victim: Victim) -> None:
    url = victim.team.url("bob")
    with psycopg.connect(url) as connection:
        victim.try_all(SECTIONS["writers"], connection)
    bob = PostgresHub(victim.team.settings("bob", "m2"))
    bob.push(commit(("b.md", None, b"b"), by="@ana"))
    assert [one.member for one in bob.log()] == ["bob", "ana"]
    with pytest.raises(HubRefused, match="not sound"):
        bob.push(commit(("large.md", None, bytes(1048577))))
    bob.close()


def test_an_admin_stays_within_the_team(victim: Victim) -> None:
    with psycopg.connect(victim.team.url("root", "admin")) as connection:
        victim.try_all(SECTIONS["admins"], connection)


def test_a_private_namespace_is_its_members_alone(victim: Victim) -> None:
    private = f"{victim.team.name}:user/bob"
    bob = PostgresHub(victim.team.settings("bob", "m2")._replace(namespace=private))
    with psycopg.connect(victim.team.url("bob"), autocommit=True) as connection:
        connection.execute("SELECT memsheaf.join_space(%s)", [private])
    bob.push(commit(("b.md", None, b"b")))
    for member, role in (("root", "admin"), ("ana", "writer")):
        with pytest.raises(HubRefused, match="not a member"):
            pull_once(victim.team.settings(member, "m3", role)._replace(namespace=private))
    bob.close()


def test_policies_are_forced_on_every_table_and_functions_pin_their_path(postgres: Server) -> None:
    with psycopg.connect(postgres.url(database="hub")) as connection:
        loose = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'memsheaf'::regnamespace AND relkind IN ('r', 'p') "
            "AND relname <> 'about' AND NOT (relrowsecurity AND relforcerowsecurity)"
        ).fetchall()
        unpinned = connection.execute(
            "SELECT proname FROM pg_proc WHERE pronamespace = 'memsheaf'::regnamespace AND prosecdef "
            "AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false)"
        ).fetchall()
        public = connection.execute(
            "SELECT proname FROM pg_proc WHERE pronamespace = 'memsheaf'::regnamespace "
            "AND has_function_privilege('public', oid, 'EXECUTE')"
        ).fetchall()
    assert (loose, unpinned, public) == ([], [], [])
    assert scram_verifier("x") != scram_verifier("x")
