"""Consolidation: memories that say the same become one, and what no longer holds is retired.

Plan, check, apply. A plan is made of groups; a group that fails a check is dropped alone, with the reason. What
passes is one commit that names the versions that were read: if a file changed meanwhile, its group is dropped and the
rest is done. Nothing is lost: a merged memory has every line of its sources as it was, what is retired stays in the
history, and one `undo` brings all of it back.

    report = run(scope, state=scope.state, now=time.time())               # the plan
    report = run(scope, state=scope.state, now=time.time(), apply=True)   # and it is done
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from datetime import date
from itertools import islice
from typing import NamedTuple

from memsheaf.config import Dream
from memsheaf.errors import Busy, Changed, MemsheafError, ModelFailed, Refused, SecretFound, StoreFailed, TextRefused
from memsheaf.frontmatter import edit_text
from memsheaf.gates import WrittenFile, check_text
from memsheaf.guard.paths import is_fact
from memsheaf.guard.secrets import find_secrets
from memsheaf.index.database import IN_MEMORY, connect, writing
from memsheaf.index.lexical import rank_by_words
from memsheaf.index.rows import put
from memsheaf.learn.extract import BadAnswer, ask_twice
from memsheaf.llm import Model, Question, object_schema
from memsheaf.memory import Memory, parse, plural
from memsheaf.open_scope import OpenScope, diff
from memsheaf.prompts import read_prompt
from memsheaf.recall.inject import CONTEXT
from memsheaf.state import State
from memsheaf.text.dates import absolute, parse_day
from memsheaf.text.neutralize import for_prompt, one_line
from memsheaf.text.similarity import (
    RELATED,
    SAME,
    alike,
    fact,
    group_alike,
    has_order,
    sentences,
    sentences_of,
    telling,
)

BY = "consolidation"
MIN_CHANGES, CHANGES_DIVISOR = 2, 10  # a run may retire or rewrite a tenth of the memories, and two in any case

Progress = Callable[[int, int], None]


class PlanGroup(NamedTuple):
    """The smallest thing that is done or left: `keeper` stays, with a new `text` unless that is "", `retired` go.

    All memories are as they were read; no two groups share one. `action` is a key of `ACTIONS`.
    """

    action: str
    why: str
    keeper: Memory | None
    text: str = ""
    retired: tuple[Memory, ...] = ()

    @property
    def paths(self) -> list[str]:
        """Return the paths of all its memories, the keeper first."""
        return [file.path for file in self.files()]

    def files(self) -> list[WrittenFile]:
        """Return what to commit. A keeper that stays as it is takes part, so that it must still be what was read."""
        files = [WrittenFile(memory.path, None, memory) for memory in self.retired]
        if keeper := self.keeper:
            after = parse(keeper.path, self.text.encode()) if self.text else keeper
            files.insert(0, WrittenFile(keeper.path, after, keeper))
        return files

    def diff(self) -> str:
        """Show what it changes, line by line."""
        parts = [diff(memory.path, memory.text, "", labels=("now", "retired")) for memory in self.retired]
        if self.keeper and self.text:
            parts.insert(0, diff(self.keeper.path, self.keeper.text, self.text, labels=("now", "planned")))
        return "\n".join(parts)


ACTIONS = {"merge": "merged", "dates": "dated", "contradicted": "no longer so", "expired": "expired"}


@dataclass(slots=True)
class ConsolidationReport:
    """The groups that would be done, or were; those that were dropped, each with why; the commit, "" without one.

    `notes` name problems, such as a model that did not answer.
    """

    groups: list[PlanGroup] = field(default_factory=list)
    dropped: list[tuple[PlanGroup, str]] = field(default_factory=list)
    commit: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def retired(self) -> int:
        """Return the number of memories that are retired."""
        return sum(len(group.retired) for group in self.groups)

    def drop(self, groups: Collection[PlanGroup], why: str) -> None:
        """Leave out groups, and say why."""
        self.groups = [group for group in self.groups if group not in groups]
        self.dropped += [(group, why) for group in groups]


def run(
    scope: OpenScope,
    *,
    state: State,
    now: float,
    model: Model | None = None,
    apply: bool = False,
    learned: int = 0,
    changed_since: float = 0.0,
    progress: Progress | None = None,
) -> ConsolidationReport:
    """Find what can be consolidated, check it, and with `apply` do it.

    Without a model, near-duplicates are merged, what expired is retired, and relative dates become absolute. A model
    is shown what belongs to a memory that was `changed_since` then. `learned` is the number of conversations that
    were ever learned from: the gate counts from there on.

    Raises:
        Busy: another process is consolidating; only with `apply`.
        StoreFailed: nothing was done.
    """
    first_day = date.fromtimestamp(changed_since).isoformat() if changed_since else ""
    if not apply:
        return _plan(scope, state, first_day, now, model, progress)
    with ExitStack() as stack:
        try:
            stack.enter_context(state.lock(LOCK, wait=WORKER_SECONDS))
        except Busy:
            raise Busy("another process is consolidating already") from None
        _save_last_run(state, load_last_run(state)._replace(looked=now))
        report = _plan(scope, state, first_day, now, model, progress)
        _commit(report, scope)
        try:
            _move_questions(state, report.groups)
            _save_last_run(state, LastRun(now, learned, looked=now))
        except (StoreFailed, Busy) as error:  # the commit stands
            report.notes.append(f"it was done, but not noted: {error}")
        return report


def _plan(
    scope: OpenScope, state: State, first_day: str, now: float, model: Model | None, progress: Progress | None
) -> ConsolidationReport:
    """Return the groups that pass every check, and those that were dropped."""
    today = date.fromtimestamp(now)
    memories = {}
    for row in scope.list():
        with suppress(MemsheafError):  # deleted or unreadable: then it is not touched
            memory = scope.read(row.path)
            is_known = memory.state == "ok" and memory.type and memory.trust != "shared"
            if is_known and not memory.is_item and memory.path == row.path != CONTEXT:
                memories[row.path] = memory
    max_changes = max(MIN_CHANGES, len(memories) // CHANGES_DIVISOR)
    report = ConsolidationReport(find_groups(list(memories.values()), today, max_changes))
    fixed = [group for group in report.groups if any(map(_is_fixed, group.retired))]
    report.drop(fixed, "you wrote or pinned it, or it is a fact; `memsheaf forget` removes it")
    if model:
        free = _without(memories.values(), report.groups)
        clusters = _find_clusters(free, scope, first_day, max_changes + 1)
        _add_proposals(report, islice(clusters, MAX_CLUSTERS), model, today, progress)
    _drop_refused(report, scope, max_changes)
    _drop_regressions(report, memories, scope, expectations(state))
    return report


def _without(memories: Iterable[Memory], groups: Iterable[PlanGroup]) -> list[Memory]:
    """Return the memories that are in none of these groups."""
    taken = {path for group in groups for path in group.paths}
    return [memory for memory in memories if memory.path not in taken]


def _commit(report: ConsolidationReport, scope: OpenScope) -> None:
    """Commit the groups as one. A group whose memories changed meanwhile is dropped."""
    while report.groups:
        counts = Counter(ACTIONS[group.action] for group in report.groups)
        why = "consolidate: " + ", ".join(f"{count} {action}" for action, count in counts.items())
        files = [file for group in report.groups for file in group.files()]
        try:
            report.commit = scope.change_many(files, why, by=BY).id
            return
        except Changed as error:
            late = [group for group in report.groups if error.ref.path in group.paths]
            if not late:
                raise
            report.drop(late, f"{error.ref.path} was changed meanwhile")
        except Refused as error:
            report.drop(report.groups, str(error))


# The plan by rules


def find_groups(memories: Sequence[Memory], today: date, most: int) -> list[PlanGroup]:
    """Return what can be done without a model: retire what expired, merge duplicates, make relative dates absolute.

    A group retires at most `most` memories.
    """
    groups = []
    for memory in memories:
        end = parse_day(memory.expires)
        if end and end < today:
            groups.append(PlanGroup("expired", f"it expired on {end.isoformat()}", None, retired=(memory,)))
    groups += _find_duplicates(_without(memories, groups), today, most)
    groups += _find_relative_dates(_without(memories, groups), today)
    return groups


def _is_fixed(memory: Memory) -> bool:
    """Return True if no consolidation may touch it: pinned, a person's, a fact, or not wholly understood."""
    return memory.pinned or memory.source == "user" or is_fact(memory.path) or bool(memory.warnings)


