"""The offline talker: memory requests in plain words, answered without a model.

It stands where a model stands, and works on the memory of the chat. Only the user's own words make it do something:
the text of a memory is shown, and never obeyed. A new file is written by the tool that a model would call, so the
user is asked for permission.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from memsheaf.chat.memory import ChatMemory
from memsheaf.chat.offline.requests import (
    COURTESIES,
    FILE_NAME,
    MAX_REQUEST_CHARS,
    MemoryRequest,
    choose,
    correct_spelling,
    find_requests,
    find_telling_words,
    find_words,
    has_words,
    is_agreement,
    read_message,
    say,
)
from memsheaf.errors import MemsheafError, Ref
from memsheaf.frontmatter import split
from memsheaf.guard.secrets import find_secrets
from memsheaf.learn.corrections import corrects
from memsheaf.learn.extract import JudgedProposal
from memsheaf.learn.sentences import split_facts
from memsheaf.llm.model import Request, Said, Spoken, Step, ToolCall, Touched
from memsheaf.memory import KINDS, Memory
from memsheaf.open_scope import new_group
from memsheaf.recall.inject import text_for_model
from memsheaf.recall.turns import Message, Turn
from memsheaf.sheaf import forget_together
from memsheaf.text.neutralize import one_line, visible
from memsheaf.text.sentences import bullet_length, current_part, find_sentences, is_question, lacks_subject
from memsheaf.text.tokenizer import is_unspaced, words

MAX_SHOWN = 20  # memories in one answer
MAX_LISTED = 3  # memories among which the user is asked to choose
MAX_NEAREST = 2  # memories that are shown though they answer nothing
MAX_WORDS_OF_NOTHING = 2  # "really?", "ok then"
MIN_TELLING_WORDS = 2  # of a sentence that is more than a courtesy
MIN_WORDS_UNSTATED = 2  # that a request does not repeat: a memory that has them is shown before it goes
MIN_WORDS_UNNAMED = 4  # the same where a request only names its subject
MIN_SHARE = 0.5  # of the words of a subject: a memory that has as many may be meant

_CATALOG_HEAD = r"(?m)^# Memory\n\n(?:\(empty\)\n*)?"
_STARTER = 'def main() -> None:\n{indent}print("Hello")\n\n\nif __name__ == "__main__":\n{indent}main()\n'
_INDENTATION = (
    r"(?i)(?P<tabs>\btabs?\b|tabulat|制表符|タブ)|\b(?:spaces|leerzeichen|espaces|espacios)\b|空格|スペース"
)


class FoundMemory(NamedTuple):
    """A memory, and the share of the words of a subject that it has: 1 for all of them."""

    memory: Memory
    share: float


class Offline:
    """A talker without a model.

    `make_turn` makes the turn that is learned from out of what the user states. While `is_planning`, nothing is
    changed.
    """

    name = "offline"
    speaks_for_user = True

    def __init__(
        self,
        memory: ChatMemory,
        *,
        make_turn: Callable[[str], Turn] = lambda text: Turn("", (Message("user", text),)),
        is_planning: Callable[[], bool] = lambda: False,
    ) -> None:
        self.memory = memory
        self.make_turn = make_turn
        self.is_planning = is_planning
        self.language = "English"  # of the last request that was understood

    def talk(self, request: Request) -> Generator[Spoken | Step, None, None]:
        """Yield what comes next: an answer, or a call of the tool that writes a file."""
        conversation = request.conversation
        last = max((at for at, each in enumerate(conversation) if each.role == "user"), default=-1)
        message = conversation[last].text if last >= 0 else "help"
        reply = _Reply(self, message, conversation[: max(last, 0)])
        results = [each.text for each in conversation[last + 1 :] if each.role == "tool"]
        can_write = any(tool.get("name") == "write" for tool in request.tools)
        text = "\n".join(results) or reply.answer(can_write=can_write)
        if text:
            yield Spoken(text)
        yield Step(Said("assistant", text, calls=tuple(reply.calls), touched=tuple(reply.touched)))


class _Reply:
    """The reply to one message of the user; `before` is the conversation up to it."""

    def __init__(self, offline: Offline, message: str, before: Sequence[Said]) -> None:
        self._offline = offline
        self._memory = offline.memory
        self._sheaf = offline.memory.layers
        self._message = message
        self._before = before
        self._group = new_group()  # one undo takes back all that a message changes
        self._facts: list[str] = []  # that were stated in passing
        self.touched: list[Touched] = []
        self.calls: list[ToolCall] = []

    def answer(self, *, can_write: bool) -> str:
        """Do all that is asked for, one after the other, and return the answer."""
        text = self._message.replace("\r\n", "\n")
        if hidden := min(set(text) - set(visible(text)), default=""):
            why = f"the message holds an invisible character (U+{ord(hidden):04X}). Send it again without that."
            return self._say("failed", why=why)
        requests, rest = read_message(text)
        if chosen := self._choose():
            replies = [self._try(self._delete, chosen)]
            rest = ""
        elif requests[0].kind == "other":
            if meant := correct_spelling(text):
                self._memory.has_learned = True  # nothing is learned from it behind the turn
                return self._say("meant", what=one_line(meant, 200))
            return self._try(self._answer_from_memory, text)
        else:
            replies = []
            for request in requests:
                self._offline.language = request.language
                replies.append(self._try(self._reply_to, request, can_write))
        return self._join([*replies, self._try(self._learn, rest)])

    def _join(self, replies: Sequence[str]) -> str:
        """Return replies as one answer, which says once how to undo."""
        has_changed = any(each.action in ("saved", "deleted") for each in self.touched)
        hint = self._say("undo") if has_changed else ""
        return "\n".join(filter(None, dict.fromkeys([*replies, hint])))

    def _try(self, work: Callable[..., str], *arguments: object) -> str:
        try:
            return work(*arguments)
        except MemsheafError as error:
            return self._say("failed", why=one_line(str(error), 400))

    def _say(self, name: str, **values: str) -> str:
        return say(name, self._offline.language, **values)

    def _find_message_before(self) -> str:
        return next((each.text for each in reversed(self._before) if each.role == "user"), "")

    def _choose(self) -> list[Memory]:
        """Return those memories that the message chooses, of those that the user was asked about just before."""
        text = self._message.strip()
        memories = self._memory.asked_about
        if memories and find_requests(self._find_message_before())[0].deletes_all:
            return memories if is_agreement(text) else []
        named = [memory for memory in memories if self._label(memory) == text]
        return named or [memories[place] for place in choose(text, len(memories))]

    def _reply_to(self, request: MemoryRequest, can_write: bool) -> str:
        kind = request.kind
        if kind in ("help", "greeting"):
            return self._say("help")
        if kind in COURTESIES:
            return self._say(kind)
        if self._memory.session.ignoring:
            return self._say("ignored")
        if kind == "create":
            return self._create(request) if can_write else self._say("no files")
        if kind in ("list", "know", "search", "change"):
            return self._tell(request)
        if why := self._find_obstacle(kind):
            return why
        if kind == "undo":
            return self._memory.undo()
        if kind == "forget":
            return self._offer(self._select(request.about)) if request.about else self._forget(request)
        return self._save(request)

    def _find_obstacle(self, kind: str = "") -> str:
        """Return why a request of a kind cannot be done in this turn, an empty string if it can."""
        if self._sheaf.read_only:
            return self._say("read only")
        if self._offline.is_planning():
            return self._say("planning")
        session = self._memory.session
        if kind == "forget" or not session.refusal(is_reading=False):
            return ""
        return self._say("off record rest" if session.privacy == "rest" else "off record")

    # answers from memory

    def _label(self, memory: Memory) -> str:
        return self._sheaf.label(memory.ref)

    def _search(self, subject: str) -> list[FoundMemory]:
        """Return what a search finds, the newest first."""
        hits = self._sheaf.search(subject, limit=MAX_SHOWN) if subject.strip() else []
        found = [FoundMemory(hit.memory, _count_shared(hit.memory, subject)) for hit in hits]

        def times(each: FoundMemory) -> list[str]:  # the header has no more than the day
            return [*(commit.at for commit in self._sheaf.log(each.memory.ref, limit=1)), each.memory.updated]

        return sorted(found, key=times, reverse=True)

    def _find(self, subject: str, min_share: float = 0.01) -> list[FoundMemory]:
        """Return the memories that have all words of a subject; where there are none, those that have some."""
        found = [each for each in self._search(subject) if each.share >= min_share]
        return [each for each in found if each.share == 1] or found

    def _recall(self, text: str) -> list[FoundMemory]:
        return [FoundMemory(shown.memory, 1) for shown in self._sheaf.recall(text).memories]

    def _render(self, memory: Memory) -> str:
        """Return a memory for a person: its file, type and day, its text, and what is doubtful about it."""
        text = split(text_for_model(memory)).body.strip("\n").replace("\n", "\n  ")
        notes = [
            memory.problem,
            *self._sheaf.open_scope(memory.scope).caveats(memory),
            *self._memory.session.verdicts(memory),
        ]
        self._sheaf.open_scope(memory.scope).count_use([memory.path])
        line = f"- {self._label(memory)} ({memory.type or 'text'}, {memory.updated or 'undated'}): {text}"
        return "\n".join([line, *(f"  ({one_line(note, 300)})" for note in notes if note)])

    def _select(self, about: str) -> list[Memory]:
        """Return the memories that "me", "the project" or "everything" stands for."""
        kinds = {"user": ("user", "feedback"), "all": ()}.get(about, (about,))
        rows = [row for scope in self._sheaf.open_scopes(lasting=True) for row in scope.list()]
        wanted = [row for row in rows if row.state == "ok" and (not kinds or row.type in kinds)]
        if about == "user":  # neither rules of the project nor what other people like
            wanted = [
                row for row in wanted if "user" in (row.type, row.scope) and not has_words("others", row.description)
            ]
        return [self._sheaf.read(row.ref) for row in wanted]

    def _list(self, heading: str, found: Sequence[FoundMemory]) -> str:
        return "\n".join([heading, *(self._render(each.memory) for each in found[:MAX_SHOWN])])

    def _tell(self, request: MemoryRequest) -> str:
        """Show one file, the memories of a type or about a subject, or the catalog."""
        subject = request.subject
        if request.file:
            return self._render(self._sheaf.read(request.file))
        if request.about in KINDS:
            found = [FoundMemory(memory, 1) for memory in self._select(request.about)]
        elif subject and not request.about:
            found = self._find(subject)
        else:
            return re.sub(_CATALOG_HEAD, "", self._sheaf.catalog().text).strip() or self._say("nothing")
        heading = "known" if found else "unknown"
        if request.about == "user":
            heading += " you"
        elif found and request.kind == "change":
            heading = "change"
        return self._list(self._say(heading, subject=subject), found)

    def _answer_from_memory(self, text: str) -> str:
        """Answer a question with the memories that fit it; keep what is stated."""
        if self._memory.session.ignoring:
            return self._say("ignored")
        learned = self._learn(text)
        question = text[-MAX_REQUEST_CHARS:]
        why = self._find_obstacle()
        if not why and len(text.split()) <= MAX_WORDS_OF_NOTHING and not find_telling_words(text):
            return self._join([learned or self._say("unclear")])
        if is_question(question):
            return self._join([learned, self._answer_question(question)])
        if why:
            return why
        if find_secrets(text):
            return self._join([learned])
        if learned:
            return self._join([learned, *self._name_rest(text)])
        if corrected := self._find_corrected(text):
            return self._join([self._save_fact(text, (), corrected)])
        fitting = self._find(question, min_share=1) or self._recall(question)
        return self._join([self._list(self._say("recalled"), fitting) if fitting else "", self._say("no match")])

    def _answer_question(self, question: str) -> str:
        """Show what has most words of a question or is recalled for it; else what comes nearest, and say so."""
        if fitting := self._find(question, MIN_SHARE) or self._recall(question):
            return self._list(self._say("recalled"), fitting)
        if nearest := self._find(question)[:MAX_NEAREST]:
            return self._list(f"{self._say('no answer')} {self._say('nearest')}", nearest)
        return self._say("no answer")

    # changes

    def _learn(self, text: str) -> str:
        """Keep what a text states, and name each fact that is kept. Of a request, nothing else is learned."""
        if self._memory.session.ignoring or (text and self._find_obstacle()):
            return ""
        secrets = find_secrets(text)
        if secrets:  # the sentences beside it are learned
            sentences = (text[start:end] for start, end in find_sentences(text))
            text = " ".join(sentence for sentence in sentences if not find_secrets(sentence))
            text = "" if find_secrets(text) else text
        refused = self._say("secret", kind=secrets[0].kind) if secrets and not is_question(self._message) else ""
        verdicts = self._memory.learn_now(self._offline.make_turn(text))
        if verdicts is None and text and not is_question(text):
            return self._say("noted")
        self._facts = [verdict.proposal.content for verdict in verdicts or ()]
        return "\n".join(filter(None, [refused, *map(self._report_learned, verdicts or ())]))

    def _report_learned(self, verdict: JudgedProposal) -> str:
        proposal = verdict.proposal
        ref = verdict.ref or proposal.replaces
        what = proposal.content
        if verdict.outcome == "queued":
            self.touched.append(Touched("proposed", proposal.scope or self._sheaf.home, verdict.id))
            return self._say("queued", what=what)
        if ref is None:
            return self._say("unkept", what=what)
        if verdict.outcome == "dropped":
            return self._say("already", file=self._sheaf.label(ref), what=what)
        old = self._memory.learning.find_old_line(ref) if proposal.replaces else ""
        return self._report_saved(ref, current_part(what), old, proposal.supersedes)

    def _name_rest(self, text: str) -> list[str]:
        """Return what is to be said about sentences of a text that are in no fact which was learned from it."""
        facts = [find_telling_words(fact) for fact in self._facts]
        left = []
        for start, end in find_sentences(text):
            sentence = text[start:end]
            telling = find_telling_words(sentence)
            is_courtesy = len(telling) < MIN_TELLING_WORDS
            if not is_courtesy and not any(telling <= fact or fact <= telling for fact in facts):
                left.append(sentence[bullet_length(sentence) :])
        return [self._say("unkept", what=one_line("; ".join(left), 300))] if left else []

    def _save(self, request: MemoryRequest) -> str:
        """Save a text, each fact in it as a memory of its own, and name those that an update may be about."""
        text = request.fact
        file = request.file
        before = self._find_message_before() if request.kind == "remember" and not text else ""
        if before and find_requests(before)[0].kind == "other" and not is_question(before):
            text = before.strip()
        if not text:
            return self._say(f"what to {request.kind}")
        if secrets := find_secrets(self._message) or find_secrets(text):
            return self._say("secret", kind=secrets[0].kind)
        corrected = self._sheaf.read(file).ref if file else self._find_corrected(text)
        if corrected:
            return self._save_fact(text, (), corrected)
        if request.kind == "update" and lacks_subject(text):  # nobody knows later what it is about
            return self._say("what to update")
        named = request.subject if find_telling_words(request.subject) and not request.about else ""
        others = [each.memory.ref for each in self._find(named, MIN_SHARE)]
        facts = [fact for fact in split_facts(text) if find_telling_words(fact)]  # "No." is none
        replies = [self._try(self._save_fact, fact, others) for fact in facts or [text]]
        return "\n".join(replies)

    def _find_corrected(self, sentence: str) -> Ref | None:
        """Return the memory that a sentence without a subject corrects: one that the last answer saved or showed."""
        fitting = [memory.ref for memory in self._find_named() if corrects(sentence, memory)]
        return fitting[0] if len(fitting) == 1 else None

    def _find_named(self) -> list[Memory]:
        """Return the memories that the last answer saved, or those that it showed."""
        last = self._before[-1] if self._before else Said("assistant", "")
        names = [each.path for each in last.touched if each.action == "saved"] or re.findall(FILE_NAME, last.text)
        return [self._sheaf.read(row.ref) for row in self._sheaf.list() if self._sheaf.label(row.ref) in names]

    def _save_fact(self, fact: str, others: Sequence[Ref], corrected: Ref | None = None) -> str:
        _, memory, old, linked = self._sheaf.remember(fact, corrects=corrected, also=self._group)
        what = current_part(memory.body)
        if memory is old:
            return self._say("already", file=self._label(memory), what=what)
        rivals = dict.fromkeys([*(each.ref for each in linked), *others])
        was = current_part(old.body) if old else ""
        return self._report_saved(memory.ref, what, was, [] if old else list(rivals))

    def _report_saved(self, ref: Ref, what: str, old: str, rivals: Sequence[Ref]) -> str:
        """Return the line about a memory that was saved or changed, and those about memories that it may correct."""
        name = "updated" if old else "saved"
        reply = self._say(name, file=self._touch("saved", ref), what=what, old=one_line(old, 300))
        if not rivals:
            return reply
        return "\n".join([reply, self._name(self._say("beside"), [self._sheaf.read(each) for each in rivals])])

    def _touch(self, action: str, ref: Ref) -> str:
        """Note what was done to a memory, and return the name under which it is shown."""
        file = self._sheaf.label(ref)
        self.touched.append(Touched(action, ref.scope, file))
        return file

    def _name(self, heading: str, memories: Sequence[Memory]) -> str:
        lines = [f"- {self._label(memory)}: {one_line(memory.body, 160)}" for memory in memories[:MAX_SHOWN]]
        more = ["…"] if len(memories) > MAX_SHOWN else []
        return "\n".join([heading, *lines, *more])

    def _forget(self, request: MemoryRequest) -> str:
        """Delete the one memory that is meant, or the one saved just before; ask where it says more or is unsure."""
        if request.subject:
            found = self._find(request.subject, MIN_SHARE)
            if not found:
                return self._say("unknown", subject=request.subject)
        else:
            named = [self._sheaf.read(request.file)] if request.file else self._find_named()
            found = [FoundMemory(memory, 1) for memory in named]
            if not found:
                return self._say("what to forget")
        memories = [each.memory for each in found]
        if len(memories) > 1 or found[0].share < 1:
            self._memory.offered = memories[:MAX_LISTED]
            return self._name(self._say("which"), self._memory.offered)
        body = memories[0].body.strip()
        more = find_telling_words(body) - find_telling_words(request.subject)
        is_stated = request.subject.casefold() in body.casefold()
        least = MIN_WORDS_UNSTATED if is_stated else MIN_WORDS_UNNAMED
        if request.subject and (len(more) >= least or current_part(body) != body):
            return self._offer(memories)
        return self._delete(memories)

    def _offer(self, memories: list[Memory]) -> str:
        """Name what would be deleted, and how to agree to that."""
        self._memory.offered = memories
        if not memories:
            return self._say("nothing")
        heading = self._say("offer", count=f"{len(memories)}")
        return "\n".join([self._name(heading, memories), self._say("agree")])

    def _delete(self, memories: Sequence[Memory]) -> str:
        if why := self._find_obstacle("forget"):
            return why
        forget_together(self._sheaf, [(memory.ref, memory.version) for memory in memories], also=self._group)
        files = [self._touch("deleted", memory.ref) for memory in memories]
        if len(memories) > 1:
            return self._name(self._say("deleted all", count=f"{len(memories)}"), memories)
        return self._say("deleted", file=files[0], what=one_line(memories[0].body, 300))

    def _create(self, request: MemoryRequest) -> str:
        """Call the tool that writes a file, and say which memory tells how to indent it."""
        content = "\n"
        lines = [self._say("create", file=request.file)]
        if request.file.endswith(".py"):
            content = _STARTER.replace("{indent}", "    ")
            for memory, _ in self._find("indentation tabs spaces code style"):
                if style := re.search(_INDENTATION, memory.body):
                    content = _STARTER.replace("{indent}", "\t") if style["tabs"] else content
                    lines.append(self._say("followed", file=self._label(memory), what=one_line(memory.body, 200)))
                    break
        arguments = json.dumps({"path": request.file, "content": content}, ensure_ascii=False)
        self.calls.append(ToolCall(f"offline-{len(self._before)}-{len(self.calls)}", "write", arguments))
        return "\n".join(lines)


def _count_shared(memory: Memory, subject: str) -> float:
    """Return the share of a subject's words that a memory has: 1 for all of them.

    A subject without spaces is compared by pairs of characters, some of which reach over the end of a word: there a
    fifth may be missing.
    """
    telling = find_telling_words(subject) or find_words(subject) or set(words(subject))
    shared = len(telling.intersection(words(f"{memory.path}\n{memory.name}\n{memory.body}")))
    pairs = [word for word in telling if is_unspaced(word)]
    return min(1.0, (shared + len(pairs) // 5) / len(telling)) if shared else 0.0
