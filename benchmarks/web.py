"""Measure `memsheaf web` against a bare Starlette hello in the same run: CPU of the server a request.

python -m benchmarks.web                        # 10,000 memories in one scope; about two minutes
python -m benchmarks.web --size 1000 --times 5
python -m benchmarks.web --out benchmarks/results/web.md
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from urllib.parse import quote_plus, urlsplit

from benchmarks.conversation import cpu_of
from benchmarks.machine import facts
from benchmarks.measure import installed
from benchmarks.memories import fill, memory, query
from memsheaf.config import load
from memsheaf.open_scope import find_matches
from memsheaf.sheaf import AllScopes

SIZE = 10_000
KEY = "user"
MORE = ("activity", "review", "recall", "settings")  # pages without a target
PAGE_LIMIT, START_LIMIT, KEYSTROKE_LIMIT, PAINT_LIMIT = 8.0, 3.0, 15.0, 60.0
HERE = os.path.dirname(os.path.abspath(__file__))


@dataclass
class Case:
    """One thing to ask for, and what it cost the server in milliseconds."""

    name: str
    ask: Callable[[int], float]
    cpu: list[float] = field(default_factory=list)

    @property
    def ms(self) -> float:
        """The median."""
        return median(self.cpu or [float("nan")])


class NotThere(Exception):
    """A page that cannot be measured."""


class Server:
    """A server process, and one connection to it that stays open."""

    def __init__(self, process: subprocess.Popen[bytes], url: str) -> None:
        self.process = process
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.netloc, timeout=120)
        self._headers = {"Accept-Encoding": "gzip", "Host": parts.netloc}
        answer = self._send(url.removeprefix(f"{parts.scheme}://{parts.netloc}"))
        if cookie := answer[1].get("Set-Cookie"):
            self._headers["Cookie"] = cookie.partition(";")[0]

    def _send(self, path: str) -> tuple[int, http.client.HTTPMessage, bytes]:
        self._connection.request("GET", path, headers=self._headers)
        answer = self._connection.getresponse()
        return answer.status, answer.headers, answer.read()

    def get(self, path: str) -> bytes:
        """What a path answers, as it came over the wire."""
        status, _, body = self._send(path)
        if status != 200:
            raise NotThere(path)
        return body

    def cost(self, path: str) -> float:
        """CPU milliseconds that the server spends on one request."""
        before = cpu_of(self.process.pid)
        self.get(path)
        return (cpu_of(self.process.pid) - before) * 1000


@contextmanager
def running(command: Sequence[str], cwd: str, environment: dict[str, str]) -> Iterator[tuple[Server, float, float]]:
    """A server, and the CPU and wall milliseconds until it said where it is."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )
    assert process.stdout
    try:
        told = json.loads(process.stdout.readline())
        spent, wall = cpu_of(process.pid) * 1000, (time.perf_counter() - began) * 1000
        yield Server(process, told["url"]), spent, wall
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.web", description="What the page costs.")
    parser.add_argument("--size", type=int, default=SIZE, help="memories in one scope (default %(default)s)")
    parser.add_argument("--times", type=int, default=25, help="requests of each kind (default %(default)s)")
    parser.add_argument("--starts", type=int, default=7, help="starts of each server (default %(default)s)")
    parser.add_argument("--out", help="a file to write the table to")
    given = parser.parse_args(arguments)
    work = tempfile.mkdtemp(prefix="web-")
    try:
        text = measure_page(work, given.size, given.times, given.starts)
    finally:
        shutil.rmtree(work)
    print(text)
    if given.out:
        with open(given.out, "w", encoding="utf-8") as file:
            file.write(text)
    return 0


