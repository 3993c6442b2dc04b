"""Events of a task: append-only NDJSON, for whoever looks into it later.

Events are checked when they are written and shown when somebody asks. Nothing is decided by what is in them: how a
task stands is in its Markdown files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

from memsheaf.errors import NotFound, ReadOnly, ScopeRefused, SecretFound, TextRefused, hinted
from memsheaf.guard.secrets import new_secrets, without_secrets
from memsheaf.scope import check_label
from memsheaf.sheaf import Sheaf
from memsheaf.store import Change, Commit, version_of
from memsheaf.timeouts import retry
from memsheaf.values import parse_object

FOLDER = "observability"
LINE_LIMIT = 16 * 1024
FILE_LIMIT = 32 * 1024  # a file is read and written whole
GAP = 100  # so many files may be missing between two; what is further off was not written by us

TYPES = (
    *("delegation", "gate_event", "execution_report", "clarification_request", "plan_audit"),
    *("verdict", "discovery", "research_findings"),
)
SCHEMA_VERSION = "1.1.0"
GATES = ("PLAN_GATE", "PREFLECT_GATE", "PHASE_REVIEW_GATE", "HIGH_RISK_APPROVAL_GATE", "COMPLETION_GATE")
STATES = ("PLANNING", "ACTING", "REVIEWING", "WAITING_APPROVAL", "COMPLETE")
DECISIONS = ("GO", "REPLAN", "ABSTAIN", "BLOCKED")
MOST_ITERATIONS = 5

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")


class EventLine(NamedTuple):
    """One line of a file of events, and what it says; None when that is no JSON object."""

    path: str
    number: int
    text: str
    event: Mapping[str, object] | None


def is_trace_id(text: str) -> bool:
    """Whether it is a UUIDv4, as it tells the events of one task from all others."""
    return bool(_UUID.fullmatch(text))


def read_json(text: str) -> dict[str, object]:
    """Parse an event. Raises TextRefused when it is no JSON object."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise _refused("it is nested too deeply") from None
    except ValueError as error:
        raise _refused(f"it is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise _refused('it is not a JSON object, such as {"event_type": "discovery", "payload": {}}')
    return found


def completed(
    given: Mapping[str, object], *, trace_id: str, ts: str, agent: str, phase: int | None
) -> dict[str, object]:
    """An event with the fields that were left out, checked. `trace_id` is the task's.

    Raises TextRefused when a field is not what it has to be; the message names it and what is allowed.
    """
    event = {"trace_id": trace_id, "ts": ts, "agent": agent, "phase": phase, **given}
    own = {"trace_id": (f"the task's: {trace_id}", lambda found: found == trace_id)}
    _check_fields("", event, _EVENT_FIELDS | own)
    payload = event["payload"]
    if event["event_type"] == "gate_event" and isinstance(payload, Mapping):
        _check_fields("payload.", payload, _GATE_FIELDS | own | _GATE_EXTRAS, optional=_GATE_EXTRAS)
    return {name: event[name] for name in _EVENT_FIELDS}


def append(sheaf: Sheaf, event: Mapping[str, object]) -> Commit:
    """Add an event, as `completed` gave it, to those of a task.

    Raises:
        TextRefused: it is too long, or cannot be written.
        SecretFound: there is a secret in it.
        Busy: others are always faster.
    """
    if sheaf.read_only:
        raise ReadOnly(f"the scope {sheaf.scope} was opened for reading only")
    line = _encoded(event)

    def add() -> Commit:
        number, path = (_files(sheaf) or [(1, _path(sheaf, 1))])[-1]
        present = _read(sheaf, path)
        # somebody's editor may have left the last line open: ours is not joined with it
        data = (present or b"") + (b"\n" if present and present[-1:] != b"\n" else b"") + line
        if present and len(data) > FILE_LIMIT:
            path, present, data = _path(sheaf, number + 1), None, line
        change = Change(path, data, version_of(present))
        return sheaf.writer.put_events(change, f"event {event['event_type']}")

    return retry(add, busy=f"the events of {sheaf.scope} change faster than they can be read")


def lines(sheaf: Sheaf) -> Iterator[EventLine]:
    """Every event of a task, the newest first, and every line that is none."""
    for _, path in reversed(_files(sheaf)):
        text = (_read(sheaf, path) or b"").decode("utf-8", "replace")
        for number, line in reversed(list(enumerate(text.split("\n"), 1))):
            if line.strip():
                yield EventLine(path, number, line, parse_object(line))


# which fields there are: what each has to be, in words, and whether a value is that

Rule = tuple[str, Callable[[object], bool]]


def _is_whole(found: object, least: int, most: float = float("inf")) -> bool:
    return isinstance(found, int) and not isinstance(found, bool) and least <= found <= most  # True is not 1


def _is_agent(found: object) -> bool:
    with suppress(ScopeRefused):
        return isinstance(found, str) and bool(check_label(found, "agent"))
    return False


def _is_time(found: object) -> bool:
    with suppress(ValueError):
        return isinstance(found, str) and bool(_TIME.fullmatch(found) and datetime.fromisoformat(found))
    return False


def _one_of(*values: str) -> Rule:
    wanted = f"one of {', '.join(values)}" if len(values) > 1 else f'"{values[0]}"'
    return wanted, lambda found: isinstance(found, str) and found in values


def _from(least: int, *, or_null: bool = False) -> Rule:
    wanted = f"a whole number, {least} or more{', or null' if or_null else ''}"
    return wanted, lambda found: (or_null and found is None) or _is_whole(found, least)


_AGENT: Rule = ("the name of an agent: 1 to 64 letters, digits and hyphens", _is_agent)
_BOOLEAN: Rule = ("true or false", lambda found: isinstance(found, bool))
_OBJECT: Rule = ("a JSON object", lambda found: isinstance(found, dict))
_TEXT: Rule = ("a text that says something", lambda found: isinstance(found, str) and bool(found.strip()))
_TRACE: Rule = ("the task's", lambda found: False)  # each task has its own

_EVENT_FIELDS: dict[str, Rule] = {
    "trace_id": _TRACE,
    "ts": ("a time in UTC with milliseconds, such as 2026-11-15T09:30:00.000Z", _is_time),
    "agent": _AGENT,
    "phase": _from(0, or_null=True),
    "event_type": _one_of(*TYPES),
    "payload": _OBJECT,
}
_GATE_FIELDS: dict[str, Rule] = {
    "schema_version": _one_of(SCHEMA_VERSION),
    "agent": _AGENT,
    "event_type": _one_of(*GATES),
    "workflow_state": _one_of(*STATES),
    "phase_id": _from(1, or_null=True),
    "decision": _one_of(*DECISIONS),
    "confidence": (
        "a number from 0 to 1",
        lambda found: isinstance(found, int | float) and not isinstance(found, bool) and 0 <= found <= 1,
    ),
    "requires_human_approval": _BOOLEAN,
    "reason": _TEXT,
    "next_action": _TEXT,
    "trace_id": _TRACE,
    "iteration_index": _from(0),
    "max_iterations": (
        f"a whole number from 1 to {MOST_ITERATIONS}",
        lambda found: _is_whole(found, 1, MOST_ITERATIONS),
    ),
}
_GATE_EXTRAS: dict[str, Rule] = {"safety_checks": _OBJECT, "verifier_statuses": _OBJECT, "diagnosis_packet": _OBJECT}


def _check_fields(
    where: str, found: Mapping[str, object], allowed: Mapping[str, Rule], *, optional: Container[str] = ()
) -> None:
    for name in found:
        if name not in allowed:
            shown = without_secrets(str(name))[:80]
            raise _refused(f"{where}{shown} is no field of it; there are {', '.join(allowed)}")
    for name, (wanted, holds) in allowed.items():
        if name in found and not holds(found[name]):
            raise _refused(f"{where}{name} has to be {wanted}")
        if name not in found and name not in optional:
            raise _refused(f"{where}{name} is missing: it is {wanted}")


def _encoded(event: Mapping[str, object]) -> bytes:
    try:
        text = json.dumps(event, ensure_ascii=False, allow_nan=False)
        data = text.encode()
        if not text.isprintable():  # what some programs take for the end of a line is spelt out
            data = json.dumps(event, allow_nan=False).encode()
    except RecursionError:
        raise _refused("it is nested too deeply") from None
    except UnicodeEncodeError:
        raise _refused("it holds an unpaired surrogate") from None
    except (TypeError, ValueError):
        raise _refused("a value in it cannot be JSON: a number that is not finite, or a Python object") from None
    if len(data) + 1 > LINE_LIMIT:
        raise _refused(f"it is {len(data) + 1} bytes long; {LINE_LIMIT} is the most, so put the rest in a file")
    for secret in new_secrets("\n".join([text, *_texts_in(event)]), ""):
        raise SecretFound(secret.kind, "the event")
    return data + b"\n"


def _texts_in(event: Mapping[str, object]) -> Iterator[str]:
    """All texts of an event as plain text: after their names, without JSON escapes."""
    waiting: list[tuple[str, object]] = [("", event)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += [(f"{name} {key}".strip(), one) for key, one in value.items()]
        elif isinstance(value, list | tuple):
            waiting += [(name, one) for one in value]
        else:
            yield f"{name}: {value}"


def _path(sheaf: Sheaf, number: int) -> str:
    more = f"-{number}" if number > 1 else ""
    return f"{FOLDER}/{sheaf.scope.name}{more}.ndjson"


def _files(sheaf: Sheaf) -> list[tuple[int, str]]:
    """The files of events that there are, the newest last."""
    name = re.compile(rf"{FOLDER}/{re.escape(sheaf.scope.name)}(?:-([2-9]|[1-9][0-9]{{1,8}}))?\.ndjson")
    numbers = sorted({int(one[1] or 1) for one in map(name.fullmatch, sheaf.reader.events()) if one})
    last = 0
    return [(last := number, _path(sheaf, number)) for number in numbers if number - last <= GAP]


def _read(sheaf: Sheaf, path: str) -> bytes | None:
    try:
        return sheaf.reader.read_bytes(path)
    except NotFound:
        return None


def _refused(why: str) -> TextRefused:
    return hinted(TextRefused(f"the event cannot be stored: {why}"), "`memsheaf help task event` has an example.")
