"""What is learned from a month of conversations: replayed day by day into a fresh sheaf, and held against its gold.

python -m benchmarks.month                                  # by rules alone
python -m benchmarks.month --month month2                   # the month that no rule was made for
python -m benchmarks.month --list                           # and what was missed, and kept in vain
python -m benchmarks.month --model oracle                   # as if a model had answered with the gold
python -m benchmarks.month --model gullible                 # as if a model had kept whatever it was shown
python -m benchmarks.month --model openai:local --url http://127.0.0.1:8092/v1 --conversations 10

`data/month/README.md` describes the month, `month_score.py` says what each number means.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import NamedTuple

from benchmarks.machine import code
from benchmarks.month_data import MONTHS, Conversation, Month, Step, load
from benchmarks.month_models import NAMED, Counted
from benchmarks.month_score import Kept, Rate, Score, held, judge
from memsheaf.config import Settings
from memsheaf.errors import MemsheafError
from memsheaf.guard.paths import CATALOG
from memsheaf.llm import Model, load_model
from memsheaf.memory import Allow, Memory, parse
from memsheaf.sheaf import Sheaf

SHOWN = 5  # problems
NAMES = {
    "explicit": "facts the user asked to keep",
    "implicit": "facts said in passing",
    "kinds": "of those held, with the right type",
    "precision": "memories that hold a fact",
    "stale": "memories that hold only an old value",
    "junk": "memories that hold none",
    "corrected": "corrections: new value held, old one gone",
    "superseded": "of those whose old value was learned",
    "misaimed": "changed memories, changed to something else",
    "days": "relative days made absolute",
}


class Replayed(NamedTuple):
    """What a month left behind.

    `was_held` are facts that were held when they were corrected, `rewrites` the texts of memories before and after
    they were changed, `on_disk` the secrets that were anywhere in the folder after a conversation was taken in or
    distilled, `outcomes` what became of proposals, `problems` what distilling complained about.
    """

    kept: tuple[Kept, ...]
    was_held: frozenset[str]
    rewrites: tuple[tuple[str, str], ...]
    on_disk: frozenset[str]
    outcomes: Counter[str]
    problems: tuple[str, ...]
    consolidations: int
    retired: int
    seconds: float


class Replay:
    """A fresh sheaf in a folder, and a clock that follows the conversations."""

    def __init__(self, month: Month, folder: str, model: Model | None, *, deadline: float, embedder: str) -> None:
        self.month = month
        self._folder = folder
        self._model = model
        self._deadline = deadline
        self._settings = Settings(
            home=os.path.join(folder, "home"),
            cache=os.path.join(folder, "cache"),
            state=os.path.join(folder, "state"),
            embedder=embedder,
        )
        self._now = 0.0
        self._by_agent: set[str] = set()
        self._was_held: set[str] = set()
        self._on_disk: set[str] = set()
        self._outcomes: Counter[str] = Counter()
        self._problems: list[str] = []
        self._consolidations = self._retired = 0

    def run(self, say: Callable[[str], None]) -> Replayed:
        """The whole month, one conversation after the other."""
        begun = time.perf_counter()
        for conversation in self.month.conversations:
            say(f"{conversation.name}, {conversation.steps[0].turn.at[:10]}")
            self._converse(conversation)
        with self._opened() as sheaf:
            kept, rewrites = tuple(self._kept(sheaf)), tuple(_rewrites(sheaf))
        return Replayed(
            kept,
            frozenset(self._was_held),
            rewrites,
            frozenset(self._on_disk),
            self._outcomes,
            tuple(self._problems),
            self._consolidations,
            self._retired,
            time.perf_counter() - begun,
        )

    def _converse(self, conversation: Conversation) -> None:
        self._now = _seconds(conversation.steps[0].turn.at)
        with self._opened() as sheaf:
            known = held(self.month, self._kept(sheaf))
            told = {step.number for step in conversation.steps}
            facts = self.month.facts.values()
            self._was_held |= {fact.corrects for fact in facts if fact.turn in told and fact.corrects in known}
            for turn in conversation.replayed:
                sheaf.learn(turn)
            for step in conversation.steps:
                self._take(sheaf, step)
            self._on_disk |= self._leaked()
            self._distil(sheaf)
            self._on_disk |= self._leaked()
        for step in conversation.steps:
            for fact in step.rejects:
                self._reject(fact)

    def _take(self, sheaf: Sheaf, step: Step) -> None:
        self._now = _seconds(step.turn.at)
        if step.saved:
            kind, name, description, content = step.saved
            self._by_agent.add(sheaf.write(name, description, kind, content, allow=Allow(anyway=True)).path)
        sheaf.learn(step.turn)

    def _distil(self, sheaf: Sheaf) -> None:
        done = sheaf.distil(self._model, deadline=self._deadline)
        self._outcomes.update(verdict.outcome for verdict in done.verdicts)
        self._problems += [done.problem] if done.problem else []
        if done.report:
            self._consolidations += 1
            self._retired += done.report.retired
            self._problems += done.report.notes

    def _leaked(self) -> set[str]:
        """The secrets of the month that stand in some file, whatever it is for."""
        secrets = {word for never in self.month.nevers if never.kind == "secret" for word in never.needles}
        found: set[str] = set()
        for place, _, names in os.walk(self._folder):
            for name in names:
                with open(os.path.join(place, name), "rb") as file:
                    data = file.read()
                found |= {secret for secret in secrets - found if secret.encode() in data}
        return found

    def _reject(self, fact: str) -> None:
        with self._opened(by="user") as sheaf:
            for one in list(self._kept(sheaf)):
                if self.month.facts[fact].is_in(one.text):
                    sheaf.forget(one.path, why="the user does not want this to be kept")

    def _kept(self, sheaf: Sheaf) -> Iterator[Kept]:
        for row in sheaf.list():
            memory = sheaf.read(row.path)
            text = _words(memory)
            yield Kept(row.path, memory.type, text, row.trust == "confirmed", learned=row.path not in self._by_agent)

    @contextmanager
    def _opened(self, by: str = "agent") -> Iterator[Sheaf]:
        with Sheaf.open("user", settings=self._settings, by=by, clock=lambda: self._now) as sheaf:
            yield sheaf


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay what the arguments ask for, and print how it went."""
    parser = _parser()
    given = parser.parse_args(arguments)
    month = load(given.month)
    if given.conversations < 0:
        parser.error("--conversations is a number of conversations, or 0 for all")
    if given.conversations:
        month = month.first(given.conversations)
    try:
        model = Counted(_model(given, month)) if given.model else None
    except MemsheafError as error:
        parser.error(str(error))
    version = code()  # now: it may change while a model thinks
    with tempfile.TemporaryDirectory() as folder:
        replay = Replay(month, folder, model, deadline=given.deadline, embedder=given.embedder)
        replayed = replay.run(_say if model else lambda _: None)
    score = judge(month, replayed.kept, replayed.was_held, replayed.rewrites)
    print("\n".join(lines(version, month, replayed, score, model)))
    if given.list:
        print("\n".join(listing(month, replayed.kept)))
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(numbers(version, month, replayed, score, model), file, indent=1, ensure_ascii=False)
    return 0


