"""The chat without a model: six verbs (remember, forget, list, show, undo, help), and answers out of memory.

Only the user's own sentences do something, never the text of a memory or what is pasted or quoted. What is asked to
be remembered is read as everywhere (`learn/sentences.py`); the other verbs are the patterns of `offline.txt`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from memsheaf.chat.memory import ChatMemory
from memsheaf.chat.permissions import Permission
from memsheaf.chat.tools import FolderTools
from memsheaf.errors import MemsheafError, Ref
from memsheaf.frontmatter import split
from memsheaf.guard.pasted import read_own_words
from memsheaf.guard.secrets import find_secrets, without_secrets
from memsheaf.learn.corrections import corrects
from memsheaf.learn.extract import JudgedProposal
from memsheaf.learn.sentences import as_typed, find_asked, split_facts
from memsheaf.llm.model import Touched
from memsheaf.memory import Memory
from memsheaf.open_scope import new_group
from memsheaf.recall.inject import text_for_model
from memsheaf.recall.turns import Message, Turn
from memsheaf.sheaf import forget_together
from memsheaf.text.neutralize import one_line, visible
from memsheaf.text.requests import find_request
from memsheaf.text.sentences import current_part, find_sentences, is_question
from memsheaf.text.tokenizer import is_weak, words

MAX_SHOWN = 20  # memories in one answer
MAX_OFFERED = 3  # memories among which the user is asked to choose
MAX_REQUEST_CHARS = 400
MIN_SHARE = 0.5  # of the words of a subject: a memory that has as many may be meant
# Words that a memory says beyond what the user named; with more it is shown before it is deleted.
MAX_UNNAMED_WORDS = 3
MAX_UNNAMED_WORDS_BESIDE_STATED = 1  # where the user said it as the memory does

HELP = """Without a model I keep, find and forget memories. Say for example:
- Remember that I live in Berlin.
- What do you know about my preferences?
- Forget that I live in Berlin.
- List all memories.
- Undo that.
`memsheaf chat --model NAME` starts with a model."""
SHORT_ANSWERS = {"help": HELP, "hello": "Hello! “help” shows what I understand.", "fine": "All right."}
NOTHING_FOUND = "Nothing that is remembered answers that."
NOT_KEPT = "Not kept. “Remember that …” keeps it; “help” shows more."
NOTHING_YET = "Nothing is remembered yet."
NEEDS_SUBJECT = "Say in one message what it is about."

_FILE_NAME = r"(?:[a-z]+(?:/[a-z0-9-]+)?:)?(?:user|feedback|project|reference)_[\w.-]*\.md"
_FILE = rf"[`'\"“]?(?P<file>{_FILE_NAME})[`'\"”]?"
_WORDS = ("lead", "me", "yes", "all", "hollow")  # of `offline.txt`, which are no verbs
_STOPS = " \t\n.,!?¿¡。，！？;；~–—-…"
_STARTER = 'def main() -> None:\n{indent}print("Hello")\n\n\nif __name__ == "__main__":\n{indent}main()\n'


class Request(NamedTuple):
    """One thing that a sentence asks for; of its parts those that the sentence has."""

    verb: str
    start: int
    end: int
    subject: str = ""
    file: str = ""
    fact: str = ""
    path: str = ""
    all: str = ""
    fact_start: int = 0
    before: str = ""


class Offline:
    """Answers messages without a model. What it changes, the user asked for in so many words."""

    name = "offline"

    def __init__(
        self,
        memory: ChatMemory,
        permission: Permission,
        tools: FolderTools | None = None,
        *,
        make_turn: Callable[[str], Turn] = lambda text: Turn("", (Message("user", text),)),
    ) -> None:
        self._memory = memory
        self._sheaf = memory.layers
        self._permission = permission
        self._tools = tools
        self._make_turn = make_turn
        self._named: list[Ref] = []  # what the last answer saved or showed, which "that" means
        self._offered: list[Memory] = []  # to be deleted, if the next message says so
        self._message_before = ""
        self._privacy = ""
        self._group = ""
        self.touched: list[Touched] = []

    def answer(self, message: str) -> str:
        """Do what a message asks for, and return the answer. One undo takes back all that one message changed."""
        self._group = new_group()
        self.touched = []
        text = message.replace("\r\n", "\n")
        offered = self._offered
        self._offered = []
        privacy = self._privacy
        self._privacy = self._memory.session.privacy
        try:
            if hidden := min(set(text) - set(visible(text)), default=""):
                return f"The message holds an invisible character (U+{ord(hidden):04X}). Send it again without that."
            if self._memory.session.ignoring:
                return "Memory is left out of this turn, and without a model there is nothing else to answer with."
            if chosen := choose(text, [self._sheaf.label(memory.ref) for memory in offered]):
                return self._try(self._delete, [offered[place] for place in chosen])
            if privacy in ("rest", "asked") and not self._privacy:
                self._memory.has_learned = True
                return "What you say is kept again."
            if secrets := find_secrets(text):
                self._memory.has_learned = True  # a part of the text may not look like a secret any more
                return f"The text holds {secrets[0].kind}. Nothing of it was kept. Say where it is stored instead."
            if answers := self._answer_requests(text):
                self._memory.has_learned = True  # nothing else is learned from a request
                return "\n".join(dict.fromkeys(answers))
            return self._try(self._answer_statement, text)
        finally:
            self._message_before = "" if self._privacy or find_requests(text) else text

    def _answer_requests(self, text: str) -> list[str]:
        """Do what each sentence asks for; nothing for a statement."""
        requests = find_requests(text)
        rest = text
        for request in reversed(requests):
            rest = rest[: request.start] + rest[request.end :]
        if rest.strip(_STOPS):
            requests = [request for request in requests if request.verb not in ("hello", "fine")]
        answers = [self._try(self._do, request, text) for request in requests]
        is_stated = rest.strip(_STOPS) and not any(request.verb in ("keep", "that") for request in requests)
        if answers and is_stated and not self._find_obstacle():
            answers += filter(None, [self._try(self._learn, rest)])
        return answers

    def _try(self, work: Callable[..., str], *arguments: object) -> str:
        try:
            return without_secrets(work(*arguments))
        except MemsheafError as error:
            return without_secrets(f"That did not work: {one_line(str(error), 400)}")

    def _do(self, request: Request, message: str) -> str:
        verb = request.verb
        if verb in SHORT_ANSWERS:
            return SHORT_ANSWERS[verb]
        if verb == "list":
            text = re.sub(r"(?m)^# Memory\n\n(?:\(empty\)\n*)?|^## ", "", self._sheaf.catalog().text)
            return re.sub(r"\[(.+)\]\((.+?)\)", r"\1 (\2)", text).strip() or NOTHING_YET
        if verb == "show":
            return self._show(request)
        if verb == "create":
            return self._create(request.path)
        if why := self._find_obstacle(is_deleting=verb in ("forget", "that", "undo")):
            return why
        if verb == "undo":
            return self._memory.undo()
        if verb == "keep":
            fact = request.before or self._message_before.strip()
            return NOT_KEPT if not fact or is_question(fact) else self._remember(fact, message)
        if verb in ("remember", "update"):
            target = self._sheaf.read(request.file).ref if request.file else None
            return self._remember(request.fact, message, target) if request.fact else NOT_KEPT
        return self._forget(request)

    def _find_obstacle(self, *, is_deleting: bool = False) -> str:
        """Return why nothing can be changed in this turn, an empty string if it can."""
        if self._sheaf.read_only:
            return "Memory can only be read here; nothing was changed."
        if self._permission.planning:
            return "Plan mode: nothing is written, memory included."
        session = self._memory.session
        if is_deleting or not session.refusal(is_reading=False):
            return ""
        end = " “You can remember again” ends that." if session.privacy == "rest" else ""
        return f"Off the record: nothing of it is kept.{end}"

    # Remember

    def _remember(self, fact: str, message: str, corrected: Ref | None = None) -> str:
        if secrets := find_secrets(fact):
            return f"The text holds {secrets[0].kind}. That was not kept. Say where it is stored instead."
        fact = as_typed(fact.strip(), message)
        pieces = [fact] if corrected else [each for each in split_facts(fact) if find_telling_words(each)] or [fact]
        answers = []
        for piece in pieces:
            target = corrected or self._find_corrected(piece)
            _, memory, old, linked = self._sheaf.remember(piece, corrects=target, also=self._group)
            if memory is old:
                answers.append(f"That is remembered already, in {self._sheaf.label(memory.ref)}.")
                continue
            was = current_part(old.body) if old else ""
            answers.append(self._report_saved(memory.ref, current_part(memory.body), was, [] if old else linked))
        return "\n".join(answers)

    def _find_corrected(self, sentence: str) -> Ref | None:
        """Return the memory that a sentence without a subject corrects: one that was just saved or shown."""
        fitting = [ref for ref in self._named if corrects(sentence, self._sheaf.read(ref))]
        return fitting[0] if len(fitting) == 1 else None

    def _report_saved(self, ref: Ref, new: str, old: str, rivals: Sequence[Memory]) -> str:
        label = self._sheaf.label(ref)
        self.touched.append(Touched("saved", ref.scope, label))
        self._named = [each for each in self._named if each != ref] + [ref] if len(self.touched) > 1 else [ref]
        lines = [f"Updated {label}: “{one_line(old, 300)}” → “{new}”" if old else f"Saved {label}: {new}"]
        if rivals:
            lines.append(self._name("It may correct:", rivals))
        return "\n".join(lines)

    def _answer_statement(self, text: str) -> str:
        """Answer a question out of memory; keep what is stated, if it is worth it."""
        question = text[-MAX_REQUEST_CHARS:]
        if is_question(question):
            learned = "" if self._find_obstacle() else self._learn(text)
            fitting = self._find_fitting(question)
            return "\n".join(filter(None, [learned, self._render_all(fitting) if fitting else NOTHING_FOUND]))
        if why := self._find_obstacle():
            return why
        if target := self._find_corrected(text):
            return self._remember(text, text, target)
        if learned := self._learn(text):
            return learned
        fitting = self._find_fitting(question)
        return self._render_all(fitting) if fitting else NOT_KEPT

    def _learn(self, text: str) -> str:
        """Keep what a text states, and name each fact that is kept."""
        verdicts = self._memory.learn_now(self._make_turn(text))
        if verdicts is None and text and not is_question(text):
            return "Noted; it is kept after this turn if it is worth keeping."
        return "\n".join(map(self._report_learned, verdicts or ()))

    def _report_learned(self, verdict: JudgedProposal) -> str:
        proposal = verdict.proposal
        ref = verdict.ref or proposal.replaces
        if verdict.outcome == "queued":
            return f"Not saved yet; `/review` shows it: {proposal.content}"
        if ref is None:
            return f"Not kept ({one_line(verdict.why, 200)}): {proposal.content}"
        if verdict.outcome == "dropped":
            return f"That is remembered already, in {self._sheaf.label(ref)}."
        old = self._memory.learning.find_old_line(ref) if proposal.replaces else ""
        rivals = [self._sheaf.read(each) for each in proposal.supersedes]
        return self._report_saved(ref, current_part(proposal.content), old, rivals)

    # Show

    def _show(self, request: Request) -> str:
        if request.file:
            return self._render_all([self._sheaf.read(request.file)])
        subject = request.subject.strip(_STOPS)
        found = [memory for memory, _ in self._find(subject)]
        if _is_word("me", subject):
            found = self._select_personal()
        about = "you" if _is_word("me", subject) else f"“{one_line(subject, 100)}”"
        return self._render_all(found) if found else f"Nothing is remembered about {about}."

    def _find_fitting(self, text: str) -> list[Memory]:
        """Return the memories that have most words of a text, else those that are recalled for it."""
        found = [memory for memory, share in self._find(text) if share >= MIN_SHARE]
        return found or [each.memory for each in self._sheaf.recall(text).memories]

    def _find(self, subject: str) -> list[tuple[Memory, float]]:
        """Return the memories that have all words of a subject, else those that have some; the newest first."""
        hits = self._sheaf.search(subject, limit=MAX_SHOWN) if subject.strip() else []
        found = [(hit.memory, _count_shared(hit.memory, subject)) for hit in hits]
        found = [pair for pair in found if pair[1]]

        def changed_at(pair: tuple[Memory, float]) -> list[str]:  # the header has no more than the day
            return [*(commit.at for commit in self._sheaf.log(pair[0].ref, limit=1)), pair[0].updated]

        found.sort(key=changed_at, reverse=True)
        return [pair for pair in found if pair[1] == 1] or found

    def _select_personal(self) -> list[Memory]:
        """Return what is remembered about the user."""
        rows = [row for scope in self._sheaf.open_scopes(lasting=True) for row in scope.list()]
        personal = [row for row in rows if row.state == "ok" and "user" in (row.type, row.scope)]
        return [self._sheaf.read(row.ref) for row in personal]

    def _render_all(self, memories: Sequence[Memory]) -> str:
        self._named = [memory.ref for memory in memories]
        return "\n".join(map(self._render, memories[:MAX_SHOWN]))

    def _render(self, memory: Memory) -> str:
        """Return a memory for a person: its file and day, its text, and what is doubtful about it."""
        text = re.sub(r"\n+", "\n  ", split(text_for_model(memory)).body.strip("\n"))
        scope = self._sheaf.open_scope(memory.scope)
        notes = [memory.problem, *scope.caveats(memory), *self._memory.session.verdicts(memory)]
        scope.count_use([memory.path])
        line = f"- {text} ({self._sheaf.label(memory.ref)}, {memory.updated or 'undated'})"
        return "\n".join([line, *(f"  ({one_line(note, 300)})" for note in notes if note)])

    def _name(self, heading: str, memories: Sequence[Memory]) -> str:
        lines = [f"- {self._sheaf.label(memory.ref)}: {one_line(memory.body, 160)}" for memory in memories]
        more = ["…"] if len(lines) > MAX_SHOWN else []
        return "\n".join([heading, *lines[:MAX_SHOWN], *more])

    # Forget

    def _forget(self, request: Request) -> str:
        """Delete the one memory that is meant; show what may be meant where that says more or is unsure."""
        subject = request.subject.strip(_STOPS)
        if request.all:
            rows = [row for scope in self._sheaf.open_scopes(lasting=True) for row in scope.list()]
            return self._offer([self._sheaf.read(row.ref) for row in rows if row.state == "ok"])
        if _is_word("me", subject):
            return self._offer(self._select_personal())
        if request.verb == "that" and find_telling_words(request.before):
            subject = request.before.strip(_STOPS)[-MAX_REQUEST_CHARS:]
        if request.file:
            return self._delete([self._sheaf.read(request.file)])
        if not subject:
            memories = [self._sheaf.read(ref) for ref in self._named]
            return self._delete(memories) if len(memories) == 1 else self._offer(memories, NEEDS_SUBJECT)
        found = [(memory, share) for memory, share in self._find(subject) if share >= MIN_SHARE]
        if not found:
            return f"Nothing is remembered about “{one_line(subject, 100)}”."
        memory, share = found[0]
        unnamed = find_telling_words(memory.body) - find_telling_words(subject)
        is_stated = subject.casefold() in memory.body.casefold()
        max_unnamed = MAX_UNNAMED_WORDS_BESIDE_STATED if is_stated else MAX_UNNAMED_WORDS
        is_whole = current_part(memory.body) == memory.body.strip()
        if len(found) == 1 and share == 1 and is_whole and len(unnamed) <= max_unnamed:
            return self._delete([memory])
        return self._offer([memory for memory, _ in found[:MAX_OFFERED]])

    def _offer(self, memories: list[Memory], otherwise: str = NOTHING_YET) -> str:
        """Name what would be deleted, and how to agree to that."""
        if not memories:
            return otherwise
        self._offered = memories
        agree = "“yes” deletes it." if len(memories) == 1 else "“all”, a number or a file deletes."
        return f"{self._name('Nothing is deleted yet:', memories)}\n{agree}"

    def _delete(self, memories: Sequence[Memory]) -> str:
        if why := self._find_obstacle(is_deleting=True):
            return why
        forget_together(self._sheaf, [(memory.ref, memory.version) for memory in memories], also=self._group)
        labels = [self._sheaf.label(memory.ref) for memory in memories]
        self.touched += [
            Touched("deleted", each.ref.scope, label) for each, label in zip(memories, labels, strict=True)
        ]
        self._named = []
        if len(memories) > 1:
            return self._name(f"Deleted {len(memories)} memories:", memories)
        return f"Deleted {labels[0]}: {one_line(memories[0].body, 300)}"

    # Files

    def _create(self, path: str) -> str:
        """Write the beginning of a file, indented as a memory says."""
        if self._tools is None:
            return "I cannot write files here."
        lines = []
        indent = "    "
        found = [memory for memory, _ in self._find("indentation tabs spaces")]
        for memory in found[:1] if path.endswith(".py") else ():
            if re.search(r"(?i)\btabs?\b", memory.body):
                indent = "\t"
            lines.append(f"It follows {self._sheaf.label(memory.ref)}: {one_line(memory.body, 200)}")
        content = _STARTER.replace("{indent}", indent) if path.endswith(".py") else "\n"
        answer = self._tools.answer("write", {"path": path, "content": content})
        return "\n".join([answer.text, *lines])


def find_requests(text: str) -> list[Request]:
    """Return what the user's own sentences ask for.

    >>> [(each.verb, each.subject) for each in find_requests("I moved. Forget that I live in Berlin.")]
    [('forget', 'I live in Berlin')]
    >>> [each.fact for each in find_requests("Please remember: I use vim. Only at home, though.")]
    ['I use vim. Only at home, though.']
    """
    own = read_own_words(text)
    shown = own.spoken
    for quoted in re.finditer(rf"[`'\"“]{_FILE_NAME}[`'\"”]", own.text):
        shown = shown[: quoted.start()] + quoted[0] + shown[quoted.end() :]
    requests: list[Request] = []
    is_dictated = False  # what stands behind "Remember: …" belongs to it
    for start, end in find_sentences(shown):
        request = None
        if not own.doubt(start, asked=True):
            request = _match(own.text, shown, start, end) or _find_fact(own.text, shown, start, end)
        if request:
            is_dictated = request.verb == "remember" and own.text[request.end : end].strip(_STOPS) == ""
            requests.append(request._replace(end=end, before=own.text[: request.start].strip()))
        elif is_dictated and start < own.sign and not is_question(shown[start:end]):
            requests[-1] = requests[-1]._replace(fact=own.text[requests[-1].fact_start : end], end=end)
        else:
            is_dictated = False
    return requests


def _match(text: str, shown: str, start: int, end: int) -> Request | None:
    """Return the request that all of a sentence is, perhaps behind words that lead up to one."""
    first = start + len(shown[start:end]) - len(shown[start:end].lstrip(_STOPS))
    last = start + len(shown[start:end].rstrip(_STOPS))
    patterns = _read_patterns()
    lead = re.compile(rf"(?:{patterns['lead'][0]}){{0,4}}", re.IGNORECASE).match(shown, first, last)
    is_polite = bool(lead and lead.end() > first)
    for verb, forms in patterns.items():
        is_change = verb in ("forget", "that", "undo", "update")
        if verb in _WORDS or (is_change and is_question(shown[first:end]) and not is_polite):
            continue
        for form in forms:
            pattern = re.compile(form.replace("FILE", _FILE), re.IGNORECASE | re.DOTALL)
            for place in (first, lead.end() if lead else first):
                if match := pattern.fullmatch(shown, place, last):
                    parts: dict[str, Any] = {name: part or "" for name, part in match.groupdict().items()}
                    if "fact" in parts:
                        parts["fact"] = text[match.start("fact") : end]
                    return Request(verb, first, end, **parts)
    return None


def _find_fact(text: str, shown: str, start: int, end: int) -> Request | None:
    """Return the fact that a sentence asks to remember, or that it points at one."""
    asked = find_asked(text[start:end], "", shown[start:end])
    if asked is None or (asked.points_back and not find_request(shown[start:end])):
        return None
    if asked.points_back and shown[start:end].rstrip().endswith((":", "：")):  # what follows is meant
        return Request("remember", start, end, fact_start=end + len(text[end:]) - len(text[end:].lstrip()))
    if asked.points_back:
        return Request("keep", start, end)
    first = start + asked.start
    return Request("remember", start, start + asked.end, fact=text[first : start + asked.end], fact_start=first)


@cache
def _read_patterns() -> dict[str, list[str]]:
    patterns: dict[str, list[str]] = {}
    text = files(__package__).joinpath("offline.txt").read_text(encoding="utf-8")
    for verb, pattern in re.findall(r"(?m)^(\w+) = (.+)", text):
        patterns.setdefault(verb, []).append(pattern)
    return patterns


def _is_word(name: str, text: str) -> bool:
    return bool(re.fullmatch(_read_patterns()[name][0], text.strip(_STOPS), re.IGNORECASE))


def choose(text: str, labels: Sequence[str]) -> list[int]:
    """Return which of the listed memories a message chooses, as places in the list; none if it is no choice.

    >>> choose("yes", ["a.md"]), choose("all", ["a.md", "b.md"]), choose("2", ["a.md", "b.md"])
    ([0], [0, 1], [1])
    """
    text = text.strip(_STOPS)
    if text in labels:
        return [labels.index(text)]
    numbers = [int(number) - 1 for number in re.findall(r"\d+", text)]
    if numbers and re.fullmatch(r"[\d\s,#]+(?:and\s*\d+)?", text):
        return [number for number in numbers if 0 <= number < len(labels)]
    is_all = _is_word("all", text) or (len(labels) == 1 and _is_word("yes", text))
    return list(range(len(labels))) if is_all else []


def find_telling_words(text: str) -> set[str]:
    """Return the words that say what a text is about.

    >>> sorted(find_telling_words("the auth service decision is outdated"))
    ['auth', 'servic']
    """
    bare = re.sub(_read_patterns()["hollow"][0], " ", text, flags=re.IGNORECASE)
    return {word for word in words(bare) if not is_weak(word)}


def _count_shared(memory: Memory, subject: str) -> float:
    """Return the share of a subject's words that a memory has: 1 for all of them."""
    telling = find_telling_words(subject) or set(words(subject))
    shared = telling.intersection(words(f"{memory.path}\n{memory.name}\n{memory.body}"))
    return len(shared) / len(telling) if telling else 0.0