def _find_relative_dates(memories: Iterable[Memory], today: date) -> Iterator[PlanGroup]:
    """Yield memories whose "tomorrow" gets the day it meant, if all of the text was written on one day."""
    for memory in memories:
        day = parse_day(memory.created)
        is_changed = bool(memory.updated) and memory.updated[:10] != memory.created[:10]
        if day is None or is_changed or _is_fixed(memory):
            continue
        body = absolute(memory.body, day)
        fields = {"updated": today.isoformat(), "source": BY}
        if memory.description:
            fields["description"] = absolute(memory.description, day)
        if body != memory.body or fields.get("description", "") != memory.description:
            with suppress(TextRefused):  # a header that cannot be edited stays as it is
                text = edit_text(memory.text, fields=fields, body=body)
                yield PlanGroup("dates", f"relative dates, as of {day.isoformat()}", memory, text)


def _find_duplicates(memories: Iterable[Memory], today: date, most: int) -> Iterator[PlanGroup]:
    """Yield memories that say the same as another, with the one that stays: the best of them."""

    def may_join(keeper: Memory, other: Memory) -> bool:
        words = fact(keeper)
        others_words = fact(other)
        is_same = alike(words, others_words) >= SAME and has_order(words, others_words)
        if not is_same or _is_fixed(other) or (other.type, other.expires) != (keeper.type, keeper.expires):
            return False
        if other.trust == keeper.trust and not _is_fixed(keeper):
            return True
        # for one that is fixed or more trusted, what adds nothing goes
        return (_is_fixed(keeper) or keeper.trust == "confirmed") and sentences_of(other) <= sentences_of(keeper)

    for keeper, *others in group_duplicates(memories, may_join):
        with suppress(TextRefused):  # a header that cannot be edited stays as it is
            yield _merge(keeper, others[:most], today)


