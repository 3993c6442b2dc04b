"""What learning by rules costs: CPU milliseconds a turn, by the number of turns that wait.

    python -m benchmarks.distil                 # 1,000 and 4,000 turns
    python -m benchmarks.distil 100 200         # other sizes

Ten turns are a conversation, and in every fourth the user asks to remember something. It ends with status 1 when a
turn costs more than 5 ms.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Iterator

from memsheaf.config import Settings
from memsheaf.recall.turns import Message, Turn
from memsheaf.sheaf import Sheaf

MOST = 5.0
NOUNS = [
    "parser",
    "gateway",
    "scheduler",
    "billing",
    "search",
    "cache",
    "queue",
    "frontend",
    "worker",
    "importer",
    "mailer",
    "session",
    "catalog",
]
VERBS = [
    "listens",
    "reads",
    "writes",
    "sends",
    "stores",
    "keeps",
    "calls",
    "needs",
    "uses",
    "builds",
    "checks",
    "loads",
]
THINGS = [
    "postgres",
    "redis",
    "kafka",
    "files",
    "packets",
    "tables",
    "orders",
    "invoices",
    "pages",
    "images",
    "metrics",
    "reports",
    "tickets",
]


def turns(count: int) -> Iterator[Turn]:
    """So many turns, the same every time."""
    chance = random.Random(1)
    for number in range(count):
        noun, verb, thing = map(chance.choice, (NOUNS, VERBS, THINGS))
        said = f"Can you look at the {noun} and tell me why it {verb} {thing} so slowly?"
        if number % 4 == 0:
            rest = f"{verb} {thing} and {chance.choice(THINGS)}"
            said = f"Remember that the {noun} {chance.choice(NOUNS)} number {chance.randrange(10**6)} {rest}."
        answer = Message("assistant", "I looked at it and changed the loop.", f"answer-{number:012}")
        yield Turn(f"c{number // 10}", (Message("user", said, f"message-{number:012}"), answer))


def cost(count: int) -> float:
    """The milliseconds of CPU that a turn takes to be distilled."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(f"{folder}/home", f"{folder}/cache", state=f"{folder}/state", embedder="none")
        with Sheaf.open("user", settings=settings) as sheaf:
            for turn in turns(count):
                sheaf.learn(turn)
            begun = time.process_time()
            done = sheaf.distil()
            spent = time.process_time() - begun
    assert done.turns == count
    return spent / count * 1_000


def main(sizes: list[int]) -> int:
    """Measure and print; 1 when a turn costs too much."""
    cost(40)  # phrases are compiled
    found = {size: cost(size) for size in sizes}
    for size, spent in found.items():
        print(f"{size:,} turns: {spent:.2f} ms of CPU a turn ({MOST:g} at most)")
    return int(max(found.values()) > MOST)


if __name__ == "__main__":
    sys.exit(main([int(one) for one in sys.argv[1:]] or [1_000, 4_000]))