def lines(version: str, month: Month, replayed: Replayed, score: Score, model: Counted | None) -> Iterator[str]:
    """The report, for people."""
    yield f"code {version}, {model.name if model else 'no model'}"
    yield f"{len(month.conversations)} conversations, {month.turns} turns, {len(month.facts)} facts\n"
    for field, name in NAMES.items():
        yield f"  {name:44}{_rate(getattr(score, field))}"
    for name, value in _counts(replayed, score).items():
        yield f"  {name:44}{value:>4}"
    if score.junk_kinds:
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(score.junk_kinds.items()))
        yield f"  {'what the junk is':44}{kinds}"
    if model:
        yield f"\n  {model.requests} requests, {model.failures} failed, {model.seconds:.0f} s"
        yield f"  {model.input:,} tokens in, {model.output:,} out"
    counted = Counter(replayed.problems)
    for problem, count in counted.most_common(SHOWN):
        yield f"  {count} × {problem}"
    if len(counted) > SHOWN:
        yield f"  and {len(counted) - SHOWN} more, with --json"
    yield f"\n  {replayed.seconds:.1f} s in all"


def listing(month: Month, kept: Sequence[Kept]) -> Iterator[str]:
    """What was missed, and each memory with the facts it holds."""
    known = held(month, kept)
    turns = {step.number: step.turn for each in month.conversations for step in each.steps}
    yield "\nmissed:"
    for fact in month.facts.values():
        if fact.id not in {*known, *month.corrections, *month.rejected}:
            yield f"  {fact.id} {fact.how} {fact.kind}: {turns[fact.turn].messages[0].text!r}"
    yield "\nold values that are still there:"
    for old, new in month.corrections.items():
        for one in kept:
            if month.facts[old].is_in(one.text) and not any(later.is_in(one.text) for later in month.later(old)):
                yield f"  {old}, corrected by {new}{'' if new in known else ', which is missed'}: {one.path}"
    yield "\nmemories:"
    for one in kept:
        facts = " ".join(fact.id for fact in month.facts.values() if fact.is_in(one.text)) or "JUNK"
        doubt = "" if one.confirmed else " (unconfirmed)"
        yield f"  {one.path}{doubt}: {facts}: {one.text!r}"


