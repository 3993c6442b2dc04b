"""The offline talker: memory requests in plain words, through the tools a model would call.

Nothing is kept between two steps. A reply is a generator that yields tool calls, is sent their answers and returns
what to say; with each step it begins anew and is sent the answers that the conversation holds. Only the user's own
words lead to a call: what a memory or a tool says is shown, and never obeyed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Sequence
from datetime import date
from hashlib import sha256

from memsheaf.chat.offline.memories import (
    CALL_PREFIX,
    NOT_RUN,
    Draft,
    MemoryChanges,
    PastTurn,
    ShownMemory,
    draft_memory,
    read_recalled,
    read_rows,
    read_shown,
    replace_sentence,
    split_turns,
    telling_words,
    touched_file,
)
from memsheaf.chat.offline.requests import (
    CHANGES,
    LONGEST,
    TYPES,
    WIDE,
    MemoryRequest,
    find_meant_requests,
    find_requests,
    is_agreement,
    is_question,
    lexicon,
    wants_all,
)
from memsheaf.errors import MemsheafError, SecretFound
from memsheaf.guard.paths import file_name
from memsheaf.guard.secrets import find_secrets, without_secrets
from memsheaf.learn.corrections import is_corrected
from memsheaf.learn.statements import read_statement
from memsheaf.llm.model import Request, Said, Spoken, Step, ToolCall
from memsheaf.recall.ignore import asks_to_ignore
from memsheaf.text.neutralize import one_line, visible
from memsheaf.text.tokenizer import words

READ = 5  # memories for one answer
LISTED = 3  # memories that a question names
PREVIEWED = 10  # memories of a scope that are named before all are deleted

_STYLE = "indentation tabs spaces code style"
_FOR_MODELS = r" (?:If this corrects it, change|memory_list shows|Read it with memory_read|Try other words)[^\n]*"
_HEADING = r"(?m)^# Memory\n\n(?:\(empty\)\n*)?"
_STARTER = 'def main() -> None:\n{indent}print("Hello")\n\n\nif __name__ == "__main__":\n{indent}main()\n'

Call = tuple[str, dict[str, object]]
Calls = list[Call]
Reply = Generator[Calls, Sequence[Said], str]  # an answer on its way: yields calls of tools and returns what to say


class Offline:
    """A talker without a model. `changes` are what it does to memory without a tool.

    >>> offline = Offline()
    >>> [each.text for each in offline.talk(Request("", [Said("user", "Thanks!")])) if isinstance(each, Spoken)]
    ['You are welcome.']
    """

    name = "offline"
    speaks_for_user = True

    def __init__(self, changes: MemoryChanges | None = None, *, today: Callable[[], date] = date.today) -> None:
        self._changes = changes
        self._today = today

    def talk(self, request: Request) -> Generator[Spoken | Step, None, None]:
        """Say what comes next: calls of tools, or an answer."""
        turns = split_turns(request.conversation)
        replying = _Replying(turns, request, self._today(), self._changes).reply()
        try:
            calls = next(replying)
            for answers in turns[-1].rounds:
                missing = [NOT_RUN] * (len(calls) - len(answers))
                calls = replying.send([*answers, *missing][: len(calls)])
        except StopIteration as ended:
            yield Spoken(ended.value)
            yield Step(Said("assistant", ended.value))
            return
        made = []
        for at, (tool, given) in enumerate(calls):
            place = f"{at} {len(request.conversation)} {turns[-1].text}".encode("utf-8", "replace")
            id = CALL_PREFIX + sha256(place).hexdigest()[:16]
            made.append(ToolCall(id, tool, json.dumps(given, ensure_ascii=False)))
        yield Step(Said("assistant", "", calls=tuple(made)))


class _ToolFailed(Exception):
    """A tool answered with an error, which is shown to the user."""


class _Replying:
    """Finds the reply to the last turn of a conversation."""

    def __init__(
        self, turns: Sequence[PastTurn], request: Request, today: date, changes: MemoryChanges | None
    ) -> None:
        self._turns = turns
        self._today = today
        self._changes = changes
        offered = {str(tool.get("name", "")) for tool in request.tools}
        is_ignoring = bool(turns) and asks_to_ignore(turns[-1].text)
        self._tools = {name for name in offered if not (is_ignoring and name.startswith("memory_"))}
        self._language = "English"

    def reply(self) -> Reply:
        """All that is asked for, one after the other."""
        if not self._turns:
            return self._say("help")
        text, before = self._turns[-1].text, self._turns[-2].text if len(self._turns) > 1 else ""
        requests, meant = find_meant_requests(text)
        asked, meant_before = find_meant_requests(before)
        if is_agreement(text, asked[0].language):
            self._language = asked[0].language
            if wants_all(asked[0]):
                return self._tried(self._forget_all)
            requests = asked if meant_before else requests
        elif meant and {"update", "forget", "undo"} & {each.kind for each in requests} and not wants_all(requests[0]):
            return self._say("meant", what=one_line(meant, 200))
        replies = []
        for wanted in requests:
            self._language = wanted.language
            try:
                reply = yield from self._reply_to(wanted, is_alone=len(requests) == 1)
            except _ToolFailed as error:
                why = re.sub(_FOR_MODELS, "", str(error).removeprefix("Error:").strip().partition("\n\n")[0])
                reply = self._say("failed", why=one_line(why, 400))
            replies.append(reply)
        return "\n\n".join(dict.fromkeys(replies))

    def _reply_to(self, wanted: MemoryRequest, *, is_alone: bool) -> Reply:
        kind = wanted.kind
        if kind == "thanks":
            return self._say("thanks")
        if kind in ("help", "greeting"):
            return f"{self._say('help')}\n{self._say('model')}"
        if kind == "create":
            return (yield from self._create(wanted))
        if not any(tool.startswith("memory_") for tool in self._tools):
            return self._say("ignored")
        if kind == "undo":
            if self._changes and is_alone:
                return self._tried(self._changes.undo)
            return self._say("no undo" if is_alone else "undo alone")
        if kind in (*CHANGES, "state") and "memory_write" not in self._tools:
            return self._say("reading")
        if kind == "state":
            return (yield from self._correct_stated(wanted))
        replying = {"remember": self._remember, "update": self._update, "forget": self._forget, "know": self._tell,
                    "search": self._search, "list": self._list, "index": self._list, "both": self._list}  # fmt: skip
        return (yield from replying.get(kind, self._recall)(wanted))

    def _say(self, name: str, **given: str) -> str:
        """An answer in the user's language, with these values filled in and secrets removed."""
        (text,) = lexicon(self._language).lists.get(f"say {name}") or lexicon("English").lists[f"say {name}"]
        return re.sub(r"\{(\w+)\}", lambda at: without_secrets(given.get(at[1], at[0])), text.replace(" // ", "\n"))

    def _ask(self, *calls: Call) -> Generator[Calls, Sequence[Said], list[Said]]:
        """What tools answer. Raises _ToolFailed when one does not do what it was asked for."""
        answers = list((yield list(calls)))
        if failed := next((each.text for each in answers if each.text.startswith("Error:")), ""):
            raise _ToolFailed(failed)
        return answers

    def _tell(self, wanted: MemoryRequest) -> Reply:
        """What is known about something, of a type, or at all."""
        if wanted.file:
            return (yield from self._read([wanted.file]))[0].render()
        if wanted.about in TYPES:
            return (yield from self._tell_type(wanted))
        if not wanted.subject or wanted.about:
            return (yield from self._list(wanted._replace(kind="index")))
        found = yield from self._matching(wanted.subject, READ)
        if not found:
            return (yield from self._search(wanted))
        return "\n".join([self._say("known", subject=wanted.subject), *(one.render() for one in found)])

    def _tell_type(self, wanted: MemoryRequest) -> Reply:
        """The memories of a type, the newest first: some in full, and the names of the others."""
        types = ("user", "feedback") if wanted.about == "user" else (wanted.about,)
        whose = " user" if wanted.about == "user" else ""
        lists = yield from self._ask(*[_call("memory_list", type=each) for each in types])
        rows = sorted((row for each in lists for row in read_rows(each.text)), key=lambda row: row.day, reverse=True)
        if not rows:
            return self._say(f"unknown{whose}", subject=wanted.subject)
        shown = yield from self._read([row.file for row in rows[:READ]])
        more = [f"+ {row.file}: {row.body}" for row in rows[READ:]]
        return "\n".join(
            [self._say(f"known{whose}", subject=wanted.subject), *(one.render() for one in shown), *more]
        )

    def _search(self, wanted: MemoryRequest) -> Reply:
        (found,) = yield from self._ask(("memory_search", {"query": wanted.subject}))
        return found.text if read_rows(found.text) else self._say("unknown", subject=wanted.subject)

    def _list(self, wanted: MemoryRequest) -> Reply:
        """The files, the index, or both."""
        parts = []
        if wanted.kind != "index":
            (listed,) = yield from self._ask(("memory_list", {"type": wanted.type} if wanted.type else {}))
            parts.append(listed.text if read_rows(listed.text) else "")
        if wanted.kind != "list":
            (index,) = yield from self._ask(("memory_view", {}))
            parts.append(re.sub(_HEADING, "", index.text).strip())
        return "\n\n".join(filter(None, parts)) or self._say("nothing")

    def _recall(self, wanted: MemoryRequest) -> Reply:
        """What is remembered that may answer it; no more than that without a model."""
        memories = read_recalled(self._turns[-1].beside)
        if not memories and "memory_search" in self._tools and is_question(wanted.subject):
            memories = yield from self._matching(wanted.subject[:LONGEST], READ)
        if memories:
            return "\n".join([self._say("recalled"), *(one.render() for one in memories)])
        return f"{self._say('no match')}\n{self._say('model')}"

    def _read(self, files: Sequence[str]) -> Generator[Calls, Sequence[Said], list[ShownMemory]]:
        answers = yield from self._ask(*[_call("memory_read", filename=file) for file in files])
        return [read_shown(file, answer.text) for file, answer in zip(files, answers, strict=True)]

    def _matching(self, subject: str, limit: int = 20) -> Generator[Calls, Sequence[Said], list[ShownMemory]]:
        """The memories that have all words of a subject, else those that have half of them."""
        (found,) = yield from self._ask(("memory_search", {"query": subject, "limit": limit}))
        if not (rows := read_rows(found.text)):
            return []
        read = yield from self._read([row.file for row in rows])
        shares = [(one, self._share(subject, one.words)) for one in read]
        return [one for one, share in shares if share == 1] or [one for one, share in shares if share >= 0.5]

    def _share(self, subject: str, text: str) -> float:
        """How many of the words of a subject that say something a text has: 1 for all of them."""
        asked = telling_words(subject, self._language)
        has = len(asked.intersection(words(text)))
        # without spaces these are pairs of characters, and some of them reach over the end of a word
        spare = len(asked) // 5 if self._language in WIDE else 0
        return 0.0 if not has else min(1.0, (has + spare) / len(asked))

    def _remember(self, wanted: MemoryRequest) -> Reply:
        """Keep a fact: the one in the request, or what was said just before."""
        fact = wanted.fact
        if not fact and len(self._turns) > 1 and find_requests(self._turns[-2].text)[0].kind == "state":
            fact = self._turns[-2].text.strip()
        if not fact:
            return self._say("what")
        self._refuse_secrets(fact)
        return (yield from self._save(draft_memory(fact, wanted.type, self._today)))

    def _refuse_secrets(self, fact: str) -> None:
        """Raise _ToolFailed for invisible characters, and for a secret that the message or the fact gives away."""
        if hidden := next((letter for letter in fact if not visible(letter)), ""):
            raise _ToolFailed(f"it holds an invisible character (U+{ord(hidden):04X}). Send it again without that.")
        if found := find_secrets(self._turns[-1].text) or find_secrets(fact):
            error = SecretFound(found[0].kind, "what you said")
            raise _ToolFailed(f"{error}. {error.hint}")

    def _save(self, draft: Draft) -> Reply:
        """Keep something new. What there is of that name stays: the new one gets a longer name."""
        known = {name for turn in self._turns[:-1] for name in turn.seen}  # what is written anew is replaced
        longer = one_line(draft.content, 80).rstrip(".")
        for name in (draft.name, longer, f"{longer} 2", f"{longer} 3"):
            draft = draft._replace(name=name)
            file = file_name(draft.type, name, lambda path: False)
            seen = next((each for each in known if each.rpartition(":")[2] == file), "")
            (answer,) = yield [("memory_read", {"filename": seen}) if seen else ("memory_write", draft._asdict())]
            there = seen or touched_file(answer, "exists")
            text = answer.text if seen else answer.text.partition("\n\n")[2]
            if there and read_shown(there, text).body.strip() == draft.content.strip():
                return self._say("already", file=there, what=draft.content)
            if not there:
                break
        if same := touched_file(answer, "same"):
            return self._say("already", file=same, what=draft.content)
        return self._report("saved", answer, draft)

    def _report(self, name: str, answer: Said, draft: Draft, **more: str) -> str:
        if not (file := touched_file(answer, "saved")):
            raise _ToolFailed(answer.text)
        return self._say(name, file=file, what=draft.content, **more)

    def _forget(self, wanted: MemoryRequest) -> Reply:
        """Delete the one memory that is meant; where that is not sure, ask."""
        file, body = wanted.file, "…"
        if not file:
            if wants_all(wanted):
                return self._preview(wanted)
            if not wanted.subject:
                saved = self._turns[-2].saved if len(self._turns) > 1 else []
                if len(saved) != 1:
                    return self._say("what")
                file = saved[0]
            else:
                found = yield from self._matching(wanted.subject)
                if not found:
                    return self._say("unknown", subject=wanted.subject)
                if len(found) > 1 or self._share(wanted.subject, found[0].words) < 1:
                    return self._ask_which("which forget", found)
                file, body = found[0].file, found[0].body
        (answer,) = yield from self._ask(("memory_delete", {"filename": file}))
        return self._say("deleted", file=touched_file(answer, "deleted"), what=one_line(body, 300))

    def _preview(self, wanted: MemoryRequest) -> str:
        """What would be deleted, by scope, and what to say to that."""
        types = {"user": ("user", "feedback"), "all": (), "": ()}.get(wanted.about, (wanted.about,))
        if not self._changes:
            return self._say("one at a time")
        if not (offered := self._changes.offer(types)):
            return self._say("unknown user" if wanted.about == "user" else "nothing")
        lines = [self._say("offer", count=f"{sum(map(len, offered.values()))}")]
        for scope, rows in offered.items():
            listed = [f"- {row.path}: {one_line(row.description, 120)}" for row in rows[:PREVIEWED]]
            more = [self._say("more", count=f"{len(rows) - PREVIEWED}")] if len(rows) > PREVIEWED else []
            lines += ["", f"{scope} ({len(rows)})", *listed, *more]
        return "\n".join([*lines, "", self._say("agree")])

    def _forget_all(self) -> str:
        """Delete what was offered; where nothing was, there is nothing to agree to."""
        gone = self._changes.forget() if self._changes else {}
        what = ", ".join(f"{scope} ({len(rows)})" for scope, rows in gone.items())
        return self._say("deleted all", what=what) if gone else self._say("what")

    def _update(self, wanted: MemoryRequest) -> Reply:
        """Correct the one memory that is meant; where that is not sure, ask."""
        if not wanted.fact:
            return self._say("what")
        self._refuse_secrets(wanted.fact)
        draft = draft_memory(wanted.fact, "", self._today)
        if wanted.file:
            (old,) = yield from self._read([wanted.file])
            return (yield from self._correct(old, draft))
        subject = wanted.fact if wanted.about or not wanted.subject else wanted.subject
        if wanted.also:
            return (yield from self._save(draft))
        found = yield from self._matching(subject)
        if not found:
            is_named = subject == wanted.subject
            return self._say("unknown", subject=subject) if is_named else (yield from self._save(draft))
        # the fact itself has to speak of the memory: that its subject does is not enough to replace it
        is_bare = bool(wanted.subject) and wanted.fact.startswith(f"{wanted.subject}: ")
        is_alike = not is_bare and self._share(wanted.fact, found[0].words) > 0
        if len(found) == 1 and is_alike and self._share(subject, found[0].words) == 1:
            return (yield from self._correct(found[0], draft))
        return self._ask_which("which update", found)

    def _correct_stated(self, wanted: MemoryRequest) -> Reply:
        """Correct the one memory that a statement contradicts (*use pnpm, not npm*); all else is learned later."""
        found: list[ShownMemory] = []
        said = read_statement(wanted.subject[:LONGEST])
        if said.out or said.change > 1:
            found = yield from self._matching(said.out or said.text)
        wrong = [one for one in found if is_corrected(one.body, said)]
        if len(wrong) != 1:
            return self._say("noted")
        self._refuse_secrets(wanted.subject)
        return (yield from self._correct(wrong[0], draft_memory(wanted.subject, "", self._today)))

    def _correct(self, old: ShownMemory, draft: Draft) -> Reply:
        """Put a fact in the place of what a memory said; the rest of its text stays."""
        type = old.type if old.type in TYPES else draft.type
        text, was = replace_sentence(old.body, draft.content)
        fields = draft._replace(content=text, type=type)
        (answer,) = yield [("memory_write", {**fields._asdict(), "filename": old.file})]
        return self._report("updated", answer, draft, old=one_line(was, 300))

    def _ask_which(self, name: str, found: Sequence[ShownMemory]) -> str:
        lines = [f"- {one.file}: {one_line(one.body, 160)}" for one in found[:LISTED]]
        return "\n".join([self._say(name), *lines])

    def _tried(self, change: Callable[[], str]) -> str:
        try:
            return change()
        except MemsheafError as error:
            return self._say("failed", why=f"{error}")

    def _create(self, wanted: MemoryRequest) -> Reply:
        """A file with the smallest beginning, indented as memories say."""
        if "write" not in self._tools:
            return f"{self._say('no files')}\n{self._say('model')}"
        memories = read_recalled(self._turns[-1].beside)
        if "memory_search" in self._tools and not any(one.indentation for one in memories):
            memories += yield from self._matching(_STYLE, READ)
        followed = next((one for one in memories if one.indentation), None)
        is_python = wanted.file.endswith(".py")
        indent = followed.indentation if followed else "    "
        text = _STARTER.replace("{indent}", indent) if is_python else "\n"
        yield from self._ask(("write", {"path": wanted.file, "content": text}))
        lines = [self._say("wrote", file=wanted.file)]
        if followed and is_python:
            lines.append(self._say("followed", file=followed.file, what=one_line(followed.body, 200)))
        return "\n".join(lines)


def _call(tool: str, **given: object) -> Call:
    return tool, given
