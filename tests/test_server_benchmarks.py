from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))

from benchmarks.conversation import LEGACY, MODERN, Conversation  # noqa: E402
from benchmarks.http_load import measure_load  # noqa: E402
from benchmarks.measure import installed  # noqa: E402
from benchmarks.memories import memory  # noqa: E402
from benchmarks.report_servers import served_json, served_tables  # noqa: E402
from benchmarks.served import BARE, OURS, Asking, Call, Served, Server, measure_served  # noqa: E402
from benchmarks.servers import measure_servers  # noqa: E402
from benchmarks.targets import judge_servers  # noqa: E402

BARE_LOOP = (sys.executable, str(ROOT / "benchmarks" / "bare_server.py"))
SDK = (sys.executable, str(ROOT / "benchmarks" / "sdk_server.py"))
ONCE = Asking(launches=1, calls=2, http_seconds=0.1)
NOTHING: dict[str, Call] = {kind: lambda _: ("nothing", {}) for kind in ("read", "search", "write")}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return installed(str(tmp_path_factory.mktemp("bytecode")))


def script(*lines: str) -> tuple[str, ...]:
    return (sys.executable, "-c", "\n".join(lines))


def answering(text: str, *, failed: bool = False) -> tuple[str, ...]:
    """A server whose tools answer one thing, after a banner and a message that nobody asked for."""
    return script(
        "import json, sys",
        "print('welcome')",
        "print(json.dumps({'jsonrpc': '2.0', 'method': 'notifications/message', 'params': {}}), flush=True)",
        "for line in sys.stdin:",
        "    request = json.loads(line)",
        f"    result = {{'tools': [], 'content': [{{'type': 'text', 'text': {text!r}}}], 'isError': {failed}}}",
        "    if 'id' in request:",
        "        print(json.dumps({'jsonrpc': '2.0', 'id': request['id'], 'result': result}), flush=True)",
    )


@pytest.mark.parametrize("era", [LEGACY, MODERN])
@pytest.mark.parametrize("command", [BARE_LOOP, pytest.param(SDK, marks=pytest.mark.long)])
def test_both_yardsticks_are_understood_in_both_eras(
    command: Sequence[str], era: str, environment: dict[str, str]
) -> None:
    with Conversation(command, environment, era=era) as host:
        host.greet()
        listed = host.ask("tools/list")
        cpu, wall, (resident, proportional) = host.cpu, host.wall, host.memory

    assert [tool["name"] for tool in listed["tools"]] == (["nothing"] if command == BARE_LOOP else [])
    assert cpu > 0
    assert wall > 0
    assert 0 < proportional <= resident


def test_the_clock_is_of_the_server_and_counts_all_its_threads(environment: dict[str, str]) -> None:
    busy = script(
        "import json, sys, threading, time",
        "def spin():",
        "    while time.process_time() < 0.3: pass",
        "thread = threading.Thread(target=spin); thread.start(); thread.join()",
        "for line in sys.stdin:",
        "    print(json.dumps({'id': json.loads(line)['id'], 'result': {}}), flush=True)",
    )
    with Conversation(busy, environment) as host:
        host.ask("anything")
        first = host.cpu

    assert first >= 0.3


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("no-such-program-here",), "No such file or directory"),
        (script("pass"), "it ended"),
        (answering("cannot open /var/data/store.db", failed=True), "read_it failed: cannot open (path)"),
        (answering("something else"), "read_it did not give the memory"),
    ],
)
def test_a_server_that_fails_says_why_and_the_others_are_measured(
    command: Sequence[str], why: str, environment: dict[str, str]
) -> None:
    broken = Server("broken", command, environment, size=3, calls={"read": lambda _: ("read_it", {})})
    bare = Server(BARE, BARE_LOOP, environment, calls=NOTHING, eras=(LEGACY, MODERN))

    failed, good = measure_served([broken, bare], ONCE, lambda _: None)

    assert why in failed.why
    assert f"broken: not measured: {failed.why}" in served_tables([failed, good])
    assert served_json(failed)["why"] == failed.why
    assert not good.why
    assert (len(good.launch.cpu), len(good.modern.cpu), len(good.first["read"].cpu)) == (2, 1, 1)
    assert {kind: len(sample.cpu) for kind, sample in good.warm.items()} == {"read": 2, "search": 2, "write": 2}


def test_a_search_that_finds_nothing_is_not_taken_for_a_fast_one(environment: dict[str, str]) -> None:
    blind = Server(
        "blind",
        answering(f"no luck; {memory(0).content}"),
        environment,
        size=1,
        calls={"read": lambda _: ("read", {}), "search": lambda _: ("search", {})},
        nothing="no luck",
    )

    (found,) = measure_served([blind], ONCE, lambda _: None)

    assert found.why == "search found nothing"


@pytest.mark.long  # every server compiles its modules anew
def test_ours_is_measured_with_memories_beside_the_yardsticks(tmp_path: Path) -> None:
    found = {each.server.name: each for each in measure_servers(str(tmp_path), 12, ONCE, lambda _: None)}
    ours = found[OURS]

    assert not ours.why
    assert set(ours.first) == {"read", "search", "view"}
    assert {kind: len(sample.cpu) for kind, sample in ours.warm.items()} == {"read": 2, "search": 2, "write": 2}
    assert len(ours.modern.cpu) == 1
    assert [load.connections for load in found["official SDK, empty"].http] == [32, 128]
    assert [load.errors for load in ours.http] == [0, 0]
    assert {each.why for each in found.values()} == {"", "it takes --peers"}
    states = {verdict.promise: verdict.state for verdict in judge_servers(list(found.values()))}
    assert states["MCP server, tools/list"] == states["MCP server, errors over HTTP"] == "reached"


def test_a_promise_about_a_server_that_failed_is_not_judged() -> None:
    failed = [Served(Server(name), why="it ended") for name in (OURS, BARE)]

    assert {(verdict.state, verdict.why) for verdict in judge_servers(failed)} == {("not measured", "it ended")}


@pytest.mark.long
def test_load_over_http_counts_answers_and_failures(environment: dict[str, str]) -> None:
    def some_fail(number: int) -> tuple[str, dict[str, object]]:
        return ("nothing" if number < 4 or number % 2 else "missing", {})

    good = measure_load((*SDK, "--http"), environment, lambda _: ("nothing", {}), seconds=0.2, connections=4)
    mixed = measure_load((*SDK, "--http"), environment, some_fail, seconds=0.2, connections=4)

    assert (good.connections, good.errors) == (4, 0)
    assert len(good.waited) >= 4
    assert 0 < good.wall_ms <= good.wall_p99_ms <= good.wall_worst_ms
    assert 0 < mixed.errors < len(mixed.waited)
