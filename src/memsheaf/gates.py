"""Checks before a write. Every change of every channel passes this one list, in `OpenScope.commit`.

A gate looks at one file of a commit and returns the error that refuses it, or None. They run in the order of `GATES`,
each over all files of the commit, and the first refusal ends it: nothing is written.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from typing import NamedTuple

from memsheaf.errors import (
    Duplicate,
    Exists,
    MemsheafError,
    NoMatch,
    NotWorth,
    ReadOnly,
    Refused,
    SecretFound,
    TextRefused,
    fact_edit_error,
)
from memsheaf.frontmatter import edit_text
from memsheaf.guard.paths import fold, is_fact
from memsheaf.guard.secrets import new_secrets
from memsheaf.memory import KINDS, Allow, Memory, check, is_blank, is_conflict_copy, parse, refuse_large
from memsheaf.store import ABSENT, Change, Version
from memsheaf.text.requests import asks_to_forget
from memsheaf.text.sentences import current_part, is_made_from, make_description, make_name
from memsheaf.text.similarity import SAME, alike, fact, words

LAYER_FILES = ("TASK.md", "verified.md", "revisions.md", "session.md", "archive/session.md")
CONTEXT = "CONTEXT.md"  # stands in every system prompt
Near = Sequence[tuple[str, Version]]  # memories that may say the same, likely ones first


class WrittenFile(NamedTuple):
    """One file of a commit: the memory after it and the one before, each None where there is none."""

    path: str
    memory: Memory | None
    was: Memory | None = None

    @property
    def change(self) -> Change:
        """The change that the store makes, provided that the memory before is still there."""
        data = self.memory.data if self.memory else None
        return Change(self.path, data, self.was.version if self.was else ABSENT)


def written_file(memory: Memory, replaced: Memory | None) -> WrittenFile:
    """Return the file of a commit for a memory in the place of another; a fact is superseded by another file."""
    return WrittenFile(memory.path, memory, None if replaced and is_fact(replaced.path) else replaced)


class GateContext(NamedTuple):
    """The circumstances of a commit.

    `is_asked` is true where a person, or learning on their behalf, decided that a text is worth keeping. `near` finds
    the memories that may say the same as a text, `read` gives one of them, `facts` those that are facts, and `had`
    tells whether a path has a history. `retired` are the facts that the new ones of a commit supersede, None where
    facts come in as they are. `is_reviewed` where only people change anything; `is_single` for a commit of one file.
    """

    scope: str
    is_person: bool
    is_asked: bool
    allow: Allow
    why: str
    may_write_context: bool
    near: Callable[[Memory], Near]
    read: Callable[[str], Memory]
    facts: Callable[[], Sequence[Memory]]
    had: Callable[[str], bool]
    retired: Collection[str] | None = None
    is_reviewed: bool = False
    is_single: bool = False


Gate = Callable[[WrittenFile, GateContext], MemsheafError | None]


def check_commit(files: Sequence[WrittenFile], context: GateContext, gates: Sequence[Gate] = ()) -> None:
    """Raise the first refusal of a gate, of all or of these."""
    for gate in gates or GATES:
        for file in files:
            if refusal := gate(file, context):
                raise refusal


def refuse_context(file: WrittenFile, context: GateContext) -> Refused | None:
    """Refuse an agent's change of the file that stands in every later system prompt."""
    if fold(file.path) != fold(CONTEXT) or context.is_person or context.may_write_context:
        return None
    how = f"ask the user to run `memsheaf edit {CONTEXT}`, and tell them what to put there"
    return TextRefused(f"{CONTEXT} stands in every system prompt, so only a person writes it; {how}")


def refuse_secret(file: WrittenFile, context: GateContext) -> Refused | None:
    """Refuse a text, or a reason for a change, with a secret in it that was not there before."""
    return None if context.allow.secrets else find_secret(file.memory, file.was, context.why)


def refuse_unworthy(file: WrittenFile, context: GateContext) -> Refused | None:
    """Refuse what an agent saves and what holds for the moment only, or can be looked up in the code.

    A memory that says until when it holds may speak of the moment, one that cites the code may speak of it.
    """
    memory = _judged_memory(file, context)
    if memory is None or context.is_asked:
        return None
    from memsheaf.guard.worth import derivable, ephemeral

    text = _all_text(memory)
    old = _all_text(file.was) if file.was else ""
    if not memory.expires and (why := ephemeral(text)) and not ephemeral(old):
        return NotWorth(why)
    has_citations = bool(memory.citations)
    if (why := derivable(text, cited=has_citations)) and not derivable(old, cited=has_citations):
        return NotWorth(why)
    return None


