"""Facts in the user's own sentences, found without a model.

A message is split at the ends of its sentences. A sentence that leans on the one before it ("It runs at night.")
stays with it; together they are a passage. A passage is kept if the user asks for that (`text/requests.py`), or if
the judge finds one of its sentences worth keeping. Questions, pasted text and quotations are left out, and so is
what holds for the moment only. What is kept stands as it was typed, with days in brackets behind relative dates.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from datetime import date
from itertools import pairwise
from typing import NamedTuple

from memsheaf.encode.judge import MAX_CONTEXT_CHARS, Judgement, judge_sentence
from memsheaf.guard.pasted import OTHERS_MARK, OwnWords, read_own_words
from memsheaf.guard.worth import ephemeral
from memsheaf.recall.turns import Proposal, Turn
from memsheaf.text import tokenizer
from memsheaf.text.dates import absolute
from memsheaf.text.requests import announces_list, asks_not_to_store, find_request, without_request
from memsheaf.text.sentences import (
    bullet_length,
    find_sentences,
    is_question,
    lacks_subject,
    leans_back,
    make_description,
    make_name,
)
from memsheaf.text.similarity import words
from memsheaf.text.spoken import SHOWN, spoken

MIN_WORTH = 0.7  # probability from which a sentence is kept that nobody asked to keep
MIN_WORTH_IN_LONG_MESSAGE = 0.8  # a long message may be pasted
MIN_WORTH_OF_CORRECTION = 0.3  # kept only if it corrects a memory
MIN_WORTH_ALONE = 0.2  # from which a sentence that somebody asked to keep is a fact of its own
MIN_WORDS_ALONE = 4  # fewer words lean on the sentence before, unless they speak of the user
SHORT_MESSAGE_CHARS = 300
MAX_SENTENCE_CHARS = 400  # of a sentence that nobody asked to keep; a longer one was pasted
MIN_WRAPPED_CHARS = 50  # of a line that goes on in the next one
MIN_FACT_BYTES = 6
MIN_TELLING_WORDS = 2  # of a sentence that leans on nothing that was kept

ASKED_FOR = "the user said so"
STATED = "the user's own words"
CORRECTION = "the user corrects it"  # the `why` of a proposal that only makes sense with the memory it corrects

_QUOTES = "\"'„“«「『《‘>/<{-(=\\"  # and the beginnings of comments and elements
_ONE_FACT = r"(?m)^[ \t]*(?:```|~~~|>|\d{1,2}[.)]\s|[|+]|    \S)|[:：]\s*\n"
_GREETING = r"(?i)\A\W*(?:hi|hello|hey|good morning|hallo|bonjour|hola)\b(?: there| again| all)?[\s,.!–-]+"
_POLITE_ORDER = (
    r"(?i)\W*(?:(?:please|and|also)\s+)*(?:can|could|would|will) you (?:please )?"
    r"(?=(?:always|never|stop|from now on)\b)"
)
_OF_USER = r"(?i)(?:i|i'm|my|we|our)\b"
_STANDING_ORDER = (  # "from now on, …" lasts, whatever the judge thinks of the rest
    r"(?i)\W*(?:(?:and|so|ok|also)\W+)*(?:from now on|in (?:the )?future|going forward|ab jetzt|ab sofort|von nun an"
    r"|künftig|désormais|dorénavant|à partir de maintenant|de ahora en adelante|これから|今後|从现在|以后)"
)
_ABOUT_THIS = (
    r"(?i)\b(?:this|that) (?:time|case|run|summary|file|function|line|test|variable|method|branch|commit|pr|page|tab"
    r"|loop|block|one|answer|reply|question|message)\b|\bfor this\W*$"
    r"|\bthe (?:first|second|third|last) (?:one|function|option)\b|\besta (?:ocasión|respuesta)\b|\bdieser antwort\b"
    r"|この質問|\b(?:dieser?|diese[mns]?) (?:datei|funktion|zeile)\b|\bce fichier\b|\beste archivo\b"
    r"|[这這]个?(?:文件|函数|行)|この(?:ファイル|関数|行)"
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


def find_stated_facts(turn: Turn, today: date, *, corrections: bool = False, before: str = "") -> list[Proposal]:
    """Return what the user asks to keep or states in a turn, each fact once.

    With `corrections`, also what is hardly worth keeping by itself: it may correct a memory. `before` is what the
    agent said last.

    >>> from memsheaf.recall.turns import Message
    >>> turn = Turn("c", (Message("user", "Please always answer in English. Thanks!"),))
    >>> [(each.kind, each.content) for each in find_stated_facts(turn, date(2026, 11, 15))]
    [('feedback', 'Please always answer in English.')]
    """
    facts: dict[str, Proposal] = {}
    for message in turn.messages:
        if message.role == "assistant":
            before = message.text
        if message.role != "user" or asks_not_to_store(message.text):
            continue
        for fact in _read_message(message.text, today, corrections, before):
            key = " ".join(words(fact.content))
            if key not in facts or fact.explicit:
                facts[key] = fact._replace(conversation=turn.label)
    return list(facts.values())


def split_facts(text: str) -> list[str]:
    """Return the facts that a text states, each as it was typed: its passages, without a request in front.

    Nothing is lost between them: a sentence that is no fact of its own ("Mira knows why.") stays with the one before
    it. A line is a fact of its own unless it is short. A text with numbered steps, code or a heading is one fact.

    >>> split_facts("Remember that I use pnpm. It is faster. In this project the staging db is wiped every Sunday.")
    ['I use pnpm. It is faster.', 'In this project the staging db is wiped every Sunday.']
    """
    if re.search(_ONE_FACT, text):
        return [without_request(text)]
    masked = spoken(text).replace(SHOWN, "x")  # so that code and quotations are not split
    starts = [0]
    for (_, last), (start, end) in pairwise(find_sentences(masked)):
        mark = bullet_length(masked[start:end])
        is_wrapped = _is_wrapped(masked[:last], masked[last:start], masked[start:end])
        sentence = text[start:end]
        has_words = not sentence.isascii() or len(sentence.split()) >= MIN_WORDS_ALONE
        is_fact = (
            (has_words or re.match(_OF_USER, sentence))
            and (  # "Don't upgrade!" behind another sentence is none
                "\n" in masked[last:start] or judge_sentence(sentence).worth >= MIN_WORTH_ALONE
            )
        )
        if (mark or is_fact) and not is_wrapped and not leans_back(masked[start + mark : end]):
            starts.append(start)
    if len(starts) == 1:
        return [without_request(text)]
    facts = [text[start:end].strip() for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    return [without_request(fact[bullet_length(fact) :]) for fact in facts]


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


def _read_message(text: str, today: date, corrections: bool, before: str) -> Iterator[Proposal]:
    own = read_own_words(text)
    is_short = len(text) <= SHORT_MESSAGE_CHARS
    min_worth = MIN_WORTH if is_short else MIN_WORTH_IN_LONG_MESSAGE
    for passage in _find_passages(own):
        verdict = _judge(passage, own, before.strip().rpartition("\n")[2])
        kind, first = verdict.kind, passage.sentences[0].spoken
        if passage.asked:
            kind, why = "", ASKED_FOR
        elif passage.start >= own.sign or not _may_be_kept(passage):
            continue
        elif (verdict.worth >= min_worth or re.match(_STANDING_ORDER, first)) and not lacks_subject(first):
            why = STATED
        elif corrections and is_short and verdict.worth >= MIN_WORTH_OF_CORRECTION:
            why = CORRECTION
        else:
            continue
        content = as_typed(own.text[passage.start : passage.end].strip(), text)
        doubt = own.doubt(passage.end, asked=passage.asked)
        yield draft_fact(content, today, kind)._replace(explicit=passage.asked, why=why, doubt=doubt)


def _find_passages(own: OwnWords) -> list[Passage]:
    """Return the passages of a message, and which of them the user asks to keep.

    In a list below "remember:", each item is asked for. "Remember that." asks for the passage before it.
    """
    passages: list[Passage] = []
    previous: Sentence | None = None
    is_dictated = False
    sentences = _read_sentences(own)
    for sentence in sentences:
        if announces_list(sentence.spoken) and sentence is not sentences[-1]:
            is_dictated, previous = True, sentence
            continue
        is_dictated = is_dictated and (sentence.is_item or (previous is not None and announces_list(previous.spoken)))
        request = find_request(sentence.spoken)
        if request and request.points_back:
            if passages and not is_question(passages[-1].sentences[-1].spoken):
                passages[-1] = passages[-1]._replace(asked=True)
        elif request and (request.start or not is_question(sentence.spoken[: request.end])):
            start, end = sentence.start + request.start, sentence.start + request.end
            passages.append(Passage(start, end, (sentence,), asked=True))
        elif passages and previous and not is_dictated and _belongs(own, passages[-1], previous, sentence):
            last = passages[-1]
            passages[-1] = last._replace(end=sentence.end, sentences=(*last.sentences, sentence))
        else:
            asked = is_dictated and not is_question(sentence.spoken)
            passages.append(Passage(sentence.start, sentence.end, (sentence,), asked))
        previous = sentence
    return passages


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
    if sentence.is_item or gap.strip() or passage.sentences[-1] != previous or is_question(previous.spoken):
        return False
    if is_question(sentence.spoken) or re.search(_ABOUT_THIS, sentence.spoken):
        return False
    may_lean = "\n" not in gap or passage.asked
    return _is_wrapped(previous.spoken, gap, sentence.text) or (may_lean and leans_back(sentence.spoken))


def _is_wrapped(before: str, gap: str, following: str) -> bool:
    """Return True if a long line goes on in the next one."""
    line = before.rpartition("\n")[2]
    return gap == "\n" and len(line) >= MIN_WRAPPED_CHARS and line[-1].isalnum() and following[0].islower()


def _judge(passage: Passage, own: OwnWords, before: str) -> Judgement:
    """Return the verdict on the sentence of a passage that is most worth keeping, behind what was said before it."""
    verdicts = []
    for sentence in passage.sentences:
        context = f"{before}\n{own.text[: sentence.start]}".strip()
        verdicts.append(judge_sentence(_judged_text(sentence), context[-MAX_CONTEXT_CHARS:]))
    return max(verdicts, key=lambda verdict: verdict.worth)


def _judged_text(sentence: Sentence) -> str:
    """Return a sentence as it is judged: with … for what is quoted in it, and a polite question as an order."""

    def fill(masked: re.Match[str]) -> str:
        original = sentence.text[slice(*masked.span())]
        return "…" if original[:1] in _QUOTES else original

    text = re.sub(_GREETING, "", re.sub(f"{SHOWN}+", fill, sentence.spoken))
    order = re.match(_POLITE_ORDER, text)
    return text[order.end() :].strip(" ?？") if order else text


def _may_be_kept(passage: Passage) -> bool:
    """Return True if a passage that nobody asked to keep may be a lasting fact that makes sense by itself."""
    first = passage.sentences[0]
    if len(first.text.encode()) < MIN_FACT_BYTES or len(first.spoken) > MAX_SENTENCE_CHARS:
        return False
    for each in passage.sentences:
        is_open = is_question(each.spoken) and not re.match(_POLITE_ORDER, each.spoken)
        if is_open or ephemeral(each.text) or re.search(_ABOUT_THIS, each.spoken):
            return False
    telling = [word for word in tokenizer.words(first.text) if not tokenizer.is_weak(word)]
    is_word = first.text.isascii() and " " not in first.text  # "Thanks!"
    return len(telling) >= MIN_TELLING_WORDS or not is_word
