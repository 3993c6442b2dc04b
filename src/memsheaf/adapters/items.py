"""Key-value items as Markdown files: path, text and back; and the filters of a search over their values.

A value that is a memory becomes one, so that everything else here finds and recalls it. What a memory has no field
for stands as JSON in a fenced block at the end, and so does the whole of any other value. The header says namespace
and key exactly; the path is as readable as it can be.

>>> place(("users", "123"), "prefs")
'langgraph/users/123/prefs.md'
>>> place(("users", "Ann Lee"), "Prefs")
'langgraph/users/ann-lee@5ee5521bcd0c5a85/prefs@4fe5f6d162b2e11c.md'
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from operator import ge, gt, le, lt
from typing import Any, NamedTuple

from memsheaf.errors import BadHeader, PathRefused, SecretFound, TextRefused
from memsheaf.frontmatter import edited, join
from memsheaf.guard.paths import FOLDER_LIMIT, check_path, fold, slug
from memsheaf.guard.secrets import new_secrets
from memsheaf.memory import KINDS, LIMIT, Memory, check, is_conflict_copy, parse
from memsheaf.text.neutralize import one_line

FOLDER = "langgraph"
NARROW = FOLDER_LIMIT - 2  # so many labels have a folder each, however many follow
_FENCE = "```json langgraph"
_BLOCK = re.compile(rf"(?:\A|\r?\n\r?\n){_FENCE}[ \t]*\r?\n(.*?)\r?\n```\s*\Z", re.DOTALL)
_PLAIN = re.compile(r"[^\W_][\w-]{0,59}")
_OF_A_MEMORY = ("name", "description", "type", "content")
_OWN = (
    "name", "description", "type", "namespace", "key", "created", "updated", "ttl_minutes", "expires_at",
    "searched",
)  # fmt: skip
_OF_THE_OLD = ("citations", "conversation", "expires", "reason", "supersedes")  # evidence for what is replaced
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_ORDERED: dict[str, Callable[[Any, Any], bool]] = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}

Fields = dict[str, str | Sequence[str]]


class StoredItem(NamedTuple):
    """One item: what is kept under a key, since when, and until when. `ttl` is in minutes."""

    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any]
    created: datetime
    updated: datetime
    ttl: float | None = None
    expires: datetime | None = None
    searched: bool = True


def place(namespace: Sequence[str], key: str) -> str:
    """The path of an item. No two share one, and no file system takes the paths of two for the same."""
    folders = [_part(label) for label in namespace[:NARROW]]
    if deeper := tuple(namespace[NARROW:]):
        folders.append(_part(*deeper))
    return "/".join([FOLDER, *folders, f"{_part(key)}.md"])


def folder_of(namespace: Sequence[str]) -> str:
    """The nearest folder that holds all items of a namespace and below it."""
    return "/".join([FOLDER, *(_part(label) for label in namespace[:NARROW])])


def read(memory: Memory) -> StoredItem:
    """The item that a file holds. A memory that says no key has that of its path.

    Raises:
        BadHeader: it holds none, or is not where its header says that it belongs.
        TextRefused: no person has vouched for it yet, and a value cannot say so.
    """
    page, path = memory.page, memory.path
    if memory.state != "ok":
        raise BadHeader(path, memory.problem or "there is none")
    if memory.trust != "confirmed":
        raise TextRefused(f"{path!r} is unconfirmed: a person has to confirm or forget it first")
    if any(field.key == "key" for field in page.fields):
        namespace, key = page.items("namespace"), page.get("key")
    else:
        _, *folders, name = path.split("/")
        namespace, key = tuple(folders), name.removesuffix(".md")
    if (home := place(namespace, key)) != path:
        raise BadHeader(path, f"namespace and key in it belong to {home!r}")
    try:
        value = _value(memory)
        created = _time(page.get("created")) or _LONG_AGO
        updated = max(created, _time(page.get("updated")) or created)
        ttl = float(text) if (text := page.get("ttl_minutes")) else None
        ends = (_time(page.get("expires_at")), _end_of(memory.expires))
        expires = min(filter(None, ends), default=None)
    except (ValueError, RecursionError, OverflowError) as error:
        raise BadHeader(path, one_line(str(error), 200)) from None
    return StoredItem(namespace, key, value, created, updated, ttl, expires, page.get("searched") != "false")


def write(item: StoredItem, was: Memory | None, *, source: str) -> Memory:
    """The file for an item; what else stands in the header of the file that it replaces, stays.

    Raises:
        TextRefused: it is too large, or names something that no file can hold.
        TypeError, ValueError: the value is not JSON.
    """
    if form := _as_memory(item):
        with suppress(TextRefused):  # what a memory may not hold, a block can
            memory = _written(item, *form, was, source)
            return check(memory.path, memory.text, required=("name",))
    told = {"name": one_line(item.key, 200), "description": one_line(" / ".join(item.namespace), 500)}
    return _written(item, {key: text for key, text in told.items() if text}, _block(item.value), was, source)


def until(memory: Memory, expires: datetime) -> Memory:
    """The same file with another time at which it expires."""
    return parse(memory.path, edited(memory.text, fields={"expires_at": _said(expires)}).encode())


def refuse_hidden(value: object, was: object) -> None:
    """Raise SecretFound for a new secret in a text that JSON spells otherwise, such as one with quotes in it."""
    for secret in new_secrets("\n".join(_texts(value)), "\n".join(_texts(was))):
        raise SecretFound(secret.kind, "the value")


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for pair in value.items():
            yield from _texts(pair)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)


@lru_cache(maxsize=1 << 12)
def _part(*labels: str) -> str:
    """A part of a path for a label, or for all those that lie deeper than folders may."""
    if len(labels) == 1 and _is_plain(labels[0]):
        return labels[0]
    digest = sha256(json.dumps(labels).encode()).hexdigest()[:16]
    readable = slug(" ".join(labels), 40)
    return f"item@{digest}" if is_conflict_copy(f"{readable}.md") else f"{readable}@{digest}"  # no plain one has an @


def _is_plain(label: str) -> bool:
    """Whether a label may be the name of a file, and no other label that of the same file anywhere."""
    if not _PLAIN.fullmatch(label) or len(label.encode()) > 60 or is_conflict_copy(f"{label}.md"):
        return False
    if label != fold(label) or label != unicodedata.normalize("NFKC", label):
        return False
    try:
        return bool(check_path(f"{FOLDER}/{label}.md"))
    except PathRefused:
        return False


def _written(item: StoredItem, fields: Fields, body: str, was: Memory | None, source: str) -> Memory:
    """The file with these fields and this text. Raises TextRefused when the item would not come back from it."""
    fields = fields | _facts(item)
    if was is None:
        text = join(fields | {"source": source}, body)
    else:
        text = edited(was.text, fields=dict.fromkeys((*_OWN, *_OF_THE_OLD)) | fields, body=body)
    try:
        memory = parse(place(item.namespace, item.key), text.encode())
        why = "" if _same(read(memory), item) else "it would not be read as it was written"
    except UnicodeEncodeError:
        why = "half of a surrogate pair"
    except BadHeader as error:
        why = error.why
    if why:
        refused = TextRefused(f"the item {one_line(item.key, 60)!r} cannot be stored: {why}")
        refused.hint = f"A value is JSON of less than {LIMIT // 1024} KiB; namespace and key together have a few KiB."
        raise refused
    return memory


def _as_memory(item: StoredItem) -> tuple[Fields, str] | None:
    """Header and text of a value that has name, type and content of a memory; None when it has not."""
    named = {key: item.value[key] for key in _OF_A_MEMORY if key in item.value}
    if not all(isinstance(text, str) and text for text in named.values()):
        return None
    if named.get("type") not in KINDS or not {"name", "content"} <= named.keys():
        return None
    content: str = named.pop("content")
    rest = {key: one for key, one in item.value.items() if key not in _OF_A_MEMORY}
    return named, f"{content}\n\n{_block(rest)}" if rest else f"{content}\n"


def _facts(item: StoredItem) -> Fields:
    facts: Fields = {"namespace": item.namespace, "key": item.key}
    facts |= {"created": _said(item.created), "updated": _said(item.updated)}
    if item.ttl is not None and item.expires is not None:
        facts |= {"ttl_minutes": repr(item.ttl), "expires_at": _said(item.expires)}
    return facts if item.searched else facts | {"searched": "false"}


def _block(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    if re.search("[\ud800-\udfff]", text):  # half of a surrogate pair: JSON can say it, a file cannot
        text = json.dumps(value, indent=2)
    return f"{_FENCE}\n{text}\n```\n"


def _value(memory: Memory) -> dict[str, Any]:
    page, body = memory.page, memory.body
    block = _BLOCK.search(body)
    value = json.loads(block[1]) if block else {}
    if not isinstance(value, dict):
        raise ValueError("the JSON below it is not an object")
    if memory.kind in KINDS:
        fields = {key: page.get(key) for key in ("name", "description") if page.get(key)}
        content = body[: block.start()] if block else body.removesuffix("\n").removesuffix("\r")
        return {**fields, "type": memory.kind, "content": content, **value}
    if block is None:
        raise ValueError(f"it has no type, and no block {_FENCE!r} stands below it")
    return value


def _same(found: StoredItem, wanted: StoredItem) -> bool:
    """Whether an item came back as it was, to the last digit and letter."""
    if found._replace(value={}) != wanted._replace(value={}):
        return False
    return json.dumps(found.value, sort_keys=True) == json.dumps(wanted.value, sort_keys=True)


def _said(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def _end_of(day: str) -> datetime | None:
    """When the last day on which a memory holds is over; a person may have given it one."""
    return at + timedelta(days=1) if (at := _time(day[:10])) else None


def _time(text: str) -> datetime | None:
    """A time as the header says it; a day alone begins at midnight. Raises ValueError."""
    if not text:
        return None
    at = datetime.fromisoformat(text)
    return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)


def passes(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a value passes a filter: equality, or `$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte`.

    `a.b` is b in a, unless a key is called so.

    >>> passes({"color": "red", "score": 4.5}, {"color": "red", "score": {"$gt": 4}})
    True

    Raises:
        ValueError: the filter has an operator that nobody knows.
    """
    return all(_is_as(_at(value, key), asked) for key, asked in wanted.items())