# Words that say nothing: acknowledgements and greetings in six languages, and fingers on a keyboard ("asdf", "xxx").
_EMPTY_TALK = (
    r"(?i)\W*+(?:(?:ok|okay|k|yes|yeah|yep|no|nope|sure|fine|cool|great|nice|thanks?|thx|ty|you|so|very|much|a|lot|please|hi"
    r"|hello|hey|world|bye|test|testing|hm+|lol|danke|dankeschön|ja|nein|bitte|hallo|tschüss|gut|passt|merci|beaucoup|oui"
    r"|non|bonjour|salut|gracias|muchas|sí|si|hola|vale|adiós|好的?|嗯|是的?|不是?|对|谢谢你?|你好|测试|はい|いいえ|うん"
    r"|ありがとう(?:ございます)?|こんにちは|テスト|了解|わかった"
    r"|(?:asdf|sdfg|dfgh|fghj|ghjk|hjkl|qwer|azerty|zxcv|xcvb|yxcv|aoeu)\w*|([^\W\d])\1{2,}|([^\W\d]{2})\2{2,}"
    r")\b\W*+)*"
)


def refuse_empty_talk(file: WrittenFile, context: GateContext) -> Refused | None:
    """Refuse a new text that says nothing, such as "ok" or "asdf", and a request to forget.

    A request to forget would keep what it asks to forget, or stand in its place: nobody who says it wants that. A
    question is kept, since somebody may want to come back to it.
    """
    memory = _judged_memory(file, context)
    if memory and not file.was and re.fullmatch(_EMPTY_TALK, _all_text(memory)):
        return NotWorth("it says nothing", hint="Say it as a sentence, such as `I prefer pnpm`.")
    if memory and asks_to_forget(memory.body):
        return NotWorth("it asks to forget", hint="`memsheaf forget WORDS` deletes a memory.")
    return None


def refuse_personal(file: WrittenFile, context: GateContext) -> Refused | None:
    """Refuse a new memory about one person in a team's scope."""
    memory = _judged_memory(file, context)
    if memory is None or file.was or not context.scope.startswith("team/") or memory.type != "user":
        return None
    return NotWorth(
        f"it is about one person, and all of {context.scope} would read it",
        hint="Keep it in the scope user; what holds for all in the team has another type.",
    )


def refuse_duplicate(file: WrittenFile, context: GateContext) -> Refused | None:
    """Refuse a new memory that says what another one says already, in almost the same words.

    A fact may differ in a word alone from the one that it supersedes. A memory that others committed does not stand
    in for what is said here.
    """
    memory = _judged_memory(file, context)
    if memory is None or file.was:
        return None
    wanted = fact(memory)
    skipped = {memory.path}
    if is_fact(memory.path):
        skipped.update(memory.supersedes)
    for path, _ in context.near(memory):
        with suppress(MemsheafError):
            other = context.read(path)
            if path in skipped or other.state != "ok" or other.trust == "shared":
                continue
            likeness = alike(wanted, fact(other))
            if likeness >= SAME:
                return Duplicate(other.ref, likeness)
    return None


def refuse_incomplete_fact(file: WrittenFile, context: GateContext) -> TextRefused | None:
    """Refuse a new fact that lacks what shows it to be true."""
    memory = _new_fact(file, context)
    if memory is None:
        return None
    from memsheaf.guard.citations import parse as parse_place

    places = filter(None, map(parse_place, memory.citations))
    missing = []
    if not any(place.first or place.symbol for place in places):
        missing.append("a cited place")
    if not memory.reason:
        missing.append("a reason")
    if memory.state != "ok" or not memory.has_known_type:
        missing.append("a header with name, description and type")
    if not missing:
        return None
    return TextRefused(
        f"{memory.path!r} is no fact yet: it lacks {', '.join(missing)}",
        hint="`memsheaf remember --reason` asks for all that a fact needs; elsewhere it can be an ordinary memory.",
    )


