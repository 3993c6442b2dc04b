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

from memsheaf.chat.offline.memories import (
    CALL_PREFIX,
    NOT_RUN,
    MemoryChanges,
    ShownMemory,
    find_files,
    find_seen_files,
    read_shown,
    share_words,
    split_turns,
    touched_file,
)
from memsheaf.chat.offline.requests import (
    MAX_REQUEST_CHARS,
    SENTENCE_END,
    MemoryRequest,
    correct_spelling,
    find_requests,
    has_words,
    is_agreement,
    say,
    split_facts,
)
from memsheaf.errors import MemsheafError, Refused
from memsheaf.guard.paths import file_name
from memsheaf.guard.secrets import find_secrets
from memsheaf.learn.rules import draft_fact
from memsheaf.llm.model import Request, Said, Spoken, Step, ToolCall
from memsheaf.memory import KINDS
from memsheaf.recall.ignore import asks_to_ignore
from memsheaf.recall.turns import Proposal
from memsheaf.text.classifier import replaces
from memsheaf.text.neutralize import one_line, visible

MAX_READ = 20  # memories for one answer
MAX_LISTED = 3  # memories that a question names
MAX_PREVIEWED = 20  # memories that are named before all are deleted
MIN_REPLACING, MIN_RIVAL = 0.5, 0.25  # probabilities that a sentence replaces a memory

_FOR_MODELS = r" (?:If this corrects it, change|memory_list shows|Read it with memory_read|Try other words)[^\n]*"
_CATALOG_HEAD = r"(?m)^# Memory\n\n(?:\(empty\)\n*)?"
_STARTER = 'def main() -> None:\n{indent}print("Hello")\n\n\nif __name__ == "__main__":\n{indent}main()\n'

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
        turns = split_turns(request.conversation)
        replying = _Replying(request, self._today(), self._changes).reply()
        try:
            calls = next(replying)
            for answers in turns[-1].rounds:
                missing = [NOT_RUN] * (len(calls) - len(answers))
                calls = replying.send([*answers, *missing][: len(calls)])
        except StopIteration as ended:
            yield Spoken(ended.value)
            yield Step(Said("assistant", ended.value))
            return
        tool_calls = []
        for number, (tool, arguments) in enumerate(calls):
            place = f"{number} {len(request.conversation)} {turns[-1].text}".encode("utf-8", "replace")
            id = CALL_PREFIX + sha256(place).hexdigest()[:16]
            tool_calls.append(ToolCall(id, tool, json.dumps(arguments, ensure_ascii=False)))
        yield Step(Said("assistant", "", calls=tuple(tool_calls)))