def _at(value: Any, key: str) -> Any:
    """What stands at `a.b`, None when nothing does."""
    if not isinstance(value, Mapping):
        return None
    if key in value:
        return value[key]
    first, dot, rest = key.partition(".")
    return _at(value.get(first), rest) if dot else None


def _is_as(found: Any, asked: Any) -> bool:
    if isinstance(asked, Mapping):
        if any(str(key).startswith("$") for key in asked):
            return all(_holds(found, operator, other) for operator, other in asked.items())
        return isinstance(found, Mapping) and all(_is_as(found.get(key), one) for key, one in asked.items())
    if isinstance(asked, list | tuple):
        return isinstance(found, list) and len(found) == len(asked) and all(map(_is_as, found, asked))
    return bool(found == asked) and isinstance(found, bool) == isinstance(asked, bool)  # in JSON, true is not 1


def _holds(found: Any, operator: str, other: Any) -> bool:
    if operator in ("$eq", "$ne"):
        return _is_as(found, other) == (operator == "$eq")
    if operator not in _ORDERED:
        raise ValueError(f"a filter has $eq, $ne, {', '.join(_ORDERED)}, and not {operator!r}")
    numbers = isinstance(found, int | float) and isinstance(other, int | float)
    texts = isinstance(found, str) and isinstance(other, str)
    return (numbers or texts) and _ORDERED[operator](found, other)  # others have no order