def refuse_second_fact(file: WrittenFile, context: GateContext) -> MemsheafError | None:
    """Refuse a second fact on one subject.

    A machine may not take the place of one that was retired either, nor retire one about something else.
    """
    memory = _new_fact(file, context)
    if memory is None:
        return None
    for other in context.facts():
        if other.path not in (memory.path, *(context.retired or ())) and words(other.name) == words(memory.name):
            hint = f"`memsheaf remember FACT --reason TEXT --replaces {other.path}` says what is true now."
            return Exists(other.ref, "it is a fact on the same subject", hint=hint)
    if context.is_person:
        return None
    if context.had(memory.path):
        hint = "A fact is corrected by one that supersedes it; `memsheaf log` tells what became of a retired one."
        return Exists(memory.ref, "a fact had this name, and was retired", hint=hint)
    for other in map(context.read, filter(is_fact, memory.supersedes)):
        if words(other.name) != words(memory.name):
            return fact_edit_error(other.ref)
    return None


def refuse_edited_fact(file: WrittenFile, context: GateContext) -> ReadOnly | None:
    """Refuse to edit a fact; and to remove one, unless a person does it or another one supersedes it."""
    if context.retired is None or file.was is None or not is_fact(file.path):
        return None
    if file.memory is None:
        is_refused = not context.is_person and file.path not in context.retired
    else:
        is_refused = content_of(file.memory) != content_of(file.was)
    return fact_edit_error(file.was.ref) if is_refused else None


def require_review(file: WrittenFile, context: GateContext) -> ReadOnly | None:
    """Refuse a machine's change where only people change anything. One memory alone can be proposed to them."""
    if context.is_person or not context.is_reviewed:
        return None
    memory = file.memory if file.memory and file.memory.state == "ok" and context.is_single else None
    return review_error(context.scope, memory, file.was)


def review_error(scope: str, memory: Memory | None = None, was: Memory | None = None) -> ReadOnly:
    """Return the refusal of a machine's change where people decide, with the memory that can be proposed to them."""
    hint = f"A person can, with `memsheaf edit`, `forget` or `undo` and `--scope {scope}`."
    error = ReadOnly(f"{scope} is a team's memory, which only a person changes", hint=hint)
    error.scope, error.memory, error.was = scope, memory, was
    return error


GATES: Sequence[Gate] = (
    refuse_incomplete_fact,
    refuse_second_fact,
    refuse_edited_fact,
    refuse_context,
    refuse_secret,
    refuse_unworthy,
    refuse_empty_talk,
    refuse_personal,
    refuse_duplicate,
    require_review,
)


def _new_fact(file: WrittenFile, context: GateContext) -> Memory | None:
    is_new = context.retired is not None and file.was is None and is_fact(file.path)
    return file.memory if is_new else None


def _judged_memory(file: WrittenFile, context: GateContext) -> Memory | None:
    """Return the memory of a file whose content is judged, which no caller insists on."""
    is_judged = file.memory and file.memory.state == "ok" and not context.allow.anyway
    return file.memory if is_judged else None


def find_secret(memory: Memory | None, was: Memory | None, why: str = "") -> SecretFound | None:
    """Return the error about a secret that is new in a memory, or in the reason for its change; None without one.

    What is in a file already does not stand in the way of a change elsewhere in it.
    """
    refuse_large(why)
    texts = {**_texts_of(memory), "the reason given": why}
    old = _SEPARATOR.join(_texts_of(was).values())
    for secret in new_secrets(_SEPARATOR.join(texts.values()), old):
        return SecretFound(secret.kind, _describe_place(texts, secret.start))
    return None


def require_no_secret(memory: Memory | None, was: Memory | None = None, why: str = "") -> None:
    """Raise SecretFound for a secret that is new in a memory, or in the reason for its change."""
    if error := find_secret(memory, was, why):
        raise error


def _all_text(memory: Memory) -> str:
    return f"{memory.name}\n{memory.description}\n{memory.body}"


_SEPARATOR = "\n\0\n"


def _texts_of(memory: Memory | None) -> dict[str, str]:
    """Return the text of a memory, the fields of its header, and the name of its file, each by what it is called.

    The text comes first: name and description are often made from it, and a secret is where the user wrote it.
    """
    if memory is None:
        return {}
    texts = {"the text": memory.text}
    if memory.state != "held" and memory.page.head:
        texts["the text"] = memory.body
        for field in memory.page.fields:
            values = [field.value] if isinstance(field.value, str) else memory.page.items(field.key)
            texts[f"the {field.key}"] = "\n".join(f"{field.key}: {value}" for value in values)
        texts["the header"] = memory.page.head
    texts["the file name"] = memory.path.removesuffix(".md").replace("/", "\n")
    return texts


