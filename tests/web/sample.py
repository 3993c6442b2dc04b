"""A month of a developer's life, written by the library itself: what tests, benchmarks and pictures show.

python tests/web/sample.py FOLDER      # the home is FOLDER/home, the present project FOLDER/work/tidewater
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from memsheaf import Settings, Sheaf
from memsheaf.guard.citations import make
from memsheaf.limits import Caps
from memsheaf.llm.spend import Ledger, Spent
from memsheaf.memory import Allow
from memsheaf.recall.turns import Message, Turn
from memsheaf.work.facts import Fact, Facts
from memsheaf.work.notes import BLOCKERS, OBJECTIVE, PENDING, PHASE, set_notes
from memsheaf.worktree import WorkingTree, record_tree

DAY = 86_400.0
PROJECTS = ("tidewater", "fieldnotes", "gridcast")
PRESENT = "work/tidewater"
ANYWAY = Allow(anyway=True)
CONFIG = """\
# Written for the sample.
retention_days = 60

[spend]
requests_per_day = 200
tokens_per_day = 400000
"""
SOURCES = {
    "app/money.py": "ORE = 100\n\n\ndef to_ore(kronor: int) -> int:\n    return kronor * ORE\n\n",
    "app/migrations.py": "def require_additive(sql: str) -> None:\n    assert 'DROP' not in sql.upper()\n",
    "app/holds.py": "import time\n\nHOLD_MINUTES = 15\n\nEXPIRES = HOLD_MINUTES * 60\n\n\ndef now() -> float:\n"
    "    return time.time()\n",
    "app/availability.py": "import redis\n\n\nCACHE_SECONDS = 30\n\n\ndef forget(harbour: str) -> None:\n"
    "    redis.delete(harbour)\n\n",
    "app/flags.py": "FLAGS = {'vouchers': '2026-12-01', 'tide-import': '2026-11-24'}\n",
    "app/webhooks.py": "SEEN: set[str] = set()\ndef accept(id: str) -> bool:\n    # again and again\n"
    "    return id not in SEEN\n",
    "app/http.py": "CONNECT = 2.0\nTOTAL = 5.0\nRETRIES = 1\nMETHODS = ('GET',)\n",
    "app/schema.sql": "CREATE TABLE bookings (\n  boat integer NOT NULL,\n  period tstzrange NOT NULL,\n"
    "  EXCLUDE USING gist (\n    boat WITH =,\n    period WITH &&\n  )\n);\n",
    "tests/conftest.py": "DATABASE = 'postgresql:///tidewater_test'\n",
    "Makefile": "test:\n\tpytest -n 4\n\nload:\n\tlocust --host https://staging.tidewater.example\n",
}
DRIFTED = {"app/holds.py": ("HOLD_MINUTES = 15", "HOLD_MINUTES = 20"), "app/http.py": ("RETRIES = 1", "RETRIES = 2")}
SAID = (  # days ago, what a person said, from which something may be learned
    (5, "Please remember that harbour fees are shown separately on every invoice."),
    (4, "I always want release notes in two languages, English and Swedish."),
    (4, "Remember that the hydrographic office sends the tide table as a semicolon separated file."),
    (3, "From now on, keep refunds above 5,000 kronor for a person to look at."),
    (2, "Never deploy on a Friday afternoon, we had two bad weekends."),
    (2, "Remember that Annika runs the harbour in Kristianopel and answers mails only on weekdays."),
    (1, "Please remember that photos of boats need the owner's consent before they are published."),
    (1, "I prefer a short summary at the top of each pull request."),
    (0, "Remember that vouchers are printed in Gothenburg and take four days by post."),
)
FACTS = (
    (18, "Test command", "The tests run with `make test`.", "Makefile:1-2", "asked often"),
    (16, "Load test", "Load tests run with `make load` against staging.", "Makefile:4-5", "the docs lack it"),
    (12, "Hold time", "A hold lasts 15 minutes.", "app/holds.py:3", "support asks for it"),
)
RECALLED = (
    (8, "how do we test against the database?"),
    (6, "which time-outs do calls to the payment provider have?"),
    (3, "can I drop a column in this migration?"),
    (1, "write the release notes for 4.2"),
)


class Line(NamedTuple):
    """One memory of the list."""

    scope: str
    ago: int
    by: str
    kind: str
    name: str
    description: str
    text: str
    more: tuple[str, ...]


class Clock:
    """The time, which the sample sets."""

    def __init__(self, now: float) -> None:
        self._end = now
        self.now = now

    def __call__(self) -> float:
        self.now += 1.0  # no two commits at once
        return self.now

    def day(self, days_ago: float) -> str:
        """A day before the present one, as headers have it."""
        return time.strftime("%Y-%m-%d", time.localtime(self._end - days_ago * DAY))

    def go(self, days_ago: float, hour: float = 9.0) -> None:
        """Go to an hour of a day, and never beyond the present."""
        day = time.localtime(self._end - days_ago * DAY)
        midnight = time.mktime((day.tm_year, day.tm_mon, day.tm_mday, 0, 0, 0, 0, 0, -1))
        self.now = min(midnight + hour * 3600, self._end - 3600 + hour * 60)


def lines() -> Iterator[Line]:
    """The memories of the list, the oldest first."""
    text = Path(__file__).with_name("sample_memories.txt").read_text("utf-8")
    found = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            scope, ago, by, kind, name, description, body, *more = line.split(" | ")
            found.append(Line(scope, int(ago), by, kind, name, description, body.replace(" / ", "\n\n"), tuple(more)))
    return iter(sorted(found, key=lambda one: -one.ago))


def build(place: Path, now: float | None = None) -> Settings:
    """Write the sample into a new folder, as if a month until now had passed; gives its settings."""
    home = place / "home"
    home.mkdir(parents=True)
    (home / "config.toml").write_text(CONFIG, "utf-8")
    for project in PROJECTS:
        (place / "work" / project / ".git").mkdir(parents=True)
    for path, text in SOURCES.items():
        file = place / PRESENT / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")
    settings = Settings(str(home), str(home / "cache"), state=str(home / "state"), embedder="auto")
    clock = Clock(time.time() if now is None else now)
    with ExitStack() as stack:
        _Writer(place, settings, clock, stack).write()
    for project in PROJECTS:
        record_tree(settings.places(str(place / "work" / project)))
    for path, (old, new) in DRIFTED.items():
        file = place / PRESENT / path
        file.write_text(file.read_text("utf-8").replace(old, new), "utf-8")
    return settings


class _Writer:
    def __init__(self, place: Path, settings: Settings, clock: Clock, stack: ExitStack) -> None:
        self.place = place
        self.settings = settings
        self.clock = clock
        self.chance = random.Random("a month")
        self.layers = {
            project: stack.enter_context(
                Sheaf.open(settings=settings, cwd=str(place / "work" / project), by="agent", clock=clock)
            )
            for project in PROJECTS
        }
        self.here = self.layers["tidewater"]
        self.others: dict[str, Sheaf] = {}
        self.stack = stack
        self.tree = stack.enter_context(WorkingTree(str(place / PRESENT)))
        self.events: list[tuple[int, float, Callable[[], object]]] = []

    def write(self) -> None:
        """All of it, in the order in which it happened."""
        self._plan_memories()
        self.at(0, 7.0, self._spend)
        self._plan_facts()
        self._plan_changes()
        self._plan_work()
        self._plan_recalls()
        self._plan_learning()
        for ago, hour, do in sorted(self.events, key=lambda one: (-one[0], one[1])):
            self.clock.go(ago, hour)
            do()

    def at(self, ago: int, hour: float, do: Callable[[], object], by: str = "agent") -> None:
        """Plan something for an hour of a day."""

        def act() -> None:
            for layers in self.layers.values():
                layers.by = by
            do()

        self.events.append((ago, hour, act))

    def _sheaf(self, scope: str) -> Sheaf:
        if scope == "user":
            return self.here.only("user")
        if scope in self.layers:
            return self.layers[scope].only("project")
        if scope not in self.others:
            opened = Sheaf.open(scope, settings=self.settings, cwd=str(self.place), clock=self.clock)
            self.others[scope] = self.stack.enter_context(opened)
        return self.others[scope]

    def _plan_memories(self) -> None:
        for line in lines():
            self.at(line.ago, self.chance.uniform(8, 17), partial(self._remember, line), line.by)

    def _remember(self, line: Line) -> None:
        more = [one.partition(" ") for one in line.more]
        talked = [f"talk-{value}" for key, _, value in more if key == "talk"]
        sheaf = self._sheaf(line.scope)
        sheaf.by = line.by
        sheaf.write(
            line.name,
            line.description,
            line.kind,
            line.text,
            pinned="pin" in line.more,
            trust="unconfirmed" if "unconfirmed" in line.more else "",
            citations=[str(make(self.tree, value)) for key, _, value in more if key == "cite"],
            conversation=talked[0] if talked else "",
            expires=self.clock.day(3) if "expired" in line.more else "",
            allow=ANYWAY,
        )

    def _plan_facts(self) -> None:
        facts = Facts(self.here.only("project"))
        for ago, subject, text, place, reason in FACTS:
            fact = Fact(subject, text, (place,), reason, "project")
            self.at(ago, 11, partial(facts.add, fact, tree=self.tree, allow=ANYWAY))
        better = partial(facts.supersede, "Test command", "The tests run with `make test`, four at a time.")
        self.at(3, 11, partial(better, reason="they got slow", citations=["Makefile:2"], tree=self.tree))

    def _plan_changes(self) -> None:
        """Edits, a correction, something forgotten, and something taken back."""
        project, user = self.here.only("project"), self.here.only("user")

        def revise(name: str, old: str, new: str) -> None:
            project.revise(_path(project, name), old, new)

        def correct() -> None:
            text = "A hold expires after 20 minutes since release 4.1; the countdown shows it."
            project.write(
                "Bookings hold a boat for twenty minutes", "Reservation before payment", "project", text,
                supersedes=[_path(project, "A booking holds a boat for fifteen minutes")],
                reason="guests ran out of time while paying", allow=ANYWAY,
            )  # fmt: skip

        def forget() -> None:
            project.forget(_path(project, "Boats have seasons"), why="the rule is in the code now")

        goal = "Search must answer in 200 ms"
        self.at(13, 13, partial(revise, goal, "50 requests", "80 requests"), "user")
        self.at(10, 13, partial(revise, "Deploys take two versions side by side", "four", "three"))
        self.at(8, 13, partial(revise, goal, "80 requests", "60 requests"), "user")
        self.at(6, 18, forget, "user")
        self.at(3, 18, lambda: user.forget(_path(user, "Standing desk until noon")))
        self.at(3, 18.1, user.undo, "user")
        self.at(2, 18, correct)

    def _plan_work(self) -> None:
        lines = {
            OBJECTIVE: "Release 4.2 with gift vouchers on Tuesday",
            PHASE: "3 of 4 (gift-vouchers)",
            BLOCKERS: "the payment provider changes its certificate on Thursday",
            PENDING: "does a voucher expire at the end of a year or after three years to the day?",
        }
        self.at(1, 9, lambda: set_notes(self.here.only("project"), lines))

    def _plan_recalls(self) -> None:
        for ago, message in RECALLED:
            self.at(ago, 14, partial(self.here.recall, message, tree=str(self.place / PRESENT)))

    def _spend(self) -> None:
        ledger = Ledger.of(self.settings.state, clock=self.clock)
        for purpose in ("extract", "consolidate", "chat"):
            cost = Spent("", purpose, "claude-sonnet", input=4_200, output=310, seconds=2.5)
            ledger.settle(ledger.reserve(Caps(), cost._replace(seconds=5.0)), cost)

    def _plan_learning(self) -> None:
        """What waits for review, read from turns by the rules that read them where no model is asked."""
        suggesting = self.settings._replace(policy="suggest")
        cwd = str(self.place / PRESENT)
        layers = Sheaf.open(settings=suggesting, cwd=cwd, by="extraction", clock=self.clock)
        self.stack.enter_context(layers)

        def learn(said: str) -> None:
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.clock()))
            layers.learn(Turn("talk-5", (Message("user", said), Message("assistant", "Noted.")), at))
            layers.distil("none")

        for ago, said in SAID:
            self.at(ago, 16, partial(learn, said))


def _path(sheaf: Sheaf, name: str) -> str:
    return next(row.path for row in sheaf.list() if row.name == name)


if __name__ == "__main__":
    build(Path(os.path.abspath(sys.argv[1])))
