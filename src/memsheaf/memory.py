"""One memory: its file parsed into a value, and the checks of what may be stored.

Reading is forgiving and never raises: a file written by another program is listed whatever is in it, and
`state` says how far it is understood. Writing is strict: `check` refuses what a careful person would not
want to find in the folder later.
"""

import re
import time
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import Literal, NamedTuple

from memsheaf.errors import Ref, TextRefused
from memsheaf.frontmatter import BOM, ParsedText, has_conflict_marks, join, split, with_quotes

Kind = Literal["user", "feedback", "project", "reference"]
State = Literal["ok", "free", "bad", "held", "copy"]
Trust = Literal["confirmed", "unconfirmed", "shared"]

KINDS: tuple[Kind, ...] = ("user", "feedback", "project", "reference")
MAX_MEMORY_BYTES = 256 * 1024
NAME_LIMIT = 200
DESCRIPTION_LIMIT = 500
VALUE_LIMIT = 2048
LINE_LIMIT = 16 * 1024

_TEXT_KEYS = frozenset(
    (
        *("name", "description", "type", "created", "updated", "source", "trust"),
        *("conversation", "reason", "expires", "pinned", "changed_by"),
    )
)
_LIST_KEYS = frozenset({"citations", "supersedes"})
_DATE_KEYS = ("created", "updated", "expires")
_FIELD_LIMITS = {"name": NAME_LIMIT, "description": DESCRIPTION_LIMIT}

_CONTROLS = bytes({*range(32), 127} - {9, 10, 13})
_ISO_DATE = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)
_CONFLICT_COPY = (
    r"(?i)\.sync-conflict-[0-9]{8}-[0-9]{6}"
    r"|\([^()]*conflicted copy[^()]*\)"
    r"|\(sfconflict [^()]*\)"
    r"|[_.-]conflict-[0-9]{8}-[0-9]{6}"
    r"|[._]conflict\.md$"
)
OUTDATED = "may be outdated"  # a memory that a newer one supersedes
_TOO_LARGE = f"larger than {MAX_MEMORY_BYTES // 1024} KiB"
_BLANK_PAGE = ParsedText("", "")

# Characters that a reader cannot see, as the inside of a character class. All others who look for them use these.
# (Patterns that are needed rarely stay text until they are: compiling them takes milliseconds.)
MISLEADING = r"\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f"
"""Controls that turn the direction of text, and tags: they are in a text only to mislead."""

DRAWS_NOTHING = r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
"""A pattern for those that Python calls printable."""

HIDDEN = (
    rf"{MISLEADING}\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2060-\u206f\u3164\ufeff\uffa0"
    r"\ufff0-\ufffb\ud800-\udfff\U0001d173-\U0001d17a\U000e0080-\U000e00ff\U000e01f0-\U000e0fff"
)
"""All characters without a shape, and lone surrogates, but those that are spelling: joiners and selectors."""

INVISIBLE = rf"{HIDDEN}\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef"
"""All characters without a shape."""

# What may not stand in a line of a header. The joiners are spelling in some scripts and glue in emoji, so they are
# refused only among ASCII, where they do nothing but hide, and selectors only where two follow each other.
_UNSEEN = (
    rf"[\x00-\x1f\x7f-\x9f\u2028\u2029{HIDDEN}]|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{{2}}"
    r"|(?<![^\x00-\x7f])[\u200c\u200d]+(?![^\x00-\x7f])"
)
BREAKS = r"[\x7f-\x9f\u2028\u2029]"


class Allow(NamedTuple):
    """Checks that a change may skip on request: `secrets`, and with `anyway` the gates for duplicates and worth."""

    secrets: bool = False
    anyway: bool = False


STRICT = Allow()


