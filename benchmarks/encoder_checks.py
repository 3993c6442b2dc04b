"""Checks of what else the encoder decides: scopes, corrections, speed beside MiniLM, and the size of the wheel."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir
from statistics import fmean, median
from time import perf_counter
from typing import NamedTuple

from training import data as labelled

from benchmarks import coding_set
from benchmarks.measure import measure_processes
from benchmarks.minilm import MiniLM, NotInstalled
from benchmarks.processes import environment_of
from benchmarks.rankers import stored
from benchmarks.recall_sets import HERE, Source
from memsheaf import config
from memsheaf.cli import main
from memsheaf.encode import Encoder
from memsheaf.encode.encoder import BuiltInEncoder
from memsheaf.encode.judge import guess_scope
from memsheaf.recall.turns import Message, Turn
from memsheaf.sheaf import Sheaf

ROOT = os.path.dirname(HERE)
SCOPE_FILES = {"development": "home.txt", "test": "held-out.txt"}
MAX_QUERIES = 60
MAX_MEMORIES = 256
ROUNDS = 3
STARTS = 7

_FIRST_RECALL = """
from memsheaf.sheaf import Sheaf
with Sheaf.open("user") as sheaf:
    assert sheaf.recall("where do the nightly backups of the database go?").candidates
"""


class Check(NamedTuple):
    """A line of the second table."""

    title: str
    measured: str
    must: str
    hope: str
    number: float


def check_scopes(source: Source, _: str) -> Iterator[Check]:
    """Ask for the scope of sentences that no head was trained on."""
    name = SCOPE_FILES[source.half]
    with open(os.path.join(ROOT, "training", "scopes", name), encoding="utf-8") as file:
        lines = [line.rstrip("\n").partition(" ") for line in file]
    right = [guess_scope(text)[0] == label for label, _, text in lines if label in ("u", "p")]
    yield Check(f"scope of {len(right)} sentences ({name})", f"{fmean(right):.2f}", ".93", ".97", fmean(right))


def check_corrections(_: Source, __: str) -> Iterator[Check]:
    """Save a fact and then a sentence that corrects it, or one about something else; typed, and in a conversation."""
    with open(os.path.join(ROOT, "tests", "learn", "pairs.json"), encoding="utf-8") as file:
        pairs = json.load(file)
    wrong = 0
    for is_typed, title, must, hope in (
        (True, "corrections: typed, replaced", "13 of 20", "16"),
        (False, "corrections: in a conversation, replaced", "6 of 10", "8"),
    ):
        right = 0
        for pair in pairs["corrections"]:
            texts = _save_both(pair["old"], pair["new"], is_typed=is_typed)
            right += any(pair["holds"] in text for text in texts) and not any(pair["gone"] in text for text in texts)
        wrong += sum(
            not any(pair["both"][0] in text for text in _save_both(pair["old"], pair["new"], is_typed=is_typed))
            for pair in pairs["distinct"]
        )
        yield Check(title, f"{right} of {len(pairs['corrections'])}", must, hope, right)
    yield Check("different facts wrongly replaced", f"{wrong} of {2 * len(pairs['distinct'])}", "0 of 60", "0", wrong)


def check_speed(source: Source, cache: str) -> Iterator[Check]:
    """Encode the same texts with MiniLM and with our encoder, in turn; start new processes beside bare Python."""
    try:
        theirs: Encoder = MiniLM(cache)
    except NotInstalled:
        return
    ours = BuiltInEncoder()
    worlds = labelled.worlds(source.half)
    queries = [message["text"] for world in worlds for message in world["messages"][:2]][:MAX_QUERIES]
    memories = [memory["text"] for world in worlds for memory in world["memories"]][:MAX_MEMORIES]
    for encoder in (ours, theirs):
        encoder.encode(queries[:3])
    pairs = [(_seconds(ours, [query]), _seconds(theirs, [query])) for query in queries]
    ratio = median(own / other for own, other in pairs)
    times = f"{1000 * median(own for own, _ in pairs):.1f} ms / {1000 * median(other for _, other in pairs):.1f} ms"
    yield Check("a query encoded, times MiniLM in 8 bits", f"{ratio:.2f} ({times})", "1.5", "1", ratio)
    pairs = [(_seconds(ours, memories), _seconds(theirs, memories)) for _ in range(ROUNDS)]
    ratio = median(other / own for own, other in pairs)
    times = (
        f"{len(memories) / min(own for own, _ in pairs):.0f} / {len(memories) / min(other for _, other in pairs):.0f}"
    )
    yield Check("memories a second, of MiniLM's", f"{ratio:.2f} ({times})", ".7", "1", ratio)
    with stored(coding_set.load().memories) as settings:
        with Sheaf.open("user", settings=settings) as sheaf:
            sheaf.list()
            sheaf.own.index.embed_all()
        commands = [[sys.executable, "-c", program] for program in ("pass", _FIRST_RECALL)]
        bare, recall = measure_processes(commands, STARTS, environment=environment_of(settings, "user"))
    ratio = recall.wall_ms / bare.wall_ms
    times = f"{recall.wall_ms:.0f} ms; CPU {recall.cpu_ms / bare.cpu_ms:.1f}"
    yield Check("first recall in a new process, times bare Python", f"{ratio:.1f} ({times})", "30", "22", ratio)


def check_wheel(_: Source, __: str) -> Iterator[Check]:
    """Build the wheel and weigh it."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        [wheel] = os.listdir(folder)
        size = os.path.getsize(os.path.join(folder, wheel)) / 1e6
    yield Check("wheel", f"{size:.1f} MB", "50 MB", "30 MB", size)


def _save_both(old: str, new: str, *, is_typed: bool) -> list[str]:
    """Return the memories after both sentences came, the first one typed."""
    with tempfile.TemporaryDirectory() as home, chdir(home):
        environment = {"HOME": home, "MEMSHEAF_HOME": os.path.join(home, "m"), "PATH": os.environ["PATH"]}
        for text in (old, new) if is_typed else (old,):
            out = io.StringIO()
            main(["remember", text], environment=environment, stdout=out, stderr=out)
        with Sheaf.open(settings=config.load(environment), cwd=home) as sheaf:
            if not is_typed:
                sheaf.learn(Turn("talk", (Message("user", new), Message("assistant", "OK."))))
                sheaf.distil()
            memories = [sheaf.read(row.ref) for row in sheaf.list()]
    return [f"{memory.name}\n{memory.description}\n{memory.body}" for memory in memories]


def _seconds(encoder: Encoder, texts: list[str]) -> float:
    started = perf_counter()
    encoder.encode(texts)
    return perf_counter() - started