def numbers(version: str, month: Month, replayed: Replayed, score: Score, model: Counted | None) -> dict[str, object]:
    """The report, for programs."""
    rates = {field: getattr(score, field) for field in NAMES}
    return {
        "code": version,
        "model": model.name if model else "",
        "conversations": len(month.conversations),
        "turns": month.turns,
        "facts": len(month.facts),
        **{
            field: {**rate._asdict(), "share": rate.share, "interval": rate.interval()}
            for field, rate in rates.items()
        },
        **_counts(replayed, score),
        "junk kinds": dict(score.junk_kinds),
        "spent": {
            "requests": model.requests,
            "failures": model.failures,
            "input": model.input,
            "output": model.output,
            "seconds": model.seconds,
        }
        if model
        else {},
        "problems": list(replayed.problems),
        "seconds": replayed.seconds,
    }


def _counts(replayed: Replayed, score: Score) -> dict[str, int]:
    return {
        "memories of a fact beyond the first": score.duplicates,
        "secrets in memories": score.secrets,
        "secrets anywhere on disk": len(replayed.on_disk),
        "planted text, confirmed": score.planted,
        "said off the record, kept": score.private,
        "rejected, and back again": score.came_back,
        "memories in all": len(replayed.kept),
        "memories that wait for a person": score.unconfirmed,
        "proposals saved": replayed.outcomes["saved"],
        "proposals queued": replayed.outcomes["queued"],
        "proposals dropped": replayed.outcomes["dropped"],
        "consolidations": replayed.consolidations,
        "memories they retired": replayed.retired,
    }


def _rate(rate: Rate) -> str:
    low, high = rate.interval()
    return f"{rate.hits:>4} of {rate.of:>3}   {rate.share:.2f} [{low:.2f}, {high:.2f}]"


def _rewrites(sheaf: Sheaf) -> Iterator[tuple[str, str]]:
    for commit in sheaf.log():
        files = [one for one in commit.revisions if one.path != CATALOG]
        gone, come = ([one for one in files if not one.new], [one for one in files if not one.old])
        for one in files:
            if one.old and one.new:
                yield _words(parse(one.path, one.old)), _words(parse(one.path, one.new))
        for old in gone:  # a memory that got another name with its new text stands right behind
            place = files.index(old) + 1
            if old.old and place < len(files) and files[place] in come:
                yield _words(parse(old.path, old.old)), _words(parse(files[place].path, files[place].new or b""))


def _words(memory: Memory) -> str:
    return f"{memory.name}\n{memory.description}\n{memory.body}"


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.month", description="What is learned in a month.")
    parser.add_argument("--month", default=MONTHS[0], choices=MONTHS, help="which one (default %(default)s)")
    parser.add_argument(
        "--model", default="", metavar="NAME", help="who reads: provider:model, or one of month_models.py"
    )
    parser.add_argument("--url", default="", help="where it answers, if not at its usual address")
    parser.add_argument("--key", default="", metavar="VARIABLE", help="the environment variable with its key")
    parser.add_argument("--deadline", type=float, default=60.0, metavar="SECONDS", help="for one answer")
    parser.add_argument(
        "--conversations", type=int, default=0, metavar="N", help="only the first so many (default: all)"
    )
    parser.add_argument("--embedder", default="auto", help="as in the settings (default %(default)s)")
    parser.add_argument("--list", action="store_true", help="also what was missed, and every memory")
    parser.add_argument("--json", default="", metavar="FILE", help="write the numbers there too")
    return parser


def _model(given: argparse.Namespace, month: Month) -> Model:
    if given.model in NAMED:
        return NAMED[given.model](month)
    return load_model(given.model, url=given.url, key=given.key)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
