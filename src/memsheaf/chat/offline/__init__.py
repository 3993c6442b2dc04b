"""The offline talker: memory requests in plain words, through the tools a model would call.

Nothing is kept between two steps. A reply is a generator that yields tool calls, is sent their answers and returns
the text to say; with each step it begins anew and is sent the answers that the conversation holds. Only the user's
own words lead to a call: the text of a memory or a tool is shown, and never obeyed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Sequence
from datetime import date
from hashlib import sha256
from itertools import chain, count

from memsheaf.chat.offline.memories import (
    MemoryChanges,
    ShownMemory,
    find_files,
    find_recalled,
    read_shown,
    touched_file,
)
from memsheaf.chat.offline.requests import (
    FILE,
    MAX_REQUEST_CHARS,
    MemoryRequest,
    choose,
    correct_spelling,
    find_requests,
    find_telling_words,
    is_agreement,
    say,
)
from memsheaf.errors import MemsheafError, Refused
from memsheaf.guard.paths import file_name
from memsheaf.guard.secrets import find_secrets
from memsheaf.learn.corrections import takes_back
from memsheaf.learn.replacement import LINK_FROM, replaces
from memsheaf.learn.sentences import draft_fact, split_facts
from memsheaf.llm.model import Request, Said, Spoken, Step, ToolCall, Touched
from memsheaf.memory import KINDS
from memsheaf.recall.ignore import asks_to_ignore
from memsheaf.recall.turns import Proposal
from memsheaf.text.neutralize import one_line, visible
from memsheaf.text.sentences import is_question

CALL_PREFIX = "offline-"  # of the ids of calls that the offline talker made
MAX_READ = 20  # memories for one answer
MAX_LISTED = 3  # memories that a question names

_NOT_RUN = Said("tool", "Error: it was not run.")
_FOR_MODELS = r" (?:If this corrects it, change|memory_list shows|Read it with memory_read|Try other words)[^\n]*"
_CATALOG_HEAD = r"(?m)^# Memory\n\n(?:\(empty\)\n*)?"
_STARTER = 'def main() -> None:\n{indent}print("Hello")\n\n\nif __name__ == "__main__":\n{indent}main()\n'
_INDENTATION = (
    r"(?i)(?P<tabs>\btabs?\b|tabulat|制表符|タブ)|\b(?:spaces|leerzeichen|espaces|espacios)\b|空格|スペース"
)

Call = tuple[str, dict[str, object]]
Reply = Generator[list[Call], Sequence[Said], str]
Answers = Generator[list[Call], Sequence[Said], list[Said]]
Memories = Generator[list[Call], Sequence[Said], list[ShownMemory]]


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
        """Yield what comes next: calls of tools, or an answer."""
        conversation = request.conversation
        last = max((at for at, each in enumerate(conversation) if each.role == "user"), default=-1)
        message = conversation[last] if last >= 0 else Said("user", "help")
        tools = {str(tool.get("name", "")) for tool in request.tools}
        replying = _Replying(message, conversation[: max(last, 0)], tools, self._today(), self._changes)
        reply = replying.reply()
        answers = {each.answers: each for each in conversation[last:] if each.role == "tool"}
        try:
            calls = next(reply)
            for each in conversation[last + 1 :]:
                if each.calls and all(call.id.startswith(CALL_PREFIX) for call in each.calls):
                    given = [answers.get(call.id, _NOT_RUN) for call in each.calls]
                    calls = reply.send([*given, *[_NOT_RUN] * len(calls)][: len(calls)])
        except StopIteration as ended:
            yield Spoken(ended.value)
            yield Step(Said("assistant", ended.value, touched=tuple(replying.touched)))
            return
        tool_calls = []
        for number, (tool, arguments) in enumerate(calls):
            place = f"{number} {len(conversation)} {message.text}".encode("utf-8", "replace")
            id = CALL_PREFIX + sha256(place).hexdigest()[:16]
            tool_calls.append(ToolCall(id, tool, json.dumps(arguments, ensure_ascii=False)))
        yield Step(Said("assistant", "", calls=tuple(tool_calls)))


class _Replying:
    """Finds the reply to a user's message; `before` is the conversation up to it."""

    def __init__(
        self, message: Said, before: Sequence[Said], tools: set[str], today: date, changes: MemoryChanges | None
    ) -> None:
        self._message = message
        self._before = before
        self._tools = tools
        self._today = today
        self._changes = changes
        self._language = "English"
        self.touched: list[Touched] = []  # what was learned before the answer
        if asks_to_ignore(message.text):
            self._tools = {name for name in tools if not name.startswith("memory_")}

    def reply(self) -> Reply:
        """Do all that is asked for, one after the other, and return the answer."""
        text = self._message.text.replace("\r\n", "\n")
        if hidden := [letter for letter, seen in zip(text, f"{visible(text)}\0", strict=False) if letter != seen]:
            why = f"the message holds an invisible character (U+{ord(hidden[0]):04X}). Send it again without that."
            return self._say("failed", why=why)
        requests = find_requests(self._message.text)
        if is_agreement(self._message.text) and (asked := self._request_before()).deletes_all:
            requests = [asked._replace(kind="forget all")]
        elif not requests[0].deletes_all and (chosen := self._find_chosen()):
            requests = [MemoryRequest("forget", file=file) for file in chosen]
        elif requests[0].kind in ("state", "other") and (meant := correct_spelling(self._message.text)):
            return self._say("meant", what=one_line(meant, 200))
        replies = []
        for request in requests:
            self._language = request.language
            try:
                is_alone = all(other is request or other.kind == "state" for other in requests)
                replies.append((yield from self._reply_to(request, is_alone=is_alone)))
            except MemsheafError as error:
                why = re.sub(_FOR_MODELS, "", str(error).removeprefix("Error:").strip().partition("\n\n")[0])
                replies.append(self._say("failed", why=one_line(why, 400)))
        if self._changes and requests[-1].kind not in ("state", "other"):
            self._changes.learn("")  # a request is no fact
        return "\n\n".join(dict.fromkeys(replies))

    def _request_before(self) -> MemoryRequest:
        """Return what the user's message before this one asked for."""
        texts = [message.text for message in self._before if message.role == "user"]
        return find_requests(texts[-1] if texts else "")[0]

    def _find_chosen(self) -> list[str]:
        """Return the files that the message chooses, of those that the user was asked about just before."""
        asked = self._request_before()
        if asked.kind != "forget" or asked.deletes_all:
            return []
        files = re.findall(r"(?m)^- (.+?\.md): ", self._before[-1].text)
        text = self._message.text.strip()
        return [text] if text in files else [files[place] for place in choose(text, len(files))]

    def _reply_to(self, request: MemoryRequest, *, is_alone: bool) -> Reply:
        kind = request.kind
        if kind in ("thanks", "fine", "help", "greeting"):
            return self._say(kind)
        if kind == "create":
            return (yield from self._create(request))
        if not any(tool.startswith("memory_") for tool in self._tools):
            return self._say("ignored")
        if kind == "undo":
            return self._changes.undo() if self._changes and is_alone else self._say("no undo")
        if kind in ("list", "know", "search"):
            return (yield from self._tell(request))
        if kind == "other" and (secrets := find_secrets(request.subject)) and not is_question(request.subject):
            return self._say("secret", kind=secrets[0].kind)
        if kind == "other":
            return (yield from self._recall(request))
        if "memory_write" not in self._tools:
            return self._say("reading")
        if kind == "state":
            return self._learn(request.subject)
        if kind == "remember":
            asked = self._request_before()
            said_before = asked.subject.strip() if asked.kind == "state" else ""
            return (yield from self._save_all(request.fact or said_before))
        if kind == "update":
            return (yield from self._update(request))
        if kind == "forget all" or request.deletes_all:
            return self._forget_all(request)
        return (yield from self._forget(request))

    def _say(self, name: str, **values: str) -> str:
        return say(name, self._language, **values)

    def _ask(self, *calls: Call) -> Answers:
        """Return what tools answer. Raises Refused when one does not do what it was asked for."""
        answers = list((yield list(calls)))
        for answer in answers:
            if answer.text.startswith("Error:"):
                raise Refused(answer.text)
        return answers

    # answers from memory

    def _tell(self, request: MemoryRequest) -> Reply:
        """Show one file, the memories of a type or about a subject, or the catalog."""
        if request.file:
            return (yield from self._read([request.file]))[0].render()
        if request.about in KINDS:
            types = ("user", "feedback") if request.about == "user" else (request.about,)
            answers = yield from self._ask(*[_call("memory_list", type=each) for each in types])
            memories = yield from self._read([file for each in answers for file in find_files(each.text)])
        elif request.subject and not request.about:
            memories = yield from self._find(request.subject, min_share=0)
        else:
            (answer,) = yield from self._ask(_call("memory_view"))
            return re.sub(_CATALOG_HEAD, "", answer.text).strip() or self._say("nothing")
        heading = "known" if memories else "unknown"
        if request.about == "user":
            heading += " you"
        elif request.subject and memories:
            sharing = [each for each in memories if each.count_shared(request.subject)]
            heading, memories = ("known", sharing) if sharing else ("nearest", memories)
        return "\n".join([self._say(heading, subject=request.subject), *(each.render() for each in memories)])

    def _recall(self, request: MemoryRequest) -> Reply:
        """Show the memories that may answer; there is no more to say without a model."""
        subject = request.subject[:MAX_REQUEST_CHARS]
        recalled = yield from self._read(find_recalled(self._message.beside))
        memories = [each for each in recalled if each.count_shared(subject)]
        if not memories:
            memories = yield from self._find(subject)
        if not memories and not recalled and is_question(subject):  # recall shows each memory once
            recalled = yield from self._find(subject, min_share=0)
        if not memories and not recalled:
            return self._say("no match")
        heading = self._say("recalled" if memories else "nearest")
        return "\n".join([heading, *(each.render() for each in memories or recalled)])

    def _read(self, files: Sequence[str]) -> Memories:
        calls = [_call("memory_read", filename=file) for file in files[:MAX_READ]]
        answers = (yield from self._ask(*calls)) if calls else []
        return [read_shown(file, answer.text) for file, answer in zip(files, answers, strict=False)]

    def _find(self, subject: str, min_share: float = 0.5) -> Memories:
        """Return the memories that have all words of a subject, else those that have such a share of them."""
        if not subject.strip() or "memory_search" not in self._tools:
            return []
        (answer,) = yield from self._ask(_call("memory_search", query=subject))
        memories = yield from self._read(find_files(answer.text))
        best = max((each.count_shared(subject) for each in memories), default=0)
        return [each for each in memories if each.count_shared(subject) >= (1 if best == 1 else min_share)]

    # changes

    def _learn(self, text: str) -> str:
        """Keep what a text states in passing, and name each fact that was kept."""
        facts = self._changes.learn(text) if self._changes else None
        secrets = find_secrets(text)
        if facts is None and not secrets:
            return self._say("noted")
        replies = []
        for fact in facts or ():
            self.touched += fact.touched
            if fact.outcome != "unkept" or not secrets:
                replies.append(self._say(fact.outcome, **fact.values))
            if fact.rivals:
                replies.append(self._name_memories("beside", fact.rivals))
        if secrets:
            replies.append(self._say("secret", kind=secrets[0].kind))
        return "\n".join(replies) or self._say("unkept", why=self._say("no facts"))

    def _save_all(self, text: str) -> Reply:
        """Save a text, each fact in it as a memory of its own."""
        if not text:
            return self._say("what")
        self._refuse_secrets(text)
        lines = []
        facts = [fact for fact in split_facts(text) if find_telling_words(fact)]  # "No." is none
        for fact in facts or [text]:
            lines.append((yield from self._save(draft_fact(fact, self._today))))
        return "\n".join(lines)

    def _refuse_secrets(self, fact: str) -> None:
        if secrets := find_secrets(self._message.text) or find_secrets(fact):
            raise Refused(f"the text holds {secrets[0].kind}; nothing was stored. Remember only where it is kept.")

    def _save(self, proposal: Proposal) -> Reply:
        """Save a new memory. An existing one of that name stays: the new one gets a longer name."""
        content = proposal.content
        longer = one_line(content, 80).rstrip(".")
        shown = "\n".join(f"{message.text} {message.calls}" for message in self._before)
        seen = {file.rpartition(":")[2]: file for file in re.findall(FILE, shown)}
        for name in chain([proposal.name, longer], (f"{longer} {number}" for number in count(2))):
            # memory_write would replace a file that this conversation has seen, so that one is read first
            if file := seen.get(file_name(proposal.kind, name, lambda path: False), ""):
                (answer,) = yield [_call("memory_read", filename=file)]
                if read_shown(file, answer.text).body == content:
                    return self._say("already", file=file, what=content)
                if not answer.text.startswith("Error:"):
                    continue
            (answer,) = yield [_write(proposal._replace(name=name))]
            if not touched_file(answer, "exists"):
                break
        if same := touched_file(answer, "same"):
            return self._say("already", file=same, what=content)
        return self._report("saved", answer, what=content)

    def _report(self, name: str, answer: Said, **values: str) -> str:
        """Return the line about a change, and how to undo it. Raises Refused if nothing was changed."""
        file = touched_file(answer, "saved", "deleted")
        if not file:
            raise Refused(answer.text)
        if corrected := re.search(r"(?m)^It corrects \S+: (.*)$", answer.text):
            name, values = "updated", {**values, "old": corrected[1]}
        return self._say(name, file=file, **values)

    def _update(self, request: MemoryRequest) -> Reply:
        """Replace the one memory that is surely meant; in doubt save the fact, and name those it may correct.

        Surely meant is a memory whose place the fact takes, where it may take that of no other.
        """
        fact = request.fact
        self._refuse_secrets(fact)
        named = request.subject if find_telling_words(request.subject) and not request.about else ""
        if request.file and fact:
            return (yield from self._replace((yield from self._read([request.file]))[0], fact))
        memories = yield from self._find(named or fact, min_share=0.5 if named else 0)
        rivals = [each for each in memories if replaces(each.body, fact) >= LINK_FROM]
        if len(rivals) == len(split_facts(fact)) == 1:
            new, old = (draft_fact(text, self._today) for text in (fact, rivals[0].body))
            if takes_back(new, old):
                return (yield from self._replace(rivals[0], fact))
        saved = yield from self._save_all(fact)
        others = memories if named else rivals
        return "\n".join([saved, self._name_memories("beside", others)]) if others else saved

    def _replace(self, old: ShownMemory, fact: str) -> Reply:
        self._refuse_secrets(fact)
        proposal = draft_fact(fact, self._today, old.type if old.type in KINDS else "")
        tool, arguments = _write(proposal)
        (answer,) = yield [(tool, {**arguments, "filename": old.file})]
        return self._report("updated", answer, old=one_line(old.body, 300), what=proposal.content)

    def _forget(self, request: MemoryRequest) -> Reply:
        """Delete the one memory that is meant, or the one saved just before; where that is not sure, ask."""
        if request.subject:
            memories = yield from self._find(request.subject)
            if not memories:
                return self._say("unknown", subject=request.subject)
            if len(memories) > 1 or memories[0].count_shared(request.subject) < 1:
                return self._name_memories("which", memories)
        else:
            last = max((at for at, each in enumerate(self._before) if each.role == "user"), default=0)
            saved = [file for each in self._before[last:] if (file := touched_file(each, "saved"))]
            memories = yield from self._read([request.file] if request.file else saved)
            if len(memories) != 1:
                return self._say("what")
        (answer,) = yield from self._ask(_call("memory_delete", filename=memories[0].file))
        return self._report("deleted", answer, what=one_line(memories[0].body, 300))

    def _name_memories(self, heading: str, memories: Sequence[ShownMemory]) -> str:
        lines = [f"- {each.file}: {one_line(each.body, 160)}" for each in memories[:MAX_LISTED]]
        return "\n".join([self._say(heading), *lines])

    def _forget_all(self, request: MemoryRequest) -> str:
        """Name what would be deleted and how to agree to that; after a yes delete what was named."""
        if not self._changes:
            return self._say("one at a time")
        if request.kind == "forget all":
            deleted = self._changes.forget()
            return self._say("deleted all", count=f"{len(deleted)}") if deleted else self._say("what")
        types = {"user": ("user", "feedback"), "all": ()}.get(request.about, (request.about,))
        rows = self._changes.offer(types)
        if not rows:
            return self._say("nothing")
        lines = [f"- {row.path}: {one_line(row.description, 120)}" for row in rows[:MAX_READ]]
        more = ["…"] if len(rows) > MAX_READ else []
        return "\n".join([self._say("offer", count=f"{len(rows)}"), *lines, *more, self._say("agree")])

    def _create(self, request: MemoryRequest) -> Reply:
        """Write a file with the smallest beginning; the first memory that names tabs or spaces says how to indent."""
        if "write" not in self._tools:
            return self._say("no files")
        lines, text, indent = [self._say("wrote", file=request.file)], "\n", "    "
        if request.file.endswith(".py"):
            for memory in (yield from self._find("indentation tabs spaces code style", min_share=0)):
                if style := re.search(_INDENTATION, memory.body):
                    indent = "\t" if style["tabs"] else indent
                    lines.append(self._say("followed", file=memory.file, what=one_line(memory.body, 200)))
                    break
            text = _STARTER.replace("{indent}", indent)
        yield from self._ask(_call("write", path=request.file, content=text))
        return "\n".join(lines)


def _call(tool: str, **arguments: object) -> Call:
    return tool, arguments


def _write(proposal: Proposal) -> Call:
    name, description, kind, content = proposal[:4]
    return _call("memory_write", name=name, description=description, type=kind, content=content)
