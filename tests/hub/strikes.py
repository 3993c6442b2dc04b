"""Kills, cuts, fills and sets back everything that a change of a hub scope goes through, and counts what was lost.

    python -m hub.strikes                   everything, from tests/; needs strace, and root for full disks (minutes)
    python -m hub.strikes --every 50 kill   only killed machines, at every 50th system call

Each line of the answer says how many faults were aimed and how many really hit.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator

from hub import outages
from hub.crash_server import CrashServer
from hub.spaces import GitSpace, PostgresSpace
from hub.victims import Machines
from hub.works import WORKS, Report, World, kill

FULL = "error=ENOSPC"
CUT = ("create", "update", "batch", "push_queued", "push_edit", "keep_both", "pull", "undo", "erase")
SERVER = ("immediate", "postmaster", "all", "backend", "terminated")


class Strikes:
    """All kinds of faults, in folders of their own."""

    def __init__(self, place: str, server: CrashServer, every: int) -> None:
        self.place, self.server, self.every = place, server, every

    def folder(self, name: str) -> str:
        made = os.path.join(self.place, name)
        os.makedirs(made)
        return made

    def kill(self) -> Iterator[Report]:
        """Machines killed at system calls."""
        yield from self._at_calls("kill", "signal=KILL")

    def full(self) -> Iterator[Report]:
        """Machines whose disk is full."""
        yield from self._at_calls("full", FULL)

    def _at_calls(self, name: str, fault: str) -> Iterator[Report]:
        # a piece of work with git makes three times the calls, and takes three times as long
        spaces: tuple[tuple[str, int, Callable[[str], PostgresSpace | GitSpace]], ...] = (
            ("postgres", self.every, lambda _: PostgresSpace(self.server)),
            ("git", self.every * 5, GitSpace),
        )
        for hub, every, space in spaces:
            place = self.folder(f"{name}-{hub}")
            with Machines() as machines:
                world = World(place, space(place))
                for work in WORKS:
                    yield _named(hub, kill(world, work, machines, every=every, fault=fault))
                world.close()

    def stop(self) -> Iterator[Report]:
        """The server of the database taken down while machines write."""
        for how in SERVER:
            yield _named(
                "postgres", outages.strike_server(self.folder(how), self.server, how, max(2, 60 // self.every))
            )

    def cut(self) -> Iterator[Report]:
        """The network cut in the middle, slow, silent and gone."""
        moments = max(2, 40 // self.every)
        place = self.folder("cut-git")
        for hub, network, count in (
            ("postgres", outages.ProxyNetwork(self.server), moments),
            ("git", outages.SshNetwork(place), max(2, moments // 3)),
        ):
            with Machines() as machines:
                postgres = hub == "postgres"
                space = PostgresSpace(self.server) if postgres else outages.SshSpace(place)
                world = World(self.folder("cut-postgres") if postgres else place, space)
                for work in CUT:
                    yield _named(hub, outages.cut(world, network, work, moments=count, machines=machines))
                for work in ("update", "batch"):
                    yield _named(hub, outages.hamper(world, network, work, machines))
                world.close()
            network.close()

    def disk(self) -> Iterator[Report]:
        """The disk of the hub full; only root can make a small one."""
        if os.getuid():
            print("the hub's disk full: left out, only root can mount a small one")
            return
        with Machines() as machines:
            yield _named("postgres", outages.fill_postgres(self.folder("disk-postgres"), machines))
            yield _named("git", outages.fill_git(self.folder("disk-git"), machines))

    def restore(self) -> Iterator[Report]:
        """The hub set back to an older backup."""
        yield _named("postgres", outages.restore_postgres(self.folder("restore-postgres"), self.server))
        yield _named("git", outages.restore_git(self.folder("restore-git")))

    def crowd(self) -> Iterator[Report]:
        """Many machines that write at once."""
        place = self.folder("crowd")
        yield _named("postgres", outages.crowd(place, PostgresSpace(self.server), 16, 250, lambda: 0))
        place = self.folder("crowd-git")
        yield _named("git", outages.crowd(place, GitSpace(place), 4, 25, lambda: 0))


def _named(hub: str, report: Report) -> Report:
    report.kind = f"{hub:9}{report.kind}"
    return report


KINDS = ("kill", "full", "stop", "cut", "disk", "restore", "crowd")


def main() -> int:
    """Strike, print what was found, and fail if anything was wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}; all unless named")
    parser.add_argument("--every", type=int, default=5, help="strike at every n-th moment only")
    options = parser.parse_args()
    reports = []
    with tempfile.TemporaryDirectory() as place, CrashServer(os.path.join(place, "server")) as server:
        strikes = Strikes(place, server, options.every)
        for kind in options.kinds or KINDS:
            for report in getattr(strikes, kind)():
                print(report, *(f"\n  {wrong}" for wrong in report.wrong), flush=True)
                reports.append(report)
    aimed, hit, wrong = (
        sum(values) for values in zip(*((r.aimed, r.hit, len(r.wrong)) for r in reports), strict=True)
    )
    print(f"{hit} faults hit, of {aimed}; {sum(r.acknowledged for r in reports)} changes acknowledged; {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