def measure_page(work: str, size: int, times: int, starts: int) -> str:
    """Fill a scope, measure starts and requests, and give the table."""
    here = os.path.join(work, "project")
    os.makedirs(os.path.join(here, ".git"))
    environment = _environment(work)
    fill(os.path.join(environment["MEMSHEAF_HOME"], "user"), size)
    scopes = AllScopes(load(environment), here)
    layers = scopes.around(scopes.find(KEY))
    _embed_all(scopes, KEY)

    script = os.path.join(os.path.dirname(sys.executable), "memsheaf")
    ours = [script, "web", "--json", "--port", "0"]
    bare = [sys.executable, os.path.join(HERE, "bare_starlette.py")]
    started: dict[str, list[float]] = {"ours": [], "bare": []}
    for number in range(starts + 1):
        for name, command in (("ours", ours), ("bare", bare)):
            with running(command, here, environment) as (_, spent, _wall):
                started[name] += [spent] * bool(number)

    with running(ours, here, environment) as (site, *_), running(bare, here, environment) as (hello, *_):
        cases = [
            Case("hello, bare Starlette", lambda number: hello.cost("/")),
            Case("home", lambda number: site.cost("/")),
            Case("memories", lambda number: site.cost(f"/memories?scope={KEY}")),
            Case("one memory", lambda number: site.cost(f"/memory/{KEY}/{memory(number * 7 % size).file}")),
            Case("a search keystroke", lambda number: site.cost(_keystroke(number % size))),
            Case(
                "the recall itself, in a process of its own",
                lambda number: _cpu(lambda: find_matches(layers.open_scopes(), query(number % size), limit=50)),
            ),
            *(Case(page, partial(_cost_of, site, page)) for page in MORE),
        ]
        for number in range(times + 3):  # the first ones warm it up
            for case in cases:
                with suppress(NotThere):
                    spent = case.ask(number)
                    case.cpu += [spent] * (number >= 3)
        paint = _first_paint(site)
    scopes.close()
    return _table(size, cases, started, paint, work)


def _table(size: int, cases: Sequence[Case], started: dict[str, list[float]], paint: float, work: str) -> str:
    by = {case.name: case.ms for case in cases}
    bare, keystroke, recall = cases[0].ms, by["a search keystroke"], by["the recall itself, in a process of its own"]
    lines = ["# What the page costs", "", f"`python -m benchmarks.web`: {size:,} memories in one scope, medians.", ""]
    lines += ["; ".join(f"{key} {value}" for key, value in facts(work).items()), ""]
    lines += ["| | CPU ms | times the hello | target |", "|---|--:|--:|--:|"]
    for case in cases:
        limit = f"{PAGE_LIMIT:g}" if case.name in ("home", "memories", "one memory") else ""
        lines.append(f"| {case.name} | {case.ms:.2f} | {case.ms / bare:.1f} | {limit} |")
    empty, ready = median(started["bare"]), median(started["ours"])
    lines += ["", "| | measured | target |", "|---|--:|--:|"]
    above = f"{keystroke - recall:.1f} ms | {KEYSTROKE_LIMIT:g} ms |"
    lines += [
        f"| a search keystroke above the recall itself | {above}",
        f"| start of an empty Starlette app | {empty:.0f} ms CPU | |",
        f"| start of `memsheaf web` until it listens | {ready:.0f} ms CPU | |",
        f"| times the empty app | {ready / empty:.1f} | {START_LIMIT:g} |",
        f"| first paint: home, its styles and scripts, compressed | {paint:.1f} KB | {PAINT_LIMIT:g} KB |",
    ]
    return "\n".join(lines) + "\n"


def _cost_of(site: Server, page: str, number: int) -> float:
    return site.cost(f"/{page}")


def _keystroke(number: int) -> str:
    return f"/memories?scope={KEY}&q={quote_plus(query(number))}"


def _cpu(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return (time.process_time() - before) * 1000


def _first_paint(site: Server) -> float:
    """Kilobytes over the wire for the home page and all that it names."""
    page = site.get("/")
    text = (gzip.decompress(page) if page[:2] == b"\x1f\x8b" else page).decode()
    named = set(re.findall(r'<(?:link|script|img)\b[^>]*?(?:href|src)="(/[^"]+)"', text))
    return (len(page) + sum(len(site.get(path)) for path in named)) / 1000


def _embed_all(scopes: AllScopes, key: str) -> None:
    """Search until each memory has its vector, as a scope has that is in use."""
    sheaf = scopes.sheaf(scopes.find(key))
    end = time.monotonic() + 300
    while time.monotonic() < end:
        sheaf.own.matches("anything at all", limit=5)
        found = sheaf.own.index.embedding()
        if found.done >= found.total:
            return
        time.sleep(0.5)


def _environment(work: str) -> dict[str, str]:
    inherited = installed(os.path.join(work, "bytecode"))
    kept = {key: value for key, value in inherited.items() if not key.startswith(("MEMSHEAF_", "CLAUDE"))}
    return kept | {
        "MEMSHEAF_HOME": os.path.join(work, "home"),
        "MEMSHEAF_EMBEDDER": "auto",
        "HOME": work,
    }


if __name__ == "__main__":
    sys.exit(main())
