"""Measure memsheaf, the documents' algorithm and the yardstick in one run, and write down what was found.

python -m benchmarks.run                        # 100 to 100,000 memories; about ten minutes
python -m benchmarks.run --quick                # 100 and 1,000, few repetitions
python -m benchmarks.run --peers                # other memory servers, too, installed for it
python -m benchmarks.run --sizes 1000,10000 --folder /mnt/disk --out results
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence

from benchmarks.flush import HELD, SIZE, yardsticks_when_held
from benchmarks.machine import IN_MEMORY, code, facts
from benchmarks.measure import Sample, installed, measure_processes
from benchmarks.plot import draw, draw_servers
from benchmarks.processes import Unmeasured
from benchmarks.report import Report, as_json, as_markdown, verdict_lines
from benchmarks.served import FEW, Asking
from benchmarks.servers import SIZE as SERVED
from benchmarks.servers import measure_servers
from benchmarks.sizes import QUICK, SMOKE, Effort, measure_sizes
from benchmarks.targets import SAVE_YARDSTICKS, Verdict, judge, judge_servers

SIZES = "100,1000,10000,100000"
QUICK_SIZES = "100,1000"
HERE = os.path.dirname(os.path.abspath(__file__))
STATEMENTS = ("pass", "import memsheaf", "from memsheaf.sheaf import Sheaf")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments ask for."""
    given = _parser().parse_args(arguments)
    effort = SMOKE if given.smoke else QUICK if given.quick else Effort()
    sizes = [int(size) for size in (given.sizes or (QUICK_SIZES if given.quick or given.smoke else SIZES)).split(",")]
    base = given.folder or os.path.join(os.path.dirname(HERE), "build")
    os.makedirs(base, exist_ok=True)
    work = tempfile.mkdtemp(prefix="bench-", dir=base)
    try:
        machine = facts(work)
        if machine["file system"] in IN_MEMORY:
            _say("this folder is in memory, where a flush costs nothing: wall times will not mean anything")
        report = _measure(sizes, work, effort, machine, peers=given.peers)
    finally:
        shutil.rmtree(work)
    _write(report, given.out, plot=not given.no_plot)
    for line in verdict_lines(report.verdicts):
        print(line)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description="How fast memsheaf is.")
    parser.add_argument("--sizes", default="", help=f"numbers of memories, with commas (default {SIZES})")
    parser.add_argument("--quick", action="store_true", help=f"few repetitions, and sizes {QUICK_SIZES}")
    parser.add_argument("--smoke", action="store_true", help="everything but the servers about once: does it run?")
    parser.add_argument("--peers", action="store_true", help="measure other memory servers, too")
    parser.add_argument("--folder", default="", help="where to work: a real disk, not memory (default build/)")
    parser.add_argument("--out", default=os.path.join(HERE, "results"), help="where results go (default %(default)s)")
    parser.add_argument("--no-plot", action="store_true", help="leave the picture out")
    return parser


def _measure(sizes: Sequence[int], work: str, effort: Effort, machine: dict[str, str], *, peers: bool) -> Report:
    measured = code()
    _say("imports")
    imports = _imports(effort, os.path.join(work, "bytecode"))
    found = measure_sizes(sizes, work, effort, _say)
    _say("saves where a flush takes its time")
    held = _held(os.path.join(work, "held"), effort)
    most = SERVED if SERVED in sizes else max(sizes)
    asking = FEW if effort is QUICK else Asking()
    servers = []
    if effort is not SMOKE:
        servers = measure_servers(os.path.join(work, "servers"), most, asking, _say, peers=peers)
    if code() != measured:
        raise SystemExit("the code of memsheaf changed during the run: the numbers are of no one program")
    day = time.strftime("%Y-%m-%d")
    verdicts = (*judge(found, imports), held, *(judge_servers(servers) if servers else ()))
    return Report(day, {"code": measured, **machine}, tuple(found), imports, verdicts, tuple(servers))


def _held(folder: str, effort: Effort) -> Verdict:
    promise = f"save at {SIZE:,}, wall, median, where a flush takes {HELD / 1000:g} ms"
    try:
        if effort is SMOKE:
            raise Unmeasured("--smoke leaves it out")
        return Verdict(promise, SAVE_YARDSTICKS, yardsticks_when_held(folder, effort.rounds), "yardsticks")
    except Unmeasured as problem:
        return Verdict(promise, SAVE_YARDSTICKS, None, "yardsticks", why=str(problem))


def _imports(effort: Effort, cache: str) -> dict[str, Sample]:
    commands = [[sys.executable, "-c", statement] for statement in STATEMENTS]
    samples = measure_processes(commands, effort.processes, environment=installed(cache))
    return dict(zip(STATEMENTS, samples, strict=True))


def _write(report: Report, out: str, *, plot: bool) -> None:
    os.makedirs(out, exist_ok=True)
    for name, text in (("results.md", as_markdown(report)), ("results.json", as_json(report))):
        with open(os.path.join(out, name), "w", encoding="utf-8") as file:
            file.write(text)
    if not plot:
        return
    drawn = draw(report.sizes, os.path.join(out, "results.png"))
    if not drawn or not draw_servers(report.servers, os.path.join(out, "servers.png")):
        _say("no picture: matplotlib is not installed (pip install 'memsheaf[bench]')")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