class _Replying:
    """Finds the reply to the last turn of a conversation."""

    def __init__(self, request: Request, today: date, changes: MemoryChanges | None) -> None:
        self._turns = split_turns(request.conversation)
        self._today = today
        self._changes = changes
        self._language = "English"
        last = max((at for at, each in enumerate(request.conversation) if each.role == "user"), default=0)
        self._seen = find_seen_files(request.conversation[:last])
        is_ignoring = bool(self._turns) and asks_to_ignore(self._turns[-1].text)
        names = {str(tool.get("name", "")) for tool in request.tools}
        self._tools = {name for name in names if not (is_ignoring and name.startswith("memory_"))}

    def reply(self) -> Reply:
        """Do all that is asked for, one after the other, and return the answer."""
        if not self._turns:
            return self._say("help")
        requests = find_requests(self._turns[-1].text)
        asked = find_requests(self._turns[-2].text)[0] if len(self._turns) > 1 else requests[0]
        if asked.deletes_all and is_agreement(self._turns[-1].text):
            requests = [asked._replace(kind="forget all")]
        elif requests[0].kind in ("state", "other") and (meant := correct_spelling(self._turns[-1].text)):
            return self._say("meant", what=one_line(meant, 200))
        replies = []
        for request in requests:
            self._language = request.language
            try:
                reply = yield from self._reply_to(request, is_alone=len(requests) == 1)
            except MemsheafError as error:
                why = re.sub(_FOR_MODELS, "", str(error).removeprefix("Error:").strip().partition("\n\n")[0])
                reply = self._say("failed", why=one_line(why, 400))
            replies.append(reply)
        return "\n\n".join(dict.fromkeys(replies))

    def _reply_to(self, request: MemoryRequest, *, is_alone: bool) -> Reply:
        kind = request.kind
        if kind == "thanks":
            return self._say("thanks")
        if kind in ("help", "greeting"):
            return f"{self._say('help')}\n{self._say('model')}"
        if kind == "create":
            return (yield from self._create(request))
        if not any(tool.startswith("memory_") for tool in self._tools):
            return self._say("ignored")
        if kind == "undo":
            return self._changes.undo() if self._changes and is_alone else self._say("no undo")
        if kind in ("remember", "update", "forget", "forget all", "state") and "memory_write" not in self._tools:
            return self._say("reading")
        if kind == "state":
            return self._say("noted")
        if kind == "forget all" or request.deletes_all:
            return self._forget_all(request)
        handlers = {
            "remember": self._remember,
            "update": self._update,
            "forget": self._forget,
            "know": self._tell,
            "search": self._tell,
            "list": self._list,
            "index": self._list,
        }
        return (yield from handlers.get(kind, self._recall)(request))

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
            return (yield from self._list(MemoryRequest("index")))
        subject = self._say("you") if request.about == "user" else f"“{request.subject}”"
        heading = self._say("known" if memories else "unknown", subject=subject)
        return "\n".join([heading, *(each.render() for each in memories)])

    def _list(self, request: MemoryRequest) -> Reply:
        """Show the files, the catalog, or both."""
        parts = []
        if request.kind == "list":
            (answer,) = yield from self._ask(_call("memory_list"))
            parts = [answer.text] if find_files(answer.text) else []
        if request.kind == "index" or request.about:
            (answer,) = yield from self._ask(_call("memory_view"))
            parts.append(re.sub(_CATALOG_HEAD, "", answer.text).strip())
        return "\n\n".join(filter(None, parts)) or self._say("nothing")

    def _recall(self, request: MemoryRequest) -> Reply:
        """Show the memories that may answer; there is no more to say without a model."""
        memories = yield from self._read(self._turns[-1].recalled if self._tools & {"memory_read"} else [])
        if not memories:
            memories = yield from self._find(request.subject[:MAX_REQUEST_CHARS])
        if memories:
            return "\n".join([self._say("recalled"), *(each.render() for each in memories)])
        return f"{self._say('no match')}\n{self._say('model')}"

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
        shares = [(each, share_words(subject, each.words)) for each in memories]
        return [each for each, share in shares if share == 1] or [
            each for each, share in shares if share >= min_share
        ]

    # changes

    def _remember(self, request: MemoryRequest) -> Reply:
        """Save what the user asks for, or what was said just before, each fact as a memory of its own."""
        fact = request.fact
        if not fact and len(self._turns) > 1 and find_requests(self._turns[-2].text)[0].kind == "state":
            fact = self._turns[-2].text.strip()
        return (yield from self._save_all(fact))

    def _save_all(self, fact: str) -> Reply:
        if not fact:
            return self._say("what")
        self._refuse_secrets(fact)
        lines = []
        for proposal in split_facts(fact, self._today):
            lines.append((yield from self._save(proposal)))
        return "\n".join(lines)

    def _refuse_secrets(self, fact: str) -> None:
        """Raise Refused for invisible characters, and for a secret in the message or the fact."""
        if hidden := next((letter for letter in fact if not visible(letter)), ""):
            raise Refused(f"it holds an invisible character (U+{ord(hidden):04X}). Send it again without that.")
        if secrets := find_secrets(self._turns[-1].text) or find_secrets(fact):
            raise Refused(f"the text holds {secrets[0].kind}; nothing was stored. Remember only where it is kept.")

    def _save(self, proposal: Proposal) -> Reply:
        """Save a new memory. An existing one of that name stays: the new one gets a longer name."""
        content = proposal.content
        longer = one_line(content, 80).rstrip(".")
        for name in (proposal.name, longer, f"{longer} 2", f"{longer} 3"):
            call = _write(proposal._replace(name=name))
            # a file that this conversation has seen would be replaced, so it is read instead
            known = self._seen.get(file_name(proposal.kind, name, lambda path: False), "")
            (answer,) = yield [_call("memory_read", filename=known) if known else call]
            file = known or touched_file(answer, "exists")
            if not file:
                break
            text = answer.text if known else answer.text.partition("\n\n")[2]
            if read_shown(file, text).body == content:
                return self._say("already", file=file, what=content)
        if same := touched_file(answer, "same"):
            return self._say("already", file=same, what=content)
        return self._report("saved", answer, what=content)

    def _report(self, name: str, answer: Said, **values: str) -> str:
        """Return the line about a change, and how to undo it. Raises Refused if nothing was changed."""
        file = touched_file(answer, "saved") or touched_file(answer, "deleted")
        if not file:
            raise Refused(answer.text)
        return f"{self._say(name, file=file, **values)}\n{self._say('undo')}"

    def _update(self, request: MemoryRequest) -> Reply:
        """Replace the one memory that is surely meant; in doubt save the fact, and name those it may correct.

        Surely meant is a memory of one sentence that the fact replaces, where it may replace no other.
        """
        fact = request.fact
        if request.file and fact:
            self._refuse_secrets(fact)
            return (yield from self._replace((yield from self._read([request.file]))[0], fact))
        named = "" if request.about else request.subject
        memories = yield from self._find(named or fact)
        chances = [(replaces(each.body, fact), each) for each in memories]
        rivals = [each for chance, each in chances if chance >= MIN_RIVAL]
        is_sure = len(rivals) == 1 and max(chances)[0] >= MIN_REPLACING and not has_words("also", fact)
        if is_sure and len(re.split(SENTENCE_END, rivals[0].body)) == 1 and len(split_facts(fact, self._today)) == 1:
            self._refuse_secrets(fact)
            return (yield from self._replace(rivals[0], fact))
        saved = yield from self._save_all(fact)
        others = rivals or (memories if named else [])
        return "\n".join([saved, self._name_memories("beside", others)]) if others else saved

    def _replace(self, old: ShownMemory, fact: str) -> Reply:
        proposal = draft_fact(fact, self._today, old.type if old.type in KINDS else "")
        tool, arguments = _write(proposal)
        (answer,) = yield [(tool, {**arguments, "filename": old.file})]
        return self._report("updated", answer, old=one_line(old.body, 300), what=proposal.content)

    def _forget(self, request: MemoryRequest) -> Reply:
        """Delete the one memory that is meant; where that is not sure, ask."""
        file, body = request.file, "…"
        if not file and not request.subject:
            saved = self._turns[-2].saved if len(self._turns) > 1 else []
            if len(saved) != 1:
                return self._say("what")
            file = saved[0]
        elif not file:
            memories = yield from self._find(request.subject)
            if not memories:
                return self._say("unknown", subject=f"“{request.subject}”")
            file, body = memories[0].file, memories[0].body
            if len(memories) > 1 or share_words(request.subject, memories[0].words) < 1:
                return self._name_memories("which", memories)
        (answer,) = yield from self._ask(_call("memory_delete", filename=file))
        return self._report("deleted", answer, what=one_line(body, 300))

    def _name_memories(self, heading: str, memories: Sequence[ShownMemory]) -> str:
        lines = [f"- {each.file}: {one_line(each.body, 160)}" for each in memories[:MAX_LISTED]]
        return "\n".join([self._say(heading), *lines])

    def _forget_all(self, request: MemoryRequest) -> str:
        """Name what would be deleted and how to agree to that; after a yes delete what was named."""
        if not self._changes:
            return self._say("one at a time")
        if request.kind == "forget all":
            deleted = self._changes.forget()
            counts = ", ".join(f"{scope} ({len(rows)})" for scope, rows in deleted.items())
            return f"{self._say('deleted all', what=counts)}\n{self._say('undo')}" if deleted else self._say("what")
        types = {"user": ("user", "feedback"), "all": ()}.get(request.about, (request.about,))
        rows = [row for rows in self._changes.offer(types).values() for row in rows]
        lines = [f"- {row.path}: {one_line(row.description, 120)}" for row in rows[:MAX_PREVIEWED]]
        if len(rows) > MAX_PREVIEWED:
            lines.append(self._say("more", count=f"{len(rows) - MAX_PREVIEWED}"))
        if not rows:
            return self._say("nothing")
        return "\n".join([self._say("offer", count=f"{len(rows)}"), *lines, self._say("agree")])

    def _create(self, request: MemoryRequest) -> Reply:
        """Write a file with the smallest beginning, indented as a memory says."""
        if "write" not in self._tools:
            return f"{self._say('no files')}\n{self._say('model')}"
        memories = yield from self._find("indentation tabs spaces code style", min_share=0)
        followed = [each for each in memories if each.indentation and request.file.endswith(".py")][:1]
        indent = followed[0].indentation if followed else "    "
        text = _STARTER.replace("{indent}", indent) if request.file.endswith(".py") else "\n"
        yield from self._ask(_call("write", path=request.file, content=text))
        lines = [self._say("followed", file=each.file, what=one_line(each.body, 200)) for each in followed]
        return "\n".join([self._say("wrote", file=request.file), *lines])


def _call(tool: str, **arguments: object) -> Call:
    return tool, arguments


def _write(proposal: Proposal) -> Call:
    name, description, kind, content = proposal[:4]
    return _call("memory_write", name=name, description=description, type=kind, content=content)