def _describe_place(texts: Mapping[str, str], position: int) -> str:
    """Return the place of a character within these texts, in words."""
    for place, text in texts.items():
        if position <= len(text):
            line = text.count("\n", 0, position) + 1
            return f"line {line} of the text" if place == "the text" and "\n" in text.strip() else place
        position -= len(text) + len(_SEPARATOR)
    return "it"


# Facts: each cites its evidence, is never edited, and is retired only by one that supersedes it


def find_retired(files: Sequence[WrittenFile]) -> set[str]:
    """Return the facts that the new ones of a commit supersede."""
    new = [file.memory for file in files if file.memory and file.was is None and is_fact(file.path)]
    return {path for memory in new for path in memory.supersedes if is_fact(path)}


def refuse_superseded(memory: Memory, others: Iterable[Memory]) -> None:
    """Raise Exists when a fact that is gone would come back beside the one of the others in its place."""
    for other in others:
        has_subject = other.path != memory.path and words(other.name) == words(memory.name)
        if memory.path in other.supersedes or has_subject:
            raise Exists(
                other.ref,
                f"it stands in the place of {memory.path!r}",
                hint="`memsheaf undo` of what superseded it brings the old one back, and takes the new away.",
            )


def citations_without_hashes(memory: Memory) -> Iterator[str]:
    """Yield the places that a fact cites, without the hashes that showed what it said before."""
    from memsheaf.guard.citations import parse as parse_place

    for text in memory.citations:
        place = parse_place(text)
        yield str(place._replace(hash="")) if place else text


def content_of(memory: Memory) -> tuple[object, ...]:
    """Return the content of a fact, without its source and trust."""
    return memory.name, memory.description, memory.type, memory.citations, memory.reason, memory.body, memory.expires


# The text that a change makes, and what a file may hold


def replace_piece(memory: Memory, old: str, new: str, *, count: int) -> str:
    """Return the text with a piece replaced that occurs exactly `count` times.

    It is looked for below the header, and in the whole text if it does not occur there: name and description often
    repeat the fact, and follow it.

    Raises:
        TextRefused: the piece is empty.
        NoMatch: it does not occur so often.
    """
    if not old:
        raise TextRefused("the text to replace is empty; give the exact text that is to change")
    if "\r\n" in memory.text and "\r" not in old and old not in memory.text:  # nobody types half of a line end
        old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
    start = len(memory.page.head) if old in memory.page.body else 0
    lines = _places(memory.text, old, start)
    if not lines or len(lines) != count:
        raise NoMatch(memory.ref, lines)
    return memory.text[:start] + memory.text[start:].replace(old, new)


def insert_lines(memory: Memory, line: int, text: str) -> str:
    """Return the text with more put in after a line of the body; 0 is its start. Raises TextRefused."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", memory.body)
    if not 0 <= line <= len(lines):
        raise TextRefused(f"Line {line} is beyond end of file ({len(lines)} lines)")
    end = "\r\n" if "\r\n" in memory.text else "\n"
    added = text.removesuffix("\n")
    if end == "\r\n":
        added = added.removesuffix("\r").replace("\r\n", "\n").replace("\n", end)
    if line and line == len(lines) and not lines[-1].endswith("\n"):  # a file that ends without a line end still does
        lines.append(end + added)
    else:
        lines.insert(line, added + end)
    return memory.page.head + "".join(lines)


def merge_memory(found: Memory, fresh: Memory) -> str:
    """The text of `found` with the fields and the body of `fresh`.

    When it was made, whether it is pinned, and unknown keys stay; the evidence for the old fact does not.
    """
    values: dict[str, str | Sequence[str] | None] = dict.fromkeys(_OF_THE_FACT)
    for field in fresh.page.fields:
        if field.key != "created":
            listed = isinstance(field.value, tuple)
            values[field.key] = fresh.page.items(field.key) if listed else fresh.page.get(field.key)
    return edit_text(found.text, fields=values, body=fresh.body)


_OF_THE_FACT = ("citations", "conversation", "expires", "reason", "supersedes")


def place_memory(fresh: Memory, path: str) -> Memory:
    """A new memory at its path. Raises TextRefused when the name is that of a conflict copy."""
    return check(path, fresh.text) if is_conflict_copy(path) else Memory(path, *fresh[1:])


def update_memory(was: Memory, text: str, today: str) -> Memory:
    """The memory a changed text makes, with today's date in its header. Raises TextRefused."""
    changed = with_description(was, check_text(was.path, text, was, free=was.state == "free"))
    if changed.state == "free" or changed.updated == today:
        return changed
    return check_text(was.path, edit_text(changed.text, fields={"updated": today}), was, free=False)