def group_duplicates(
    memories: Iterable[Memory], may_join: Callable[[Memory, Memory], bool] = lambda keeper, other: True
) -> list[list[Memory]]:
    """Return the groups of memories that have nearly the same words, numbers and denials; the keeper comes first."""
    ranked = sorted(
        memories,
        key=lambda memory: (
            memory.pinned,
            memory.source == "user",
            _is_fixed(memory),
            memory.trust == "confirmed",
            len(set(fact(memory))),
            _day(memory),
            memory.path,
        ),
        reverse=True,
    )
    facts = [tuple(fact(memory)) for memory in ranked]
    groups = group_alike(facts, lambda keeper, other: may_join(ranked[keeper], ranked[other]))
    return [[ranked[number] for number in group] for group in groups]


def _merge(keeper: Memory, others: Sequence[Memory], today: date) -> PlanGroup:
    """Return the group that adds to the keeper the lines of the others with a sentence that it has not.

    It has the evidence of all. Those of another trust say nothing more, and are no evidence. Raises TextRefused.
    """
    why = "they say the same"
    if _is_fixed(keeper):
        return PlanGroup("merge", why, keeper, "", tuple(others))
    sources = [memory for memory in (keeper, *others) if memory.trust == keeper.trust]
    end = "\r\n" if "\r\n" in keeper.body else "\n"
    lines = keeper.body.rstrip("\r\n").split(end)
    known = sentences_of(keeper)
    for other in sources[1:]:
        for line in (*other.body.splitlines(), other.description, other.name):
            if not sentences(line) <= known:
                lines.append(line.rstrip())
                known |= sentences(line)
    citations = dict.fromkeys(place for memory in sources for place in memory.citations)
    fields = {
        "created": min((memory.created for memory in sources if memory.created), default=None),
        "updated": today.isoformat(),
        "source": BY,
        "citations": list(citations) or None,
        "supersedes": _superseded(sources, others),
    }
    text = edit_text(keeper.text, fields=fields, body=end.join(lines) + end)
    return PlanGroup("merge", why, keeper, text, tuple(others))


