"""Many servers on one store at once, many calls in one connection, and servers that are killed: nothing is lost."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))
from mcp_server.mcp_peer import NEVER, PATIENCE, Message, Place, Wire, served

CLIENTS, STEPS = 3, 9
SHARED = "project_log.md"
HONEST = re.compile(
    r"Error: ('.*' exists, and you have not seen its present text"
    r"|String not found"
    r"|.* changed while)"
)
"""What a client is told when somebody was faster: that it changed, and what to do."""


def place_in(folder: Path) -> Place:
    place = Place(folder)
    place.root.mkdir(parents=True)
    header = "---\nname: Log\ndescription: What everybody did\ntype: project\n---\n"
    (place.root / SHARED).write_text(f"{header}count: 0\nend\n", "utf-8")
    return place


def order(who: int, number: int) -> Message:
    """A memory as a file, which is written as it is: to judge its text takes ten times as long."""
    number += 1000 * who
    header = f"---\nname: Order {number}\ndescription: What was ordered, {number}\ntype: project\n---\n"
    text = f"Parcel {number} went to harbour {number * 7 + 3}."
    return {"filename": f"project_order-{number}.md", "content": f"{header}{text}\n"}


def doctor(place: Place) -> None:
    """Nothing is wrong with the store."""
    command = [sys.executable, "-m", "memsheaf", "doctor", "--scope", "user"]
    environment = os.environ | place.environment
    found = subprocess.run(
        command, env=environment, cwd=place.folder, capture_output=True, timeout=PATIENCE, check=False
    )
    assert found.returncode == 0, found.stdout.decode() + found.stderr.decode()


# many at once


def honestly(wire: Wire, tool: str, **arguments: object) -> bool:
    """Call a tool: whether it is done; if not, then only because somebody was faster."""
    said = wire.text(tool, **arguments)
    assert not said.startswith("Error: ") or HONEST.match(said), said
    return not said.startswith("Error: ")


def work(place: Place, who: int) -> None:
    """What one client does: a line for the log, a memory of its own, one more on the counter; and again."""
    with served(place, modern=who % 2 == 0) as server:
        for number in range(STEPS):
            TURNS[number % len(TURNS)](server.wire, who, number)


def note(wire: Wire, who: int, number: int) -> None:
    while not honestly(wire, "memory_insert", filename=SHARED, line=1, text=f"mark {who}.{number}"):
        pass


def keep(wire: Wire, who: int, number: int) -> None:
    assert honestly(wire, "memory_write", **order(who, number))


def count(wire: Wire, who: int, number: int) -> None:
    while True:
        found = re.search(r"^count: (\d+)\n", wire.text("memory_read", filename=SHARED), re.MULTILINE)
        assert found
        more = f"count: {int(found[1]) + 1}\n"
        if honestly(wire, "memory_update", filename=SHARED, old_text=found[0], new_text=more):
            return


TURNS = (note, keep, count)
MINE = {turn: [number for number in range(STEPS) if TURNS[number % len(TURNS)] is turn] for turn in TURNS}


def test_no_update_is_lost_among_many_servers(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    with ThreadPoolExecutor(CLIENTS) as pool:
        for done in [pool.submit(work, place, who) for who in range(CLIENTS)]:
            done.result()
    text = (place.root / SHARED).read_text("utf-8")
    assert f"count: {CLIENTS * len(MINE[count])}\n" in text
    marks = re.findall(r"^mark (\d+)\.(\d+)$", text, re.MULTILINE)
    wanted = [(who, number) for who in range(CLIENTS) for number in MINE[note]]
    assert sorted((int(who), int(number)) for who, number in marks) == wanted
    for who in range(CLIENTS):
        for number in MINE[keep]:
            path = place.root / f"project_order-{1000 * who + number}.md"
            assert str(order(who, number)["content"]) in path.read_text("utf-8")
    doctor(place)


@pytest.mark.parametrize("modern", [False, True])
def test_calls_that_are_sent_without_waiting_are_all_done_in_order(tmp_path: Path, modern: bool) -> None:
    place = place_in(tmp_path)
    with served(place, modern=modern) as server:
        wire = server.wire
        sent = [wire.request("tools/call", {"name": "memory_write", "arguments": order(0, n)}) for n in range(30)]
        for number in range(30):
            arguments = {"filename": SHARED, "line": 0, "text": f"mark {number}"}
            sent.append(wire.request("tools/call", {"name": "memory_insert", "arguments": arguments}))
        answers = [wire.next(id=number, method=NEVER) for number in sent]
    assert not [answer for answer in answers if answer["result"]["isError"]]
    assert len(list(place.root.glob("project_order-*.md"))) == 30
    marks = re.findall(r"^mark (\d+)$", (place.root / SHARED).read_text("utf-8"), re.MULTILINE)
    assert list(map(int, marks)) == list(reversed(range(30)))


# and killed


def kill_often(place: Place, kills: int, seed: int) -> None:
    """Kill a server in the middle of writes, again and again, and miss nothing of what it acknowledged."""
    chance = random.Random(seed)
    for turn in range(kills):
        with served(place, modern=turn % 2 == 0) as server:
            wire, acknowledged = server.wire, set[int]()
            sent = {
                wire.request("tools/call", {"name": "memory_write", "arguments": order(turn, number)}): number
                for number in range(chance.randint(5, 20))
            }
            for _ in range(chance.randint(1, len(sent) - 1)):
                answer = wire.next(method=NEVER)
                assert not answer["result"]["isError"], answer
                acknowledged.add(sent[answer["id"]])
            server.process.kill()
            server.process.wait(PATIENCE)
            acknowledged |= {sent[answer["id"]] for answer in wire.rest() if "result" in answer}
        for number in acknowledged:
            path = place.root / f"project_order-{1000 * turn + number}.md"
            assert str(order(turn, number)["content"]) in path.read_text("utf-8"), (seed, turn, number)
    doctor(place)
    with served(place) as server:
        kept = server.wire.text("memory_search", query="parcel harbour", limit=50)
        assert len(kept.splitlines()) == 50 if kills > 20 else kept


def test_nothing_that_was_acknowledged_is_lost_when_servers_are_killed(tmp_path: Path) -> None:
    kill_often(place_in(tmp_path), 8, seed=random.randrange(2**32))


@pytest.mark.long
def test_nothing_is_lost_when_servers_are_killed_for_a_long_time(tmp_path: Path) -> None:
    kill_often(place_in(tmp_path), 300, seed=random.randrange(2**32))
