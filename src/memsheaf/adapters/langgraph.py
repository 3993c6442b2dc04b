"""LangGraph's long-term memory as Markdown files: a `BaseStore` over one sheaf.

    with Sheaf.open("agent/assistant") as sheaf:
        graph = builder.compile(store=MemsheafStore(sheaf))

A value that is a memory becomes one, so that recall and the tools find it. What a memory has no field for stands as
JSON in a fenced block at the end, and so does the whole of any other value. The header has the exact namespace and
key; the path is as readable as it can be.

>>> place(("users", "123"), "prefs")
'langgraph/users/123/prefs.md'
>>> place(("users", "Ann Lee"), "Prefs")
'langgraph/users/ann-lee@5ee5521bcd0c5a85/prefs@4fe5f6d162b2e11c.md'
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from operator import ge, gt, le, lt
from typing import Any, NamedTuple

from memsheaf.adapters import missing
from memsheaf.errors import BadHeader, MemsheafError, NotFound, PathRefused, SecretFound, TextRefused
from memsheaf.frontmatter import edit_text, join
from memsheaf.gates import WrittenFile
from memsheaf.guard.paths import FOLDER_LIMIT, check_path, fold, slug
from memsheaf.guard.secrets import new_secrets
from memsheaf.index.database import Match, Row
from memsheaf.memory import KINDS, MAX_MEMORY_BYTES, Allow, Memory, check, is_conflict_copy, parse
from memsheaf.open_scope import retry
from memsheaf.sheaf import Sheaf
from memsheaf.text.neutralize import one_line

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        validate_op_namespace,
    )
except ImportError as error:
    raise missing("langgraph", error) from None

FOLDER = "langgraph"
MAX_LABEL_FOLDERS = FOLDER_LIMIT - 2  # deeper labels share one folder
MIN_MATCHES = 50  # asked for at first when searching by words
MAX_RANKED_ITEMS = 10_000  # in one namespace
_FENCE = "```json langgraph"
_BLOCK = re.compile(rf"(?:\A|\r?\n\r?\n){_FENCE}[ \t]*\r?\n(.*?)\r?\n```\s*\Z", re.DOTALL)
_PLAIN_LABEL = re.compile(r"[^\W_][\w-]{0,59}")
_MEMORY_FIELDS = ("name", "description", "type", "content")
# Fields of the file that an item replaces: those that we write, and evidence for the old text.
_REPLACED_FIELDS = (
    *("name", "description", "type", "namespace", "key", "created", "updated", "searched"),
    *("ttl_minutes", "expires_at"),  # an earlier version wrote these
    *("citations", "conversation", "expires", "reason", "supersedes"),
)
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}
_log = logging.getLogger(__name__)

Fields = dict[str, str | Sequence[str]]
ScoredItems = list[tuple["StoredItem", float | None]]


class StoredItem(NamedTuple):
    """One item: the value under a key, since when, and until when."""

    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any]
    created: datetime
    updated: datetime
    expires: datetime | None = None
    searched: bool = True


class MemsheafStore(BaseStore):
    """Items below `langgraph/` in a sheaf, one file each. Threads and processes may share them.

    A batch answers from the state before it, then stores everything as one commit, or nothing. A file that is no
    valid item is an error for a caller who asks for that key, and skipped with a warning in a search.
    """

    def __init__(self, sheaf: Sheaf, *, clock: Callable[[], float] = time.time) -> None:
        self._sheaf = sheaf.only(sheaf.home)
        self._clock = clock
        self._lock = threading.Lock()
        self._cache: dict[str, tuple[str, StoredItem | None]] = {}  # version and item by path

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several things at once.

        Raises:
            SecretFound, TextRefused: a value may not be stored, or no person has vouched for the present one; nothing
                of the batch was stored.
            BadHeader: the file of an item was edited into something else; nothing is changed then.
        """
        ops = list(ops)
        for op in ops:
            validate_op_namespace(op)
            if isinstance(op, PutOp) and op.ttl is not None:
                raise NotImplementedError("items have no time to live here; put them without a ttl")
        puts = {(tuple(op.namespace), op.key): op for op in ops if isinstance(op, PutOp)}
        with self._lock:
            if any(isinstance(op, SearchOp | ListNamespacesOp) for op in ops):
                self._sheaf.own.index.look()
            results = [self._answer(op) for op in ops]
            if puts:
                retry(lambda: self._store(puts.values()), busy="the items change faster than they can be stored")
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """As `batch`, in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _answer(self, op: Op) -> Result:
        match op:
            case GetOp():
                _, item = self._find(tuple(op.namespace), op.key)
                return Item(**_to_langgraph(item)) if item and self._is_live(item) else None
            case SearchOp():
                return [SearchItem(**_to_langgraph(item), score=score) for item, score in self._search(op)]
            case ListNamespacesOp():
                return self._list_namespaces(op)
            case PutOp():
                return None
        raise ValueError(f"{type(op).__name__} is not an operation of a store")

    def _find(self, namespace: tuple[str, ...], key: str) -> tuple[Memory | None, StoredItem | None]:
        """Return the file of an item as it is on disk now, and the item in it. Raises BadHeader, TextRefused."""
        try:
            memory = self._sheaf.read(place(namespace, key))
        except NotFound:
            return None, None
        item = read(memory)
        if (item.namespace, item.key) != (namespace, key):
            raise BadHeader(memory.path, "it is about another item")
        return memory, item

    def _search(self, op: SearchOp) -> ScoredItems:
        prefix, last = tuple(op.namespace_prefix), op.offset + op.limit

        def is_wanted(item: StoredItem) -> bool:
            is_below = item.namespace[: len(prefix)] == prefix
            return is_below and self._is_live(item) and passes(item.value, op.filter or {})

        def rank(matches: Iterable[Match]) -> ScoredItems:
            rows = [match for match in matches if match.row.path.startswith(f"{FOLDER}/")]
            items = [(self._load(match.row), match.score) for match in rows]
            return [(item, score) for item, score in items if item and item.searched and is_wanted(item)]

        scope = self._sheaf.own
        if not op.query:
            items = [item for _, item in self._items(prefix) if is_wanted(item)]
            items.sort(key=lambda item: item.updated, reverse=True)
            return [(item, None) for item in items[op.offset : last]]
        ranked = rank(scope.matches(op.query, limit=max(MIN_MATCHES, last), look=False))
        if len(ranked) < last:  # items of other namespaces came first, so rank only those of this one
            paths = [row.path for row, item in self._items(prefix) if item.searched and is_wanted(item)]
            if len(paths) <= MAX_RANKED_ITEMS:
                ranked = rank(scope.matches(op.query, limit=last, among=paths, look=False))
        return ranked[op.offset : last]

    def _list_namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        live = {item.namespace for _, item in self._items(()) if self._is_live(item)}
        matching = {name[: op.max_depth] for name in live if all(_is_like(name, each) for each in conditions)}
        return sorted(matching)[op.offset : op.offset + op.limit]

    def _items(self, namespace: Sequence[str]) -> Iterator[tuple[Row, StoredItem]]:
        """Yield all items in the folder of a namespace, in the order of their paths, expired ones included."""
        folder = "/".join([FOLDER, *(_to_name(label) for label in namespace[:MAX_LABEL_FOLDERS])])
        for row in self._sheaf.own.rows_under(folder):
            if item := self._load(row):
                yield row, item

    def _load(self, row: Row) -> StoredItem | None:
        """Return the item of a file that the index knows, read again only when its version changed."""
        version, item = self._cache.get(row.path, ("", None))
        if version != row.version:
            item = None
            try:
                item = read(self._sheaf.read(row.path))
            except NotFound:  # somebody has just removed it
                pass
            except MemsheafError as error:
                _log.warning("passed over: %s", error)
            self._cache[row.path] = row.version, item
        return item

    def _is_live(self, item: StoredItem) -> bool:
        return item.expires is None or item.expires > self._now()

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)

    def _store(self, puts: Iterable[PutOp]) -> None:
        files = [file for op in puts if (file := self._plan(op))]
        if files:
            self._sheaf.own.change_many(files, "langgraph: put", allow=Allow(anyway=True))
        for file in files:
            self._cache.pop(file.path, None)

    def _plan(self, op: PutOp) -> WrittenFile | None:
        """Return the file that stores or forgets an item; None when there is nothing to forget."""
        namespace = tuple(op.namespace)
        memory, item = self._find(namespace, op.key)
        if op.value is None:
            if memory is None:
                return None
            if memory.has_known_type:
                self._sheaf.own.bury([memory])  # so that it is not learned again
            return WrittenFile(memory.path, None, memory)
        now = self._now()
        created = item.created if item and self._is_live(item) else now
        new = StoredItem(
            namespace, op.key, dict(op.value), created, max(now, created), searched=op.index is not False
        )
        file = write(new, memory, source=self._sheaf.by)
        # JSON spells some texts otherwise, such as those with quotes, and the gates would not know a secret in them.
        before = "\n".join(_texts(item.value if item else {}))
        for secret in new_secrets("\n".join(_texts(new.value)), before):
            raise SecretFound(secret.kind, "the value")
        return WrittenFile(file.path, file, memory)


def _to_langgraph(item: StoredItem) -> dict[str, Any]:
    return {
        "namespace": item.namespace,
        "key": item.key,
        "value": deepcopy(item.value),  # the caller may change it
        "created_at": item.created,
        "updated_at": item.updated,
    }


def _is_like(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    """Return True if a namespace begins or ends as the condition says; `*` matches any one label."""
    path = tuple(condition.path)
    if condition.match_type == "suffix":
        namespace, path = namespace[::-1], path[::-1]
    elif condition.match_type != "prefix":
        raise ValueError(f"a namespace is matched by prefix or suffix, not by {condition.match_type!r}")
    return len(namespace) >= len(path) and all(
        pattern in ("*", label) for pattern, label in zip(path, namespace, strict=False)
    )


# Items as files


def place(namespace: Sequence[str], key: str) -> str:
    """Return the path of an item. No two items share one, and no file system takes two paths for the same."""
    folders = [_to_name(label) for label in namespace[:MAX_LABEL_FOLDERS]]
    if deeper := tuple(namespace[MAX_LABEL_FOLDERS:]):
        folders.append(_to_name(*deeper))
    return "/".join([FOLDER, *folders, f"{_to_name(key)}.md"])


def read(memory: Memory) -> StoredItem:
    """Return the item in a file. A memory whose header has no key has that of its path.

    Raises:
        BadHeader: there is none, or it is not where its header says that it belongs.
        TextRefused: no person has vouched for it yet, and a value cannot say so.
    """
    page, path = memory.page, memory.path
    if memory.state != "ok":
        raise BadHeader(path, memory.problem or "there is none")
    if memory.trust != "confirmed":
        raise TextRefused(f"{path!r} is unconfirmed: a person has to confirm or forget it first")
    if memory.is_item:
        namespace, key = page.items("namespace"), page.get("key")
    else:
        _, *folders, name = path.split("/")
        namespace, key = tuple(folders), name.removesuffix(".md")
    if (home := place(namespace, key)) != path:
        raise BadHeader(path, f"namespace and key in it belong to {home!r}")
    try:
        created = _parse_time(page.get("created")) or datetime(1970, 1, 1, tzinfo=UTC)
        updated = max(created, _parse_time(page.get("updated")) or created)
        expires = _parse_time(page.get("expires_at"))
        if last_day := _parse_time(memory.expires[:10]):
            midnight = last_day + timedelta(days=1)
            expires = min(expires or midnight, midnight)
        value = _read_value(memory)
    except (ValueError, RecursionError, OverflowError) as error:
        raise BadHeader(path, one_line(str(error), 200)) from None
    return StoredItem(namespace, key, value, created, updated, expires, page.get("searched") != "false")


def write(item: StoredItem, before: Memory | None, *, source: str) -> Memory:
    """Return the file for an item; other fields in the header of the file before it stay.

    Raises:
        TextRefused: it is too large, or names something that no file can hold.
        TypeError, ValueError: the value is not JSON.
    """
    known = {name: item.value[name] for name in _MEMORY_FIELDS if name in item.value}
    is_text = all(isinstance(text, str) and text for text in known.values())
    if is_text and {"name", "content"} <= known.keys() and known.get("type") in KINDS:
        content = known.pop("content")
        rest = {name: value for name, value in item.value.items() if name not in _MEMORY_FIELDS}
        body = f"{content}\n\n{_to_block(rest)}" if rest else f"{content}\n"
        with suppress(TextRefused):  # what a memory may not hold, a block can
            memory = _write_file(item, known, body, before, source)
            return check(memory.path, memory.text, required=("name",))
    fields = {"name": one_line(item.key, 200), "description": one_line(" / ".join(item.namespace), 500)}
    fields = {name: text for name, text in fields.items() if text}
    return _write_file(item, fields, _to_block(item.value), before, source)


def _write_file(item: StoredItem, fields: Mapping[str, str], body: str, before: Memory | None, source: str) -> Memory:
    """Return the file with these fields and this text. Raises TextRefused if the item would not come back from it."""
    header: Fields = {**fields, "namespace": item.namespace, "key": item.key}
    for name, when in (("created", item.created), ("updated", item.updated)):
        header[name] = f"{when.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    if not item.searched:
        header["searched"] = "false"
    if before is None:
        text = join(header | {"source": source}, body)
    else:
        text = edit_text(before.text, fields=dict.fromkeys(_REPLACED_FIELDS) | header, body=body)
    try:
        memory = parse(place(item.namespace, item.key), text.encode())
        again = read(memory)
        problem = "it would not be read as it was written"
        if again._replace(value={}) == item._replace(value={}) and _to_json(again.value) == _to_json(item.value):
            return memory
    except UnicodeEncodeError:
        problem = "half of a surrogate pair"
    except BadHeader as error:
        problem = error.why
    raise TextRefused(
        f"the item {one_line(item.key, 60)!r} cannot be stored: {problem}",
        hint=f"A value is JSON of less than {MAX_MEMORY_BYTES // 1024} KiB; its namespace and key have a few KiB.",
    )


def _to_json(value: object) -> str:
    """Return a text by which values can be compared to the last digit: in Python, true equals 1, and 1 equals 1.0."""
    return json.dumps(value, sort_keys=True)


def _to_block(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    if re.search("[\ud800-\udfff]", text):  # half of a surrogate pair: JSON can say it, a file cannot
        text = json.dumps(value, indent=2)
    return f"{_FENCE}\n{text}\n```\n"


def _read_value(memory: Memory) -> dict[str, Any]:
    page, body = memory.page, memory.body
    block = _BLOCK.search(body)
    value = json.loads(block[1]) if block else {}
    if not isinstance(value, dict):
        raise ValueError("the JSON below it is not an object")
    if memory.has_known_type:
        fields = {name: page.get(name) for name in ("name", "description") if page.get(name)}
        content = body[: block.start()] if block else body.removesuffix("\n").removesuffix("\r")
        return {**fields, "type": memory.type, "content": content, **value}
    if block is None:
        raise ValueError(f"it has no type, and no block {_FENCE!r} stands below it")
    return value


def _parse_time(text: str) -> datetime | None:
    """Return a time of a header; a day alone begins at midnight. Raises ValueError."""
    if not text:
        return None
    time = datetime.fromisoformat(text)
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for pair in value.items():
            yield from _texts(pair)
    elif isinstance(value, list | tuple):
        for element in value:
            yield from _texts(element)


def _to_name(*labels: str) -> str:
    """Return the name of the folder or file for a label, or for all labels that lie deeper than folders may."""
    if len(labels) == 1 and _is_plain(labels[0]):
        return labels[0]
    digest = sha256(json.dumps(labels).encode()).hexdigest()[:16]
    readable = slug(" ".join(labels), 40)
    if is_conflict_copy(f"{readable}.md"):
        readable = "item"
    return f"{readable}@{digest}"  # no plain label has an @


def _is_plain(label: str) -> bool:
    """Return True if a label may be a file name, and no other label names the same file on any system."""
    if not _PLAIN_LABEL.fullmatch(label) or len(label.encode()) > 60 or is_conflict_copy(f"{label}.md"):
        return False
    if label != fold(label) or label != unicodedata.normalize("NFKC", label):
        return False
    try:
        return bool(check_path(f"{FOLDER}/{label}.md"))
    except PathRefused:
        return False


# Filters


def passes(value: Mapping[str, Any], filter: Mapping[str, Any]) -> bool:
    """Return True if a value passes a filter: equality, or `$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte`.

    `a.b` is b in a, unless a key is called so.

    >>> passes({"color": "red", "score": 4.5}, {"color": "red", "score": {"$gt": 4}})
    True

    Raises:
        ValueError: the filter has an unknown operator.
    """
    return all(_equals(_look_up(value, key), wanted) for key, wanted in filter.items())


def _look_up(value: Any, key: str) -> Any:
    if not isinstance(value, Mapping):
        return None
    if key in value:
        return value[key]
    first, dot, rest = key.partition(".")
    return _look_up(value.get(first), rest) if dot else None


def _equals(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if any(str(key).startswith("$") for key in wanted):
            return all(_compare(value, operator, other) for operator, other in wanted.items())
        return isinstance(value, Mapping) and all(_equals(value.get(key), part) for key, part in wanted.items())
    if isinstance(wanted, list | tuple):
        return isinstance(value, list) and len(value) == len(wanted) and all(map(_equals, value, wanted))
    return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)  # in JSON, true is not 1


def _compare(value: Any, operator: str, other: Any) -> bool:
    if operator in ("$eq", "$ne"):
        return _equals(value, other) == (operator == "$eq")
    if operator not in _ORDERS:
        raise ValueError(f"a filter has $eq, $ne, {', '.join(_ORDERS)}, and not {operator!r}")
    are_numbers = isinstance(value, int | float) and isinstance(other, int | float)
    are_texts = isinstance(value, str) and isinstance(other, str)
    return (are_numbers or are_texts) and _ORDERS[operator](value, other)