def _superseded(sources: Iterable[Memory], retired: Iterable[Memory]) -> list[str]:
    """Return the paths that a memory supersedes: those of its sources, and those that are retired for it."""
    paths = [path for memory in sources for path in memory.supersedes]
    return list(dict.fromkeys([*paths, *(memory.path for memory in retired)]))


def _day(memory: Memory) -> str:
    return (memory.updated or memory.created)[:10]


# The plan by a model
#
# A model is shown a few memories at a time, whole, as data between marks that no text can know in advance. It names
# files that belong together and writes no text itself. Its answer counts only if it keeps to the schema and to the
# files that were shown. It is asked once more otherwise, and then changes nothing.

MAX_CLUSTERS = 12  # questions to a model in a run
MAX_CLUSTER_MEMORIES = 6
MAX_MEMORY_BYTES = 4_096
MAX_SEARCHES = 2_000  # memories whose neighbours are searched for in a run
MAX_NEIGHBOURS = 10
ANSWER_SECONDS = 60.0
MAX_ANSWER_TOKENS = 500

_ANSWER_SCHEMA = object_schema(
    {
        "action": {"type": "string", "enum": ["merge", "retire", "nothing"]},
        "files": {"type": "array", "items": {"type": "string"}},
        "keep": {"type": "string"},
    }
)


def _find_clusters(memories: Sequence[Memory], scope: OpenScope, first_day: str, most: int) -> Iterator[list[Memory]]:
    """Yield memories to show together, one and those near it: of one kind, one trust, all shown whole.

    At least one of them was changed on the first day or later. They come in no order, so that another run shows
    others. What is unconfirmed has no say about what is confirmed. A memory that is long or holds a secret is not
    shown.
    """
    shown = [memory for memory in memories if len(memory.data) <= MAX_MEMORY_BYTES and not find_secrets(memory.text)]
    free = {memory.path: memory for memory in shown}
    for first in random.sample(shown, min(len(shown), MAX_SEARCHES)):
        if first.path not in free or _day(first) < first_day:
            continue
        cluster = [first]
        for match in scope.matches(f"{first.name} {first.description}", limit=MAX_NEIGHBOURS):
            other = free.get(match.row.path, first)
            is_like = (other.type, other.trust, other.expires) == (first.type, first.trust, first.expires)
            if other is not first and is_like and match.likely >= RELATED:
                cluster.append(other)
        cluster = cluster[: min(most, MAX_CLUSTER_MEMORIES)]
        if len(cluster) > 1 and not all(map(_is_fixed, cluster)):
            for memory in cluster:
                del free[memory.path]
            yield cluster


def _add_proposals(
    report: ConsolidationReport,
    clusters: Iterable[Sequence[Memory]],
    model: Model,
    today: date,
    progress: Progress | None,
) -> None:
    """Add what a model proposes for clusters of memories. One that gives no answer is not asked again in this run."""
    for number, cluster in enumerate(clusters):
        if progress:
            progress(number, MAX_CLUSTERS)
        try:
            report.groups += _ask_model(model, cluster, today)
        except ModelFailed as error:
            report.notes.append(f"the model's answer about {cluster[0].path} changed nothing: {error}")
            if not isinstance(error, BadAnswer):
                return