class Memory(NamedTuple):
    """One file: its exact bytes, and what we understand of them.

    `state` is `ok`; `free` for a file without a header; `bad` for a header that is not understood, or bytes
    that are not UTF-8: readable, never rewritten by a machine; `held` for a file too large or too broken to
    load; `copy` for the second version a sync program leaves beside the first. `shared` is one that came with a
    repository: this machine has no record of having written it.
    """

    path: str
    data: bytes
    page: ParsedText
    state: State = "ok"
    problem: str = ""
    warnings: tuple[str, ...] = ()
    shared: bool = False
    scope: str = ""

    @property
    def ref(self) -> Ref:
        """The identity of the memory. What was just composed has no scope, and no path, yet."""
        return Ref(self.scope, self.path)

    @property
    def text(self) -> str:
        """The whole file as text; bytes that are not UTF-8 show as replacement characters."""
        return self.data.decode("utf-8", "replace")

    @property
    def version(self) -> str:
        """The hash that identifies these very bytes."""
        return sha256(self.data).hexdigest()

    @property
    def body(self) -> str:
        """The text below the header."""
        return self.page.body

    @property
    def name(self) -> str:
        """The title in the header; else the file name without its type prefix."""
        return _one_line(self.page.get("name")) or _name_from(self.path)

    @property
    def description(self) -> str:
        """The description in the header, on one line; else the first line that says something."""
        given = _one_line(self.page.get("description"))
        return given or (first_line(self.body) if self.state in ("ok", "free", "copy") else "")

    @property
    def type(self) -> str:
        """The type, as it stands there, known to us or not; "" when there is none."""
        return self.page.get("type") or self.page.get_nested("metadata", "type")

    @property
    def has_known_type(self) -> bool:
        """True if the type is one of the four."""
        return self.type in KINDS

    @property
    def created(self) -> str:
        """The day or time at which the fact was first written down."""
        return self.page.get("created")

    @property
    def updated(self) -> str:
        """The day or time of the last change."""
        return self.page.get("updated")

    @property
    def expires(self) -> str:
        """The day or time from which it is no longer true; "" if it does not expire."""
        return self.page.get("expires")

    def describe_end(self, today: str) -> str:
        """Return the warning that it is no longer true, "" while it may be."""
        last_day = self.expires[:10]
        return f"expired on {last_day}" if last_day and last_day < today else ""

    @property
    def source(self) -> str:
        """The channel that it came through."""
        return self.page.get("source")

    @property
    def changed_by(self) -> str:
        """The author of the last change, if that is not its source."""
        return _one_line(self.page.get("changed_by"))

    @property
    def summary(self) -> str:
        """The line of the catalog about it: the problem, else the description.

        In front of it stand who else changed it last, and the day until which it holds. That is no word about today:
        a catalog is the same text as long as no memory changed.
        """
        mark = f"(changed by {self.changed_by[:40]}) " if self.changed_by not in ("", "user") else ""
        if self.expires:
            mark += f"(until {self.expires[:10]}) "
        return self.problem or mark + self.description

    @property
    def conversation(self) -> str:
        """The conversation in which it was learned."""
        return self.page.get("conversation")

    @property
    def reason(self) -> str:
        """The reason why it was worth keeping."""
        return self.page.get("reason")

    @property
    def citations(self) -> tuple[str, ...]:
        """The places that show it to be true."""
        return self.page.items("citations")

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that it is about, as patterns of `.gitignore`: it comes when an agent touches one."""
        return self.page.items("paths")

    @property
    def supersedes(self) -> tuple[str, ...]:
        """The memories it replaces."""
        return self.page.items("supersedes")

    @property
    def pinned(self) -> bool:
        """True if it must stay in the catalog."""
        return self.page.get("pinned").lower() in ("true", "yes")

    @property
    def trust(self) -> Trust:
        """`unconfirmed` if the header says so, or a word we do not know; else whether it is `shared` decides."""
        if self.page.get("trust") not in ("", "confirmed"):
            return "unconfirmed"
        return "shared" if self.shared else "confirmed"

    @property
    def is_item(self) -> bool:
        """True if a program keeps it under a key of its own, and counts on finding it there as it left it."""
        return any(field.key == "key" for field in self.page.fields)


def parse(path: str, data: bytes) -> Memory:
    """Return the memory in a file, well-formed or not. Never raises.

    >>> parse("user_tabs.md", b"---\\nname: Tabs\\ntype: user\\n---\\nUse tabs.\\n").description
    'Use tabs.'
    """
    if len(data) > MAX_MEMORY_BYTES:
        return Memory(path, data, _BLANK_PAGE, "held", _TOO_LARGE)
    if 0 in data and data.count(0) * 2 > len(data):
        return Memory(path, data, _BLANK_PAGE, "held", "mostly zero bytes, as a power cut leaves them")
    if data in (b"", BOM.encode()):
        return Memory(path, data, _BLANK_PAGE, "bad", "the file is empty")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        page = ParsedText("", data.decode("utf-8", "replace"))
        return Memory(path, data, page, "bad", f"not UTF-8 at byte {error.start}")
    page = split(text)
    problem = page.problem or _wrong_shape(page)
    if is_conflict_copy(path):
        why = "a conflict copy that a sync program made; keep one of the two"
        return Memory(path, data, page, "copy", why, page.warnings)
    if problem:
        return Memory(path, data, page, "bad", problem, page.warnings)
    if not page.head:
        return Memory(path, data, page, "free", "", page.warnings)
    memory = Memory(path, data, page, "ok", "", page.warnings)
    if memory.has_known_type:
        return memory
    problem = f"type {memory.type!r} is not one of {', '.join(KINDS)}" if memory.type else "there is no type"
    return memory._replace(warnings=(*memory.warnings, f"{problem}; listed under Other"))


def compose(
    *,
    name: str,
    description: str,
    kind: str,
    body: str,
    created: str,
    updated: str,
    source: str = "",
    trust: str = "",
    conversation: str = "",
    citations: Sequence[str] = (),
    pinned: bool = False,
    expires: str = "",
    supersedes: Sequence[str] = (),
    reason: str = "",
) -> Memory:
    """Return a new memory, sound enough to be stored; its path is chosen afterwards.

    Raises:
        TextRefused: something in it may not be stored; the message says what to change.
    """
    fields: dict[str, str | Sequence[str]] = {
        "name": name,
        "description": description,
        "type": kind,
        "created": created,
        "updated": updated,
        "source": source,
        "trust": trust,
        "conversation": conversation,
        "citations": citations,
        "pinned": "true" if pinned else "",
        "expires": expires,
        "supersedes": supersedes,
        "reason": reason,
    }
    refuse_large(body)
    cleaned: dict[str, str | Sequence[str]] = {}
    for key, value in fields.items():
        if isinstance(value, str):
            cleaned[key] = clean_field(key, value)
        else:
            cleaned[key] = [clean_field(key, item) for item in value]
    cleaned = {key: value for key, value in cleaned.items() if value}
    text = join(cleaned, body if body.endswith("\n") else body + "\n")
    data = _encode("", text)
    refuse_large(data)
    memory = Memory("", data, split(text))
    _check_storable(memory, KINDS, ("name", "description"))
    return memory


def check(
    path: str,
    text: str,
    *,
    kinds: Sequence[str] = KINDS,
    required: Sequence[str] = ("name", "description"),
    parsed: Memory | None = None,
) -> Memory:
    """Return the memory that a text is, provided it may be stored at `path`.

    `kinds` are the types allowed; an edit passes the type the file has already, and as `required` what it has.

    Raises:
        TextRefused: it may not be stored; the message says what to change.
    """
    refuse_large(text, path)
    memory = parsed or parse(path, _encode(path, text))
    if (quoted := with_quotes(text, memory.page)) != text:
        memory = parse(path, _encode(path, quoted))
    if memory.state == "free":
        raise _refusal(path, "there is no header; begin with name, description and type between '---' lines")
    if memory.state != "ok":
        raise _refusal(path, memory.problem)
    _check_storable(memory, kinds, required)
    return memory


def refuse_large(text: str | bytes, path: str = "") -> None:
    """Raise TextRefused for what is too large to be stored: asked first, before any other work is done with it."""
    if len(text) > MAX_MEMORY_BYTES:
        raise _refusal(path, _TOO_LARGE)


def clean_field(label: str, value: str) -> str:
    """Return a value as one line for the header, without blanks around it.

    >>> clean_field("name", "  Prefers tabs ")
    'Prefers tabs'

    Raises:
        TextRefused: it holds what a reader cannot see, or is too long for its field.
    """
    value = value.strip(" \t\r\n")
    limit = _FIELD_LIMITS.get(label, VALUE_LIMIT)
    if len(value) * 4 > limit and (size := len(value.encode("utf-8", "surrogatepass"))) > limit:
        raise TextRefused(f"{label} is {size} bytes long; {limit} is the most, so shorten it")
    if invisible := describe_invisible(value):
        raise _refusal("", f"{label} holds {invisible}; write one visible line")
    return value


def is_conflict_copy(path: str) -> bool:
    """Return True for a file name that sync programs give to the second of two versions.

    >>> is_conflict_copy("prefs.sync-conflict-20260305-101010-ABCDEFG.md"), is_conflict_copy("conflict.md")
    (True, False)
    """
    name = path[path.rfind("/") + 1 :]
    return "onflict" in name.lower() and bool(re.search(_CONFLICT_COPY, name))


def _encode(path: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise _refusal(path, f"half of a surrogate pair at character {error.start}; remove it") from None


def _check_storable(memory: Memory, kinds: Sequence[str], required: Sequence[str]) -> None:
    if len(memory.data.translate(None, _CONTROLS)) != len(memory.data):
        raise _refusal(memory.path, "it holds control characters; keep only text, line breaks and tabs")
    _check_header(memory, kinds, required)
    _check_body(memory)


def _refusal(path: str, reason: str) -> TextRefused:
    return TextRefused(f"{path!r} cannot be stored: {reason}" if path else f"this cannot be stored: {reason}")


def _echo(value: str) -> str:
    """Return a value for an error message, unless it could be a secret."""
    return repr(value) if re.fullmatch(r"[A-Za-z ]{0,20}|[0-9 :TZ.+-]{1,30}", value) else "something else"


def _one_line(value: str) -> str:
    return value if value.isprintable() else " ".join(value.split())


def _name_from(path: str) -> str:
    stem = path[path.rfind("/") + 1 :].removesuffix(".md")
    prefix, _, rest = stem.partition("_")
    name = rest if rest and prefix in KINDS else stem
    return name if name.isprintable() else name.encode("utf-8", "backslashreplace").decode()


def first_line(body: str) -> str:
    """Return the first line of a text that says something, as a description."""
    line = body.removeprefix(BOM).lstrip("# \t\r\n").replace("\r", "\n").partition("\n")[0]
    return _one_line(line[:DESCRIPTION_LIMIT].strip())


def _wrong_shape(page: ParsedText) -> str:
    """Return a line about a known key that holds a list or a block where a text belongs; "" if none does."""
    for field in page.fields:
        value = field.value
        if isinstance(value, str):
            continue
        if field.key in _TEXT_KEYS:
            return f"line {field.first}: {field.key} must be one text, not a list"
        if field.key in _LIST_KEYS and any(not isinstance(item, str) for item in value):
            return f"line {field.first}: {field.key} must be a list of texts"
    return ""


def _check_header(memory: Memory, kinds: Sequence[str], required: Sequence[str]) -> None:
    page, path = memory.page, memory.path
    for key in required:
        if not page.get(key).strip():
            raise _refusal(path, f"there is no {key}; add one line that says it")
    if memory.type not in kinds:
        raise _refusal(path, f"type is {_echo(memory.type)}; use {', '.join(dict.fromkeys(kinds))}")
    if not page.head.isascii() and re.search(BREAKS, page.head):
        raise _refusal(path, "the header holds control characters or line separators; remove them")
    for field in page.fields:
        texts = (field.value,) if isinstance(field.value, str) else field.value
        for text in texts:
            value = text if isinstance(text, str) else text[1]
            if len(value) * 4 > VALUE_LIMIT and len(value.encode()) > VALUE_LIMIT:
                raise _refusal(path, f"{field.key} is longer than {VALUE_LIMIT} bytes; move it into the text")
            if (field.key in _TEXT_KEYS or field.key in _LIST_KEYS) and (invisible := describe_invisible(value)):
                raise _refusal(path, f"{field.key} holds {invisible}; write one visible line")
    for key in _DATE_KEYS:
        if (value := page.get(key)) and not _is_date(value):
            raise _refusal(path, f"{key} is {_echo(value)}; write a real date such as 2026-11-15")


def _check_body(memory: Memory) -> None:
    body = memory.body
    if is_blank(body):
        raise _refusal(memory.path, "there is no text below the header; say the fact")
    if len(memory.data) > LINE_LIMIT and max(map(len, body.encode().split(b"\n"))) > LINE_LIMIT:
        raise _refusal(memory.path, f"a line is longer than {LINE_LIMIT // 1024} KiB; break it into lines")
    if has_conflict_marks(body):
        raise _refusal(memory.path, "it holds git conflict marks; choose one side")


@lru_cache(maxsize=256)
def _is_date(value: str) -> bool:
    if not re.fullmatch(_ISO_DATE, value):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def is_blank(text: str) -> bool:
    """Return True if there is nothing to see in a text.

    >>> is_blank(" \\n"), is_blank("\\ufeff\\u200b\\u3164"), is_blank("a")
    (True, True, False)
    """
    shapes = re.sub(rf"{DRAWS_NOTHING}|[\s\u2800]", "", text)
    return not any(map(str.isprintable, shapes))


def describe_invisible(value: str) -> str:
    """Describe what a reader cannot see in a line; "" if there is nothing.

    >>> describe_invisible("two\\nlines"), describe_invisible("caf\\u00e9")
    ('a line break or control character', '')
    """
    if value.isascii():
        return "" if value.isprintable() else "a line break or control character"
    unseen = re.search(_UNSEEN, value)
    return f"an invisible or control character (U+{ord(unseen[0][0]):04X})" if unseen else ""


def utc_time(seconds: float, *, milliseconds: bool = False) -> str:
    """Return a moment in UTC, as headers and journals have it.

    >>> utc_time(1_794_744_000), utc_time(0.5, milliseconds=True)
    ('2026-11-15T12:00:00Z', '1970-01-01T00:00:00.500Z')
    """
    whole, rest = divmod(int(seconds * 1_000), 1_000)
    fraction = f".{rest:03}" if milliseconds else ""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + fraction + "Z"


def plural(count: int, one: str, many: str = "") -> str:
    """Return a number with its noun.

    >>> plural(1, "memory", "memories"), plural(1200, "file")
    ('1 memory', '1,200 files')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"
