"""Facts in the user's own sentences, found without a model.

A message is split at the ends of its sentences. A sentence that leans on the one before it ("It runs at night.")
stays with it; together they are a passage. A passage is kept if the user asks for that, in words that
`text/requests.py` knows or that the judge takes for a request, or if the judge finds one of its sentences worth
keeping. Questions, pasted text and quotations are left out, and so is
what holds for the moment only. What is kept stands as it was typed, with days in brackets behind relative dates.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from datetime import date
from typing import NamedTuple

from memsheaf.encode.judge import FIRST_PERSON, MAX_CONTEXT_CHARS, judge_sentence
from memsheaf.guard.pasted import OTHERS_MARK, OwnWords, read_own_words
from memsheaf.recall.turns import Message, Proposal, Turn
from memsheaf.text import tokenizer
from memsheaf.text.dates import absolute
from memsheaf.text.requests import (
    SaveRequest,
    announces_list,
    asks_not_to_store,
    asks_to_forget,
    find_request,
    may_be_request,
)
from memsheaf.text.sentences import (
    LIST_OF_WORDS,
    bullet_length,
    find_sentences,
    is_question,
    lacks_subject,
    leans_back,
    make_description,
    make_name,
    without_opening,
)
from memsheaf.text.similarity import words
from memsheaf.text.spoken import SHOWN, spoken, without_quotations

MIN_WORTH = 0.88  # probability from which a sentence is kept that nobody asked to keep
MIN_WORTH_IN_LONG_MESSAGE = 0.93  # a long message may be pasted
MIN_WORTH_OF_CORRECTION = 0.3  # kept only if it corrects a memory
MIN_WORTH_ALONE = 0.2  # from which a sentence that somebody asked to keep is a fact of its own
MIN_ASKED = 0.84  # probability from which a sentence asks to remember something, although no pattern fits
MIN_POINTING = 0.75  # that it points at another sentence, which is to be remembered
MAX_LEAD_CHARS = 100  # of a request in front of its fact
MIN_PERSONAL_GAP = 0.9  # between two clauses, one of them about the person and one about the work
MIN_WORDS_ALONE = 4  # fewer words lean on the sentence before, unless they speak of the user
SHORT_MESSAGE_CHARS = 300
MAX_SENTENCE_CHARS = 400  # of a sentence that nobody asked to keep; a longer one was pasted
MIN_WRAPPED_CHARS = 50  # of a line that goes on in the next one
MIN_FACT_BYTES = 6
MIN_TELLING_WORDS = 3  # of a sentence that leans on nothing that was kept

ASKED_FOR = "the user said so"
STATED = "the user's own words"
CORRECTION = "the user corrects it"  # the `why` of a proposal that only makes sense with the memory it corrects

_LEAD_END = r"[:,–—…]\s+|[：，、]|\s-\s+|\b(?:that|dass|daß|que|che|что|że)\s+"
_ONE_FACT = r"(?m)^[ \t]*(?:```|~~~|>|\d{1,2}[.)]\s|[|+]|    \S)|[:：]\s*\n"
_POLITE_ORDER = (
    r"(?i)\W*(?:(?:please|and|also)\s+)*(?:can|could|would|will) you (?:please )?"
    r"(?=(?:always|never|stop|from now on)\b)"
)
_NEGATION = (  # "no need to remember that" asks for nothing; "don't forget that" is among the patterns
    r"(?i)\b(?:no|not|never|nothing|without|don['’]?t|needn['’]?t|nicht|kein\w*|nie|pas|jamais|ne|nunca|não|non)\b"
    r"|[不别没]|ない|なくて"
)
_OF_USER = r"(?i)(?:i|i'm|my|we|our)\b"
_SCOPE_JOINT = (  # where a clause may end and one with another scope begin
    r";\s+|；|,\s+(?=(?:and|but|und|aber|et|mais|y|pero) (?:in|for|für|dans|pour|en|para)"
    r" (?:this|all|every|any|dies\w*|alle\w*|jede\w*|ce|cette|tous|toutes|est[ea]|tod[ao]s)\b)"
)


class Sentence(NamedTuple):
    """A sentence of the user, and the same with quotations masked; `start` is its place in the message."""

    text: str
    spoken: str
    start: int
    is_item: bool = False

    @property
    def end(self) -> int:
        """Return the place behind it in the message."""
        return self.start + len(self.text)


class Passage(NamedTuple):
    """A sentence with those that lean on it, from `start` to `end` of the message; `asked` if it is to be kept."""

    start: int
    end: int
    sentences: tuple[Sentence, ...]
    asked: bool = False


def find_stated_facts(
    turn: Turn, today: date, *, corrections: bool = False, before: Sequence[Message] = ()
) -> list[Proposal]:
    """Return what the user asks to keep or states in a turn, each fact once.

    With `corrections`, also what is hardly worth keeping by itself: it may correct a memory. `before` are the
    messages of the turn before this one, to which "remember that" may point.

    >>> from memsheaf.recall.turns import Message
    >>> turn = Turn("c", (Message("user", "Please always answer in English. Thanks!"),))
    >>> [(each.kind, each.content) for each in find_stated_facts(turn, date(2026, 11, 15))]
    [('feedback', 'Please always answer in English.')]
    """
    facts: dict[str, Proposal] = {}
    said = {message.role: message.text for message in before}
    for message in turn.messages:
        earlier = said.get("user", "")
        answered = said.get("assistant", "")
        said[message.role] = message.text
        if message.role != "user" or asks_not_to_store(message.text):
            continue
        request = find_asked(message.text.strip())  # perhaps the message is nothing but "remember that"
        points_back = request and request.points_back and not message.text.rstrip().endswith((":", "："))
        is_about_earlier = bool(points_back) and not asks_not_to_store(earlier)
        text = earlier if is_about_earlier else message.text
        for fact in _read_message(text, today, corrections, answered, asked=is_about_earlier):
            key = " ".join(words(fact.content))
            if key not in facts or fact.explicit:
                facts[key] = fact._replace(conversation=turn.label)
    return list(facts.values())


def find_asked(sentence: str, before: str = "", spoken: str = "") -> SaveRequest | None:
    """Return what a sentence asks to remember, or None if it holds no request: by the patterns, else by the judge.

    `before` is what was said before it; `spoken` is the sentence with quotations masked.

    >>> sentence = "One thing for your notes: the fridge is shared."
    >>> request = find_asked(sentence)
    >>> sentence[request.start :]
    'the fridge is shared.'
    """
    spoken = spoken or sentence
    request = find_request(spoken)
    if request and (request.points_back or request.start or not is_question(spoken[: request.end])):
        return request
    if asks_to_forget(spoken):
        return None
    judged = judge_sentence(without_quotations(sentence, spoken), before)
    if judged.points >= MIN_POINTING and not re.search(_NEGATION, spoken):
        return SaveRequest(0, len(sentence), points_back=True)
    if judged.asks < MIN_ASKED:
        return None
    start = 0
    for joint in re.finditer(_LEAD_END, spoken[:MAX_LEAD_CHARS]):
        lead = spoken[: joint.end()]
        fact = spoken[joint.end() :]
        is_lead = re.search(r"\w", fact) and may_be_request(lead)
        if is_lead and judge_sentence(lead.strip()).points >= MIN_POINTING:
            start = joint.end()
    return SaveRequest(start, len(sentence))


def without_request(text: str) -> str:
    """Return a text without the request to remember at its beginning; everything else stays as it was typed.

    >>> without_request("Please remember that No. 5 is the test account.")
    'No. 5 is the test account.'
    >>> without_request("no emojis in commit messages"), without_request("Remember to call Kim")
    ('no emojis in commit messages', 'Remember to call Kim')
    """
    request = find_asked(text)
    if request is None or request.points_back:
        return text.strip()
    return text[request.start : request.end].strip()


def split_facts(text: str) -> list[str]:
    """Return the facts that a text states, each as it was typed, without a request in front.

    A sentence that is no fact of its own ("Mira knows why.") stays with the one before it. A line is a fact of its
    own unless it is short. A text with numbered steps, code or a heading is one fact, and so is a list of bare words.
    A question beside a fact is left out, unless it is answered there.

    >>> split_facts("Remember that I use pnpm. It is faster. The staging db is wiped on Sundays. Can you fix it?")
    ['I use pnpm. It is faster.', 'The staging db is wiped on Sundays.']
    """
    own = OwnWords(text, spoken(text).replace(SHOWN, "x"), len(text), len(text))  # a line of code is one, too
    sentences = _read_sentences(own)
    if re.search(_ONE_FACT, text) or re.fullmatch(LIST_OF_WORDS, text) or len(sentences) < 2:
        return list(_split_scopes(without_request(text)))
    facts: list[tuple[int, int]] = []
    for sentence in sentences:
        if facts and _asks(sentence.spoken):
            continue
        start, end = facts.pop() if facts else (sentence.start, 0)
        if end and _stands_alone(own, sentence, end):
            if not _asks(text[start:end]):
                facts.append((start, end))
            start = sentence.start
        facts.append((start, sentence.end))
    return [clause for start, end in facts for clause in _split_scopes(without_request(text[start:end]))]


def _split_scopes(text: str) -> Iterator[str]:
    """Yield the clauses of a line where one speaks of "me" and the next is about the work; else all of it.

    >>> list(_split_scopes("I prefer tabs; the shop uses spaces")), list(_split_scopes("We cache; never in tests"))
    (['I prefer tabs', 'the shop uses spaces'], ['We cache; never in tests'])
    """
    start = 0
    for joint in re.finditer(_SCOPE_JOINT, "" if "\n" in text else spoken(text)):
        clauses = text[start : joint.start()], text[joint.end() :]
        are_facts = not leans_back(clauses[1]) and all(map(_says_something, clauses))
        of_me = [clause for clause in clauses if re.search(FIRST_PERSON, clause)]
        personal = [judge_sentence(clause).personal for clause in clauses]
        if are_facts and len(of_me) == 1 and max(personal) - min(personal) >= MIN_PERSONAL_GAP:
            yield clauses[0]
            start = joint.end()
    yield text[start:]


def draft_fact(text: str, today: date, kind: str = "") -> Proposal:
    """Return the memory that a sentence makes: the words as they were said, with days in brackets behind its dates.

    >>> draft_fact("no emojis in commit messages", date(2026, 11, 15)).content
    'no emojis in commit messages'
    >>> draft_fact("I freeze the branch tomorrow.", date(2026, 11, 15)).content
    'I freeze the branch tomorrow (2026-11-16).'
    """
    content = absolute(text.strip(), today)
    return Proposal(make_name(content), make_description(content), kind or judge_sentence(text).kind, content)


def as_typed(piece: str, message: str) -> str:
    """Return a piece of a message that was read in a normalised form as it stands in the message.

    >>> as_typed("don't", "Please don’t.")
    'don’t'
    """
    if piece in message:
        return piece
    pattern = re.sub(  # a set, since two equal alternatives take twice as long with each character
        r"[^\x00-\x7f]",
        lambda at: "(?:" + "|".join({at[0], unicodedata.normalize("NFD", at[0])}) + ")",
        re.escape(piece),
    )
    typed = re.search(pattern.replace("'", "['’]"), message)
    return typed[0] if typed else piece


def _read_message(text: str, today: date, corrections: bool, before: str, *, asked: bool) -> Iterator[Proposal]:
    """Yield the facts of a message; with `asked`, all that might be one is to be kept."""
    own = read_own_words(text)
    is_short = len(text) <= SHORT_MESSAGE_CHARS
    min_worth = MIN_WORTH if is_short else MIN_WORTH_IN_LONG_MESSAGE
    said = before.strip().rpartition("\n")[2]
    for passage in _find_passages(own, said):
        verdicts = [
            judge_sentence(without_opening(without_quotations(each.text, each.spoken)), _context(own, each, said))
            for each in passage.sentences
        ]
        verdict = max(verdicts, key=lambda verdict: verdict.worth)  # one sentence worth keeping is enough
        if asked and _may_be_kept(passage) and verdict.worth >= MIN_WORTH_ALONE:
            passage = passage._replace(asked=True)
        if passage.asked:
            why = ASKED_FOR
        elif passage.start >= own.sign or not _may_be_kept(passage):
            continue
        elif verdict.worth >= min_worth:
            why = STATED
        elif corrections and is_short and verdict.worth >= MIN_WORTH_OF_CORRECTION:
            why = CORRECTION
        else:
            continue
        content = as_typed(own.text[passage.start : passage.end], text)
        doubt = own.doubt(passage.end, asked=passage.asked)
        for clause in _split_scopes(content):
            fact = draft_fact(clause, today, "" if passage.asked or clause != content else verdict.kind)
            yield fact._replace(explicit=passage.asked, why=why, doubt=doubt)


def _find_passages(own: OwnWords, before: str) -> list[Passage]:
    """Return the passages of a message, and which of them the user asks to keep.

    "Remember that." asks for the passage before it. With nothing before it, or with a colon at its end, it asks for
    what follows: the next sentence and other facts of the same paragraph, or the list below. So does "Remember: …".
    """
    passages: list[Passage] = []
    previous: Sentence | None = None
    is_dictated = is_announced = False  # this sentence is among those asked for; the one before announced them
    sentences = _read_sentences(own)
    for sentence in sentences:
        request = find_asked(sentence.text, _context(own, sentence, before), sentence.spoken)
        if sentence is not sentences[-1] and _announces(sentence, request, is_first=not passages):
            is_dictated, is_announced, previous = True, True, sentence
            continue
        if is_dictated and previous and not is_announced:
            is_near = own.spoken[previous.end : sentence.start].count("\n") < 2
            is_dictated = sentence.is_item or (is_near and judge_sentence(sentence.text).worth >= MIN_WORTH_ALONE)
        if request and request.points_back:
            may_point = sentence.start < own.sign or find_request(sentence.spoken)
            if passages and may_point and not is_question(passages[-1].sentences[-1].spoken):
                passages[-1] = passages[-1]._replace(asked=True)
        elif request:
            start = sentence.start + request.start
            end = sentence.start + request.end
            passages.append(Passage(start, end, (sentence,), asked=True))
            is_dictated = sentence.text[: request.start].rstrip().endswith((":", "："))
        elif passages and previous and _belongs(own, passages[-1], previous, sentence):
            last = passages[-1]
            passages[-1] = last._replace(end=sentence.end, sentences=(*last.sentences, sentence))
        else:
            asked = is_dictated and not is_question(sentence.spoken)
            passages.append(Passage(sentence.start, sentence.end, (sentence,), asked))
        previous = sentence
        is_announced = False
    return passages


def _announces(sentence: Sentence, request: SaveRequest | None, *, is_first: bool) -> bool:
    """Return True if a sentence asks to remember what stands behind it."""
    if announces_list(sentence.spoken):
        return True
    if request is None or not request.points_back or find_request(sentence.spoken):
        return False
    return may_be_request(sentence.spoken) and (is_first or sentence.text.endswith((":", "：")))


def _read_sentences(own: OwnWords) -> list[Sentence]:
    """Return the user's own sentences, without those that somebody else's text is cut out of."""
    sentences = []
    for start, end in find_sentences(own.spoken):
        around = own.spoken[max(start - 2, 0) : start] + own.spoken[start:end] + own.spoken[end : end + 2]
        if OTHERS_MARK in around:
            continue
        mark = bullet_length(own.spoken[start:end])
        first = start + mark
        sentences.append(Sentence(own.text[first:end], own.spoken[first:end], first, mark > 0))
    return sentences


def _belongs(own: OwnWords, passage: Passage, previous: Sentence, sentence: Sentence) -> bool:
    """Return True if a sentence stands directly behind a passage and leans on it, or goes on with its line."""
    gap = own.spoken[previous.end : sentence.start]
    if sentence.is_item or gap.strip() or passage.sentences[-1] != previous:
        return False
    if is_question(previous.spoken) or is_question(sentence.spoken):
        return False
    may_lean = "\n" not in gap or passage.asked
    return _is_wrapped(previous.spoken, gap, sentence.text) or (may_lean and leans_back(sentence.spoken))


def _is_wrapped(before: str, gap: str, following: str) -> bool:
    """Return True if a long line goes on in the next one."""
    line = before.rpartition("\n")[2]
    return gap == "\n" and len(line) >= MIN_WRAPPED_CHARS and line[-1].isalnum() and following[0].islower()


def _context(own: OwnWords, sentence: Sentence, before: str) -> str:
    """Return what was said before a sentence: the agent's last line, and the message up to there.

    An item of a list stands by itself.
    """
    if sentence.is_item:
        return ""
    return f"{before}\n{own.text[: sentence.start]}".strip()[-MAX_CONTEXT_CHARS:]


def _stands_alone(own: OwnWords, sentence: Sentence, before: int) -> bool:
    """Return True if a sentence is a fact apart from that which ends `before` it; "Don't upgrade!" is none."""
    gap = own.spoken[before : sentence.start]
    if leans_back(sentence.spoken) or _is_wrapped(own.spoken[:before], gap, sentence.text):
        return False
    return sentence.is_item or _says_something(sentence.text, min_worth=0 if "\n" in gap else MIN_WORTH_ALONE)


def _says_something(text: str, *, min_worth: float = MIN_WORTH_ALONE) -> bool:
    """Return True for what may be a fact of its own: it is not too short, and worth as much."""
    is_short = text.isascii() and len(text.split()) < MIN_WORDS_ALONE
    if is_short and not re.match(_OF_USER, text):
        return False
    return judge_sentence(text).worth >= min_worth


def _asks(text: str) -> bool:
    """Return True for a question, other than "can you always …?" or "can you remember that we …?"."""
    request = find_request(text)
    if request:
        return request.points_back
    return is_question(text) and not re.match(_POLITE_ORDER, text)


def _may_be_kept(passage: Passage) -> bool:
    """Return True if a passage that nobody asked to keep may be a lasting fact that makes sense by itself."""
    first = passage.sentences[0]
    if len(first.text.encode()) < MIN_FACT_BYTES or len(first.spoken) > MAX_SENTENCE_CHARS:
        return False
    if any(_asks(each.spoken) for each in passage.sentences):
        return False
    telling = [word for word in tokenizer.words(first.text) if not tokenizer.is_weak(word)]
    is_word = first.text.isascii() and " " not in first.text  # "Thanks!"
    return len(telling) >= MIN_TELLING_WORDS or not (is_word or lacks_subject(first.spoken))