def _ask_model(model: Model, cluster: Sequence[Memory], today: date) -> list[PlanGroup]:
    """Return what the model proposes for a cluster, one group or none. Raises ModelFailed, BadAnswer."""
    nonce = os.urandom(8).hex()
    parts = []
    for memory in cluster:
        fixed = ' fixed="yes"' if _is_fixed(memory) else ""
        parts.append(
            f'<memory-{nonce} file="{memory.path}" written="{_day(memory) or "unknown"}"{fixed}>\n'
            f"name: {one_line(for_prompt(memory.name), 200)}\n"
            f"description: {one_line(for_prompt(memory.description), 500)}\n\n"
            f"{for_prompt(memory.body.strip())}\n"
            f"</memory-{nonce}>"
        )
    question = Question(read_prompt("consolidate"), "\n".join(parts), _ANSWER_SCHEMA, MAX_ANSWER_TOKENS)
    return ask_twice(model, question, ANSWER_SECONDS, lambda given: _read_answer(given, cluster, today))


def _read_answer(given: object, cluster: Sequence[Memory], today: date) -> list[PlanGroup]:
    """Return the group that an answer describes, if any. Raises ValueError when any part of it is out of bounds."""
    match given:
        case {"action": "nothing"}:
            return []
        case {"action": "merge" | "retire" as action, "files": [*files], "keep": str(keep)}:
            names = [name for name in dict.fromkeys(map(str, files)) if name != keep]
        case _:
            raise ValueError("it was not of the shape that was asked for")
    by_path = {memory.path: memory for memory in cluster}
    if not by_path.keys() >= {keep, *names}:
        raise ValueError("it named a file that was not shown")
    keeper = by_path[keep]
    others = [by_path[name] for name in names]
    if not others or any(map(_is_fixed, others)):
        raise ValueError("it named one file where it takes several, or would retire one that is fixed")
    try:
        if action == "merge":
            return [_merge(keeper, others, today)]
        return [_retire(keeper, others, today)]
    except TextRefused as error:
        raise ValueError(str(error)) from None


def _retire(keeper: Memory, others: Sequence[Memory], today: date) -> PlanGroup:
    """Return the group that retires what a newer memory on the same subject contradicts. Raises ValueError."""
    if any(_day(memory) >= _day(keeper) for memory in others) or _day(keeper) > today.isoformat():
        raise ValueError("the file to keep is not newer than those to retire")
    about = telling(f"{keeper.name}\n{keeper.body}")
    if any(about.isdisjoint(telling(f"{memory.name}\n{memory.body}")) for memory in others):
        raise ValueError("the file to keep is about something else than those to retire")
    text = ""
    if not _is_fixed(keeper):
        text = edit_text(keeper.text, fields={"supersedes": _superseded([keeper], others)})
    return PlanGroup("contradicted", f"{keeper.path} says otherwise, and is newer", keeper, text, tuple(others))


# The check


def _drop_refused(report: ConsolidationReport, scope: OpenScope, most: int) -> None:
    """Drop the groups that may not be stored, lose something, or exceed the cap of a run."""
    changes = 0
    for group in list(report.groups):
        count = len(group.retired) or 1
        if why := _find_refusal(group, scope):
            report.drop([group], why)
        elif changes + count > most:
            report.drop([group], f"a run changes at most {most} memories; the next one goes on")
        else:
            changes += count


def _find_refusal(group: PlanGroup, scope: OpenScope) -> str:
    """Return why the new text may not be stored, or what it would lose; "" when the group may be done."""
    after = group.keeper
    if after and group.text:
        try:
            after = check_text(after.path, group.text, after, free=False)
            scope.check_gates(after, was=group.keeper, by=BY, asked=False)
        except Refused as error:
            return str(error)
    if after is None or group.action != "merge":
        return ""
    lost = set().union(*map(sentences_of, group.retired)) - sentences_of(after)
    return f"it would lose: {' '.join(min(lost))}" if lost else ""


