"""Workers: what members tell a server is learned, once, in their name; what a team learns waits for a person."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from command_line import run_command
from hub.machines import ScopeOnMachine
from hub.postgres_server import Server, Team
from hub.servers import as_superuser, documents, service_url
from hub.test_contract import push
from memsheaf import config
from memsheaf.config import Settings
from memsheaf.errors import HubRefused
from memsheaf.hub import Erasure, HubSettings
from memsheaf.hub.jobs import HubWorker, queue_turns
from memsheaf.hub.postgres import PostgresHub
from memsheaf.hub.server_replicas import Caller, ServerReplicas
from memsheaf.hub.service import HubService, TokenMember
from memsheaf.limits import Caps
from memsheaf.recall.turns import Message, Turn
from memsheaf.store import version_of

NOTHING = json.dumps({"type": "result", "subtype": "success", "structured_output": {"memories": []}})
WORKER = """
import sys
from memsheaf import config
from memsheaf.hub import Erasure
from memsheaf.hub.postgres import PostgresHub
from memsheaf.hub.service import HubService
from memsheaf.hub.jobs import HubWorker
HubWorker(HubService(sys.argv[1], teams=sys.argv[2:]), config.load()).run(once=True, stalled=3.0)
"""


@pytest.fixture
def service(postgres: Server, team: Team) -> Iterator[HubService]:
    with closing(HubService(service_url(postgres), teams=[team.name])) as opened:
        yield opened


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return config.load({"MEMSHEAF_HOME": str(tmp_path / "home"), "MEMSHEAF_EMBEDDER": "none"})


def tell(service: HubService, team: Team, text: str, *, member: str = "ana", space: str = "", name: str = "c") -> int:
    """What a server does with what a member tells it."""
    team.url(member)
    caller = Caller.asking(TokenMember(team.name, f"{team.name}.{member}", member))
    turns = [Turn(name, (Message("user", text), Message("assistant", "Noted.")))]
    return queue_turns(service, caller, f"{team.name}:{space or f'user/{member}'}", turns)


def work(service: HubService, settings: Settings) -> None:
    """Do all that waits."""
    with closing(HubWorker(service, settings)) as worker:
        worker.run(once=True)


def rows(team: Team, query: str, *values: object) -> list[tuple[object, ...]]:
    with psycopg.connect(team.server.url(database=team.database)) as connection:
        return connection.execute(query.encode(), values).fetchall()


def waiting_jobs(team: Team) -> list[tuple[object, ...]]:
    query = (
        "SELECT task_name, status::text, args ->> 'tries' FROM memsheaf_jobs.procrastinate_jobs WHERE lock LIKE %s"
    )
    return rows(team, query, f"{team.name}:%")


def waiting_turns(team: Team) -> int:
    return len(
        rows(team, "SELECT FROM memsheaf.inbox WHERE namespace LIKE %s AND turn IS NOT NULL", f"{team.name}:%")
    )


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model that writes down when it was asked; it takes as long as the file `pause` says, and as there is a file
    `hold`. What it says of gamma is in the file `answer`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (tmp_path / "pause").write_text("0")
    (tmp_path / "answer").write_text(NOTHING)
    program = folder / "claude"
    program.write_text(
        "#!/bin/sh\ntext=$(cat)\nfor word in alpha beta gamma; do case $text in *$word*) name=$word;; esac; done\n"
        f"echo $name $(date +%s.%N) >> {tmp_path}/asked\nsleep $(cat {tmp_path}/pause)\n"
        f"while [ -e {tmp_path}/hold ]; do sleep 0.05; done\n"
        f"echo $name $(date +%s.%N) >> {tmp_path}/answered\n"
        f"if [ \"$name\" = gamma ]; then cat {tmp_path}/answer; else echo '{NOTHING}'; fi\n"
    )
    program.chmod(stat.S_IRWXU)
    return tmp_path


def times(file: Path) -> dict[str, float]:
    return {name: float(at) for name, at in map(str.split, file.read_text().splitlines())} if file.exists() else {}


def start_worker(service: HubService, folder: Path) -> subprocess.Popen[bytes]:
    """A worker process that asks the model, and takes over after three seconds."""
    environment = os.environ | {
        "MEMSHEAF_HOME": str(folder / "home"), "MEMSHEAF_EMBEDDER": "none", "MEMSHEAF_MODEL": "claude",
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
    }  # fmt: skip
    return subprocess.Popen([sys.executable, "-c", WORKER, service.url, *service.teams], env=environment)


def test_what_a_member_tells_is_learned_once_in_their_name(
    service: HubService, team: Team, settings: Settings
) -> None:
    said = "Remember that I prefer green tea in the morning."
    assert [tell(service, team, said), tell(service, team, said)] == [1, 0]
    assert tell(service, team, "Off the record: Quentin leaves.", name="d") == 0
    assert waiting_jobs(team) == [("learn", "todo", "0")]
    args = rows(team, "SELECT args::text FROM memsheaf_jobs.procrastinate_jobs WHERE lock LIKE %s", f"{team.name}:%")
    assert "tea" not in str(args)
    work(service, settings)
    [(path, text)] = documents(team, "user/ana").items()
    assert "green tea" in text
    assert rows(team, "SELECT member, by FROM memsheaf.commits WHERE namespace = %s", f"{team.name}:user/ana") == [
        ("ana", "extraction")
    ]
    assert waiting_turns(team) == 0
    assert [job[:2] for job in waiting_jobs(team)] == [("consolidate", "todo")]
    assert tell(service, team, said) == 0
    work(service, settings)
    assert list(documents(team, "user/ana")) == [path]
    assert list((Path(settings.cache)).glob("hub-server-*")) == []


def test_a_job_that_fails_while_the_database_is_gone_is_done_later(
    service: HubService, team: Team, settings: Settings
) -> None:
    tell(service, team, "Remember that I prefer green tea in the morning.")
    cut_off = HubService(service.url, teams=service.teams)
    cut_off.close()  # neither can the turns be read, nor the job be put off
    work(cut_off, settings)
    assert (waiting_turns(team), waiting_jobs(team)) == (1, [("learn", "failed", "0")])
    tell(service, team, "Remember that I drink it without milk.", name="d")
    work(service, settings)
    work(service, settings)
    assert waiting_turns(team) == 0
    assert [job[:2] for job in waiting_jobs(team)] == [("consolidate", "todo")]


def test_what_is_past_retention_is_dropped_from_a_namespace_that_learns(
    service: HubService, team: Team, settings: Settings
) -> None:
    tell(service, team, "Remember that the till of the shop opens at nine.", space="project/shop")
    space, login = f"{team.name}:project/shop", f"{team.name}.ana"
    hub = service.open_hub(HubSettings(service.url, space, "m1", "m1"), login)
    for old, new in ((None, b"old"), (b"old", b"new"), (b"new", b"newer")):
        push(hub, "a.md", old, new)
    as_superuser(
        team,
        "UPDATE memsheaf.commits c SET received = c.received - interval '91 days' FROM memsheaf.revisions r "
        "WHERE c.namespace = %s AND r.namespace = c.namespace AND r.commit = c.id AND r.after <> %s",
        space, version_of(b"newer"),
    )  # fmt: skip
    with closing(HubWorker(service, settings)) as worker:
        worker.consolidate(space, login, 0)
    texts = rows(team, "SELECT data FROM memsheaf.texts WHERE namespace = %s ORDER BY data", space)
    assert texts == [(b"new",), (b"newer",)]
    with pytest.raises(HubRefused, match="needs admin"):
        hub.administer("prune", 0)


def test_what_was_saved_before_a_worker_died_is_not_learned_again(
    service: HubService, team: Team, settings: Settings
) -> None:
    tell(service, team, "Remember that I prefer green tea in the morning.")
    kept = rows(team, "SELECT id, turn::text FROM memsheaf.inbox WHERE namespace LIKE %s", f"{team.name}:%")
    work(service, settings)
    before = documents(team, "user/ana")
    path = next(iter(before))
    as_superuser(
        team, "DELETE FROM memsheaf.documents WHERE namespace LIKE %s", f"{team.name}:%"
    )  # nothing to compare
    for name, turn in kept:
        as_superuser(team, "UPDATE memsheaf.inbox SET turn = %s::jsonb WHERE id = %s", turn, name)
    tell(service, team, "Remember that I prefer green tea in the morning.")
    work(service, settings)
    assert waiting_turns(team) == 0
    assert documents(team, "user/ana") == {}, f"{path} was saved twice"


def test_a_proposal_is_not_lost_with_a_worker_that_saved_the_rest(
    service: HubService, team: Team, settings: Settings
) -> None:
    asking = settings._replace(policies=(("user", "suggest"),))
    tell(service, team, "Remember that the till of the shop opens at nine.", space="project/shop")
    tell(service, team, "Remember that I prefer green tea in the morning.", space="project/shop")
    stop = (  # where a killed worker ends: after the commit
        "CREATE FUNCTION {0}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE query_canceled; END'; "
        "CREATE TRIGGER {0} BEFORE UPDATE ON memsheaf.inbox FOR EACH ROW "
        "WHEN (NEW.turn IS NULL AND NEW.namespace LIKE '{0}:%%') EXECUTE FUNCTION {0}()"
    )
    as_superuser(team, stop.format(team.name))
    work(service, asking)
    assert ["till" in text for text in documents(team, "project/shop").values()] == [True]
    assert waiting_turns(team) == 2
    as_superuser(team, f"DROP FUNCTION {team.name} CASCADE")
    time.sleep(1.1)
    work(service, asking)
    assert waiting_turns(team) == 0
    proposed = "SELECT proposal ->> 'content' FROM memsheaf.proposals WHERE namespace = %s"
    [(content,)] = rows(team, proposed, f"{team.name}:project/shop")
    assert "green tea" in str(content)
    assert len(documents(team, "project/shop")) == 1


def test_one_job_at_a_time_works_on_a_namespace_and_a_killed_one_is_taken_over(
    service: HubService, team: Team, model: Path
) -> None:
    (model / "pause").write_text("60")
    tell(service, team, "Remember that alpha is the code name of the launch.", space="team")
    first = start_worker(service, model)
    while not times(model / "asked"):
        assert first.poll() is None
        time.sleep(0.02)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    (model / "pause").write_text("0.7")
    (model / "asked").unlink()
    tell(service, team, "Remember that beta is the code name of the party.", member="ben", space="team")
    tell(service, team, "Remember that gamma is the code name of my cat.", member="ben")
    time.sleep(3.1)  # it gives no sign of life
    workers = [start_worker(service, model) for _ in range(2)]
    assert [worker.wait(60) for worker in workers] == [0, 0]
    began, ended = times(model / "asked"), times(model / "answered")
    assert began.keys() == ended.keys() == {"alpha", "beta", "gamma"}
    assert ended["alpha"] <= began["beta"] or ended["beta"] <= began["alpha"]
    assert waiting_turns(team) == 0
    proposed = rows(
        team, "SELECT proposal ->> 'content' FROM memsheaf.proposals WHERE namespace = %s", team.namespace
    )
    assert sorted(str(one[0])[:5] for one in proposed) == ["alpha", "beta "]
    assert len(documents(team, "user/ben")) == 1


def test_a_team_spends_no_more_than_its_cap(
    service: HubService, team: Team, settings: Settings, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{model / 'bin'}:{os.environ['PATH']}")
    capped = settings._replace(model="claude", spend=Caps(requests_per_day=1))
    tell(service, team, "Remember that alpha is the code name of the launch.")
    tell(service, team, "Remember that beta is the code name of the party.", member="ben")
    work(service, capped)
    assert len(times(model / "asked")) == 1
    assert waiting_turns(team) == 1
    assert ("learn", "todo", "1") in waiting_jobs(team)
    time.sleep(1.1)
    work(service, settings._replace(model="claude", spend=Caps(requests_per_day=2)))
    assert len(times(model / "asked")) == 2
    assert waiting_turns(team) == 0


def test_what_a_team_learns_waits_for_a_person(
    service: HubService, team: Team, settings: Settings, tmp_path: Path
) -> None:
    tell(service, team, "Remember that the launch is in the harbour hall.", space="team")
    tell(service, team, "Remember that the standby server is on the roof terrace.", space="team", name="d")
    work(service, settings)
    assert documents(team, "team") == {}
    ana, ben = (ScopeOnMachine(tmp_path / name, f"team/{team.name}", team, name) for name in ("ana", "ben"))
    ana.join()
    ben.join()
    waiting = ana.json("review")["proposals"]
    assert sorted(one["name"] for one in waiting) == [
        "the launch is in the harbour hall", "the standby server is on the roof terrace"
    ]  # fmt: skip
    launch, party = (one["id"] for one in sorted(waiting, key=lambda one: str(one["name"])))
    assert "harbour" in ben.run("review")[1]
    ana.run("review", "--approve", launch)
    [text] = documents(team, "team").values()
    assert "harbour hall" in text
    assert "harbour" not in ben.run("review")[1]
    ben.run("review", "--reject", party)
    assert "roof" not in ana.run("review")[1]
    decided = "SELECT outcome, decided_by, proposal FROM memsheaf.proposals WHERE namespace = %s ORDER BY 1"
    assert rows(team, decided, team.namespace) == [("approved", "ana", None), ("rejected", "ben", None)]
    assert len(documents(team, "team")) == 1
    tell(service, team, "Remember that the standby server is on the roof terrace.", space="team", name="e")
    work(service, settings)
    assert "roof" not in ana.run("review")[1]
    ana.run("review", "--undo", launch)
    assert documents(team, "team") == {}
    assert "harbour" in ana.run("review")[1]


@pytest.mark.parametrize("space", ["user/ana", "team"])
def test_what_is_erased_while_a_worker_thinks_of_it_is_not_learned(
    service: HubService, team: Team, model: Path, space: str
) -> None:
    answer = {
        "action": "add",
        "file": "",
        "name": "Code name",
        "description": "Of the merger",
        "type": "project",
        "content": "The name gamma stands for the merger.",
        "scope": "persistent",
    }
    told = {"type": "result", "subtype": "success", "structured_output": {"memories": [answer]}}
    (model / "answer").write_text(json.dumps(told))
    settings = team.settings("ana", "m1")._replace(namespace=f"{team.name}:{space}")
    caller = Caller.asking(TokenMember(team.name, f"{team.name}.ana", "ana"))
    said = [Message("user", f"The name {name}.") for name in ("gamma stands for the merger", "beta for the party")]
    queue_turns(service, caller, settings.namespace, [Turn("c", (one, Message("assistant", "Yes."))) for one in said])
    with closing(PostgresHub(settings)) as hub:
        made = push(hub, "project_old.md", None, b"---\nname: Old\n---\nThe name gamma stands for the merger.\n")
        (model / "hold").touch()
        worker, ends = start_worker(service, model), time.monotonic() + 60
        while not (model / "asked").exists() and time.monotonic() < ends:
            time.sleep(0.02)
        hub.erase(Erasure("e" * 12, ("project_old.md",), (made.revisions[0].after,), at="2026-11-17T10:00:00Z"))
        (model / "hold").unlink()
        assert worker.wait(60) == 0
    assert documents(team, space) == {}
    assert rows(team, "SELECT FROM memsheaf.proposals WHERE namespace = %s", settings.namespace) == []
    assert sorted(times(model / "answered")) == ["beta", "gamma"]  # the rest was learned from, without it
    assert waiting_turns(team) == 0


def test_what_is_erased_leaves_the_copies_of_a_server(service: HubService, team: Team, settings: Settings) -> None:
    text = b"---\nname: Deployment\ndescription: When\ntype: project\n---\nWe deploy on Fridays, quixotically.\n"
    caller = Caller.asking(TokenMember(team.name, f"{team.name}.ana", "ana"))
    with (
        closing(PostgresHub(team.settings("ana", "m1"))) as hub,
        closing(ServerReplicas(service, settings)) as replicas,
    ):
        made = push(hub, "project_deploy.md", None, text, by="user")
        with replicas.use(caller) as view:
            assert [str(row.ref) for row in view.layers.search("deploy")] == [f"team/{team.name}:project_deploy.md"]
        hub.erase(Erasure(made.id[::-1], ("project_deploy.md",), (made.revisions[0].after,)))
        with replicas.use(caller) as view:
            assert view.layers.search("deploy") == []
        files = [file for file in Path(replicas.folder).rglob("*") if file.is_file()]
        assert [file for file in files if b"quixotically" in file.read_bytes()] == []
        [machine] = hub.users()[1]
        assert (machine.member, machine.erased) == ("ana", ((made.id[::-1], ""),))


def test_a_run_ends_also_when_a_model_always_fails(
    service: HubService, team: Team, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (model / "bin" / "claude").write_text(f"#!/bin/sh\necho asked >> {model}/asked\nsleep 1.2\nexit 1\n")
    monkeypatch.setenv("PATH", f"{model / 'bin'}:{os.environ['PATH']}")
    for member in ("ana", "ben"):
        tell(service, team, "Remember that alpha is the code name of the launch.", member=member)
    here = {"MEMSHEAF_HOME": str(tmp_path / "home"), "MEMSHEAF_EMBEDDER": "none", "MEMSHEAF_MODEL": "claude"}
    code, out, _ = run_command(["worker", "--hub", service.url, "--team", team.name, "--once"], here)
    assert code == 1
    assert out == "Learned from 0 turns; 2 jobs failed and will be tried again\n"
    assert (model / "asked").read_text() == "asked\n" * 2
    assert waiting_turns(team) == 2
    assert sorted(waiting_jobs(team)) == [("learn", "todo", "1")] * 2


def test_what_waits_is_left_to_a_newer_worker_when_this_one_is_too_old(
    postgres: Server, team: Team, settings: Settings
) -> None:
    database = f"hub_{team.name}"
    postgres.create_hub(database)
    team = Team(postgres, team.name, database)
    allow = "CREATE OR REPLACE FUNCTION memsheaf.min_client() RETURNS int LANGUAGE sql STABLE RETURN "
    with closing(HubService(service_url(postgres, database))) as service:
        tell(service, team, "Remember that I prefer green tea in the morning.")
        as_superuser(team, f"{allow} 99")
        work(service, settings)
        assert (waiting_turns(team), waiting_jobs(team)) == (1, [("learn", "todo", "1")])