def with_description(was: Memory | None, changed: Memory) -> Memory:
    """Return the changed memory with a name and a description that follow its text, unless somebody wrote them."""
    if was is None or not was.state == changed.state == "ok" or was.body == changed.body:
        return changed
    fields: dict[str, str | Sequence[str] | None] = {}
    if was.description == changed.description and is_made_from(was.body, was.description):
        fields["description"] = make_description(changed.body)
    if was.name == changed.name and was.name in (make_name(was.body), make_name(current_part(was.body))):
        fields["name"] = make_name(changed.body)
    return check_text(was.path, edit_text(changed.text, fields=fields), was, free=False) if fields else changed


def set_origin(memory: Memory, was: Memory | None, by: str) -> Memory:
    """The memory with the source, the trust and the last author that its channel gives it.

    What a given header says does not count: only a person lifts a doubt, and nobody writes as somebody else. To
    doubt is free to all.

    Raises:
        TextRefused: an unconfirmed memory would become a file without a header.
    """
    if memory.state != "ok":
        if by != "user" and was is not None and was.trust == "unconfirmed":
            raise TextRefused(f"{memory.path!r} is unconfirmed: a person has to confirm or forget it first")
        return memory
    if was is not None and memory.data == was.data:
        return memory
    given = memory.page.get
    trust, source = given("trust"), given("source")
    if by != "user":
        if memory.trust != "unconfirmed":
            trust = was.page.get("trust") if was else ""
        if source != by and (source or was is not None):
            source = was.source if was else by
    is_own = was is None or source == by or (by == "user" and not source)
    changed = "" if is_own else by
    wanted = {"trust": trust or None, "source": source or None, "changed_by": changed or None}
    if all((value or "") == given(key) for key, value in wanted.items()):
        return memory
    text = edit_text(memory.text, fields=wanted)
    return memory if text == memory.text else _check_edit(memory.path, text, was or memory)


def add_dates(text: str, today: str, *, piece: bool = False) -> str:
    """The text with the date beside days such as "tomorrow"; a piece of one only where it cannot be code.

    Raises:
        TextRefused: it is too large to be stored, so nothing else is done with it.
    """
    refuse_large(text)
    if piece and re.search(r"[`=(){}\[\];<>]", text):
        return text

    from memsheaf.text.dates import absolute

    return absolute(text, date.fromisoformat(today))


def check_text(path: str, text: str, was: Memory | None, *, free: bool) -> Memory:
    """The memory that a text makes, or with `free` a file without a header; a type it had already may stay.

    Raises:
        TextRefused: it may not be stored.
    """
    refuse_large(text, path)
    try:
        memory = parse(path, text.encode())
    except UnicodeEncodeError:
        raise TextRefused(f"{path!r} would hold half of a surrogate pair") from None
    if memory.state == "copy":
        raise TextRefused(f"{path!r} is the name of a conflict copy")
    refuse_large(memory.data, path)
    if not free or memory.state != "free":
        return _check_edit(path, text, was, memory) if was else check(path, text, parsed=memory)
    if "\0" in text or is_blank(text):
        raise TextRefused(f"{path!r} would hold no text, or zero bytes")
    return memory


def _check_edit(path: str, text: str, was: Memory, parsed: Memory | None = None) -> Memory:
    """The memory that an edit makes: what a file that others wrote lacked already, it may go on lacking."""
    required = [key for key in ("name", "description") if was.page.get(key).strip()]
    return check(path, text, kinds=(*KINDS, was.type), required=required, parsed=parsed)


def check_import(path: str, data: bytes, found: Memory | None) -> Memory:
    """The memory a file makes; one without a header comes in as a free file. Raises TextRefused."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise TextRefused(f"{path!r} is not UTF-8") from None
    return check_text(path, text, found, free=True)


def _places(text: str, piece: str, start: int) -> list[int]:
    """Return the lines at which a piece of text begins, from a place on."""
    lines, line, done, at = [], 1, 0, text.find(piece, start)
    while at >= 0:
        line, done = line + text.count("\n", done, at), at
        lines.append(line)
        at = text.find(piece, at + len(piece))
    return lines