# Questions that must still find their answer
#
# Before a plan is applied, every stored question that finds its answer now is asked again, by words, of the memories
# as they would be: those of the plan, and those that the ordinary search finds for the question. The answer, or what
# takes its place, must be among the first; else the groups that touch one of these memories are dropped.

MAX_ANSWERS = 5  # an answer counts among the first so many
MAX_RIVALS = 50  # memories that take part for each question
MAX_QUESTIONS = 500
_QUESTIONS_NOTE = "expected"


class Expectation(NamedTuple):
    """A question, and the path of the memory that answers it."""

    question: str
    path: str


def expectations(state: State) -> list[Expectation]:
    """Return the stored questions, oldest first."""
    return [Expectation(*pair) for pair in state.load(_QUESTIONS_NOTE) or ()]


def expect(state: State, question: str, path: str) -> None:
    """Store a question with the memory that answers it; the same question again takes the new answer.

    Raises:
        SecretFound: the question holds one.
        StoreFailed, Busy.
    """
    for secret in find_secrets(question):
        raise SecretFound(secret.kind, "the question")
    with state.writing():
        unexpect(state, question)
        _save_questions(state, [*expectations(state), Expectation(" ".join(question.split()), path)])


def unexpect(state: State, question: str) -> bool:
    """Drop a stored question; return False if there is none such."""
    question = " ".join(question.split())
    return drop_questions(state, (), lambda stored: stored != question)


def drop_questions(state: State, paths: Collection[str], keep: Callable[[str], bool]) -> bool:
    """Drop the questions that these memories answer, and those not to be kept; return False if there is none."""
    stored = expectations(state)
    left = [pair for pair in stored if pair.path not in paths and keep(pair.question)]
    if left != stored:
        _save_questions(state, left)
    return left != stored


def _move_questions(state: State, groups: Iterable[PlanGroup]) -> None:
    """Let questions that retired memories answered be answered by what says it now."""
    moved = {memory.path: group.keeper.path for group in groups if group.keeper for memory in group.retired}
    stored = expectations(state)
    if not moved.keys().isdisjoint(pair.path for pair in stored):
        _save_questions(state, [pair._replace(path=moved.get(pair.path, pair.path)) for pair in stored])


def _save_questions(state: State, questions: Sequence[Expectation]) -> None:
    state.save(_QUESTIONS_NOTE, questions[-MAX_QUESTIONS:])


def _drop_regressions(
    report: ConsolidationReport, memories: Mapping[str, Memory], scope: OpenScope, questions: Iterable[Expectation]
) -> None:
    """Drop the groups that would make a stored answer harder to find, with the question that shows it.

    What expires is not asked for any more.
    """
    for question, path in questions:
        matches = scope.matches(question, limit=MAX_RIVALS)
        rivals = {match.row.path: memories[match.row.path] for match in matches if match.row.path in memories}
        if path not in rivals or path not in _rank(question, rivals):
            continue
        concerned = [group for group in report.groups if not rivals.keys().isdisjoint(group.paths)]
        answers = {path}
        planned = dict(rivals)
        for group in concerned:
            for memory in group.retired:
                planned.pop(memory.path, None)
            if group.keeper:
                after = parse(group.keeper.path, group.text.encode()) if group.text else group.keeper
                planned[after.path] = after
            if path in group.paths:
                answers.add(group.keeper.path if group.keeper else "")
        has_expired = "" in answers
        if not has_expired and answers.isdisjoint(_rank(question, planned)):
            report.drop(concerned, f"{question!r} would no longer find {path}")


def _rank(question: str, memories: Mapping[str, Memory]) -> list[str]:
    """Return the paths that a question finds first among these memories, by words."""
    with closing(connect(IN_MEMORY)) as db:
        with writing(db):
            for memory in memories.values():
                put(db, memory, (0, 0, 0, 0), pending=False)
        paths = dict(db.execute("SELECT id, path FROM entry"))
        hits = rank_by_words(db, question, total=len(paths))
        hits.sort(key=lambda hit: (-hit.score, paths[hit.row]))
        return [paths[hit.row] for hit in hits[:MAX_ANSWERS]]


# When it is due
#
# Gates only look: they read a small file, and try for an instant the lock that the worker holds. The worker waits
# longer than that for it, so that a look never keeps it from starting.

LOCK = "dream"
LOOK_SECONDS, WORKER_SECONDS = 0.05, 1.0  # to wait for the lock
LAST_RUN = "dream"


class Gate(NamedTuple):
    """One condition: whether it lets a consolidation through, and why or why not."""

    name: str
    is_open: bool
    why: str


class LastRun(NamedTuple):
    """The record of the last consolidation that finished; `looked` is when one last began.

    `learned` is the number of conversations that had been learned from by then.
    """

    at: float = 0.0
    learned: int = 0
    looked: float = 0.0


def load_last_run(state: State) -> LastRun:
    """Return what is noted of the last consolidation; zeros before the first."""
    noted = state.load(LAST_RUN) or {}
    return LastRun(noted.get("at", 0.0), noted.get("learned", 0), noted.get("looked", 0.0))


def _save_last_run(state: State, last: LastRun) -> None:
    state.save(LAST_RUN, last._asdict())


def gates(
    state: State,
    dream: Dream,
    *,
    files: int,
    learned: int,
    now: float,
    planning: bool = False,
    logging: bool = False,
    team: bool = False,
) -> tuple[Gate, ...]:
    """Return every gate, in the order in which they are asked. Nothing is changed, and no lock stays held.

    There are `files` memories, and `learned` conversations were ever learned from. In plan mode the agent is
    `planning` and may change nothing; a scope that keeps a daily log is `logging`; about a `team` a person decides.
    """
    last = load_last_run(state)
    since = learned - last.learned
    if since < 0:  # they were counted from zero again
        since = learned
    enabled = f"the settings say {'on' if dream.enabled else 'off'}"
    if logging:
        enabled = "the daily log mode is on; `memsheaf consolidate` does it when asked"
    if team:
        enabled = "a team's memories are consolidated by a person, unless its policy is auto: `memsheaf consolidate`"
    is_busy = _is_busy(state)
    return (
        Gate("enabled", dream.enabled and not logging and not team, enabled),
        Gate("files", files >= dream.files, f"{plural(files, 'memory', 'memories')} there, {dream.files:,} needed"),
        Gate("not planning", not planning, "the agent only plans" if planning else "the agent may change things"),
        _age_gate("last time", last.at, dream.hours * 3600, now),
        _age_gate("last look", last.looked, dream.scan_minutes * 60, now),
        Gate(
            "conversations",
            since >= dream.conversations,
            f"{plural(since, 'conversation')} learned from since, {dream.conversations:,} needed",
        ),
        Gate("lock", not is_busy, f"{'another process' if is_busy else 'nobody else'} is consolidating"),
    )


def _is_busy(state: State) -> bool:
    """Return True if a process is consolidating now."""
    if not os.path.isdir(state.folder):
        return False
    try:
        with state.lock(LOCK, wait=LOOK_SECONDS):
            return False
    except StoreFailed:
        return False
    except Busy:
        return True


def _age_gate(name: str, then: float, least: float, now: float) -> Gate:
    """Return a gate that is open some time after `then`; a time in the future, because a clock was wrong, is none."""
    if not 0 < then <= now:
        return Gate(name, True, "never yet")
    return Gate(name, now - then >= least, f"{_duration(now - then)} ago, {_duration(least)} needed")


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:.0f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"
