"""What is to be written where there is no model: a memory in the user's words, and the beginning of a file."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import date
from functools import cache

from memsheaf.chat.offline.phrases import holds, is_wide, lists, spans
from memsheaf.chat.offline.requests import spoken_in
from memsheaf.chat.offline.tool_answers import Known
from memsheaf.learn.rules import captured
from memsheaf.recall.turns import Message, Proposal, Turn
from memsheaf.text.dates import absolute
from memsheaf.text.neutralize import one_line
from memsheaf.text.phrases import compiled
from memsheaf.text.tokenizer import words
from memsheaf.values import NamedTuple

NAMED = 8
"""How many words the name of a memory has at most."""

STEPS = {"py": "    ", "sh": "    "}
"""How deep a step of indentation is where no memory says so; two blanks elsewhere."""

QUOTED = ("py", "ts", "js")
"""The files in which either quotation mark may stand."""

SAME = {"pyi": "py", "tsx": "ts", "jsx": "js", "mjs": "js", "cjs": "js", "bash": "sh", "htm": "html"}
"""Other ends of names, and those whose files begin alike."""

_SENTENCE = r"(?<=[^\W\d][.!?])\s+|(?<=[。！？])|\n+"
_COUNT = r"([1-9]|two|three|four|eight|zwei|vier|deux|quatre|dos|cuatro|两个?|四个?)"
_SMALL = r"(?:use|using|the|any|des|de|las|los|die|用|使用)(?: (?:the|any))?"
_NUMBERS = {"two": 2, "three": 3, "four": 4, "eight": 8, "zwei": 2, "vier": 4, "deux": 2, "quatre": 4, "dos": 2,
            "cuatro": 4, "两": 2, "两个": 2, "四": 4, "四个": 4}  # fmt: skip


class Draft(NamedTuple):
    """A memory to be written, as the tool takes it."""

    content: str
    name: str
    description: str
    type: str


class Style(NamedTuple):
    """How code is to be written, and the memories that say so; "" and None where none does."""

    indent: str = ""
    quote: str = ""
    indented: Known | None = None
    quoted: Known | None = None


def drafted(fact: str, sort: str, language: str, today: date) -> Draft:
    """The memory that a user asks for: what was said, whole. The rules find its name, and its type without a `sort`.

    >>> drafted("I live in Berlin", "", "English", date(2026, 11, 15))
    Draft(content='The user lives in Berlin.', name='Lives in Berlin', \
description='The user lives in Berlin', type='user')
    """
    text = _alone(fact.strip(), language)
    found = _proposed(text, language, today)
    if found is None:
        content = _stopped(absolute(text[:1].upper() + text[1:], today))
        return Draft(content, _named(content), one_line(content, 150).rstrip("."), sort or "project")
    whole = set(words(text)) <= {*words(found.content), *words("i we my our am")}
    content = found.content if whole and "\n" not in text else _stopped(absolute(text, today))
    return Draft(content, found.name, found.description, sort or found.kind)


def _alone(fact: str, language: str) -> str:
    """A fact that came beside others, as it stands alone: *I also prefer tabs* is *I prefer tabs*."""
    beside = next((span for span in spans("also", language, fact) if span[0] < 4), None)
    return fact[: beside[0]] + fact[beside[1] :] if beside and language == "English" else fact


def _proposed(text: str, language: str, today: date) -> Proposal | None:
    """What the rules make of it: asked for in so many words, or else as it stands."""
    lead = lists(language)["lead"][0]
    for said in (f"{lead}{'' if is_wide(language) else ' '}{text}", text):
        if found := captured(Turn("", (Message("user", said),)), today):
            return found[0]
    return None


def _stopped(text: str) -> str:
    """A text with a stop at its end."""
    if re.search(r"[.!?。！？:)\]`\"'”»」]$|\n|(?:://|\bwww\.)\S*$", text):
        return text
    return text + ("。" if "\u3000" < text[-1] < "\uffff" else ".")


def _named(content: str) -> str:
    """A few words to know a memory by."""
    line = content.split("\n", 1)[0]
    first = line.split(" ")
    return one_line(" ".join(first[:NAMED]).rstrip(" .,;:。，") + "…" * (len(first) > NAMED), 60) or "Note"


def corrected(body: str, fact: str) -> str:
    """A memory's text with a fact in the place of the sentence that is most like it.

    >>> corrected("We deploy on Thursdays. Mira approves.", "We deploy on Fridays now.")
    'We deploy on Fridays now. Mira approves.'
    """
    asked = set(words(fact))
    pieces, start = [], 0
    for border in [*(match.span() for match in re.finditer(_SENTENCE, body)), (len(body), len(body))]:
        pieces.append((start, border[0]))
        start = border[1]
    pieces = [(a, b) for a, b in pieces if body[a:b].strip()]
    if not pieces:
        return fact
    first, last = max(pieces, key=lambda piece: len(asked.intersection(words(body[piece[0] : piece[1]]))))
    return body[:first] + fact + body[last:]


def style_of(memories: Sequence[Known]) -> Style:
    """How memories say that code is to be written; the first that says something of it counts."""
    style = Style()
    for one in memories:
        text = f"{one.name}\n{one.body}"
        for language in spoken_in(text):
            if not style.indent and holds("indent", language, text):
                indent = _indent(text, language)
                style = style._replace(indent=indent, indented=one if indent else None)
            if not style.quote and (kind := _preferred(text, language, ("single", "double"))):
                style = style._replace(quote="'" if kind == "single" else '"', quoted=one)
    return style


def _indent(text: str, language: str) -> str:
    kind = _preferred(text, language, ("tabs", "spaces"))
    if kind != "spaces":
        return "\t" if kind else ""
    for start, end in spans("spaces", language, text):
        if counted := compiled(rf"{_COUNT}[ -]?$").search(text[:start]) or compiled(_COUNT).match(text, start, end):
            number = counted[1].lower()
            return " " * (int(number) if number.isdigit() else _NUMBERS[number])
    return "    "


def _preferred(text: str, language: str, titles: tuple[str, str]) -> str:
    """Which of two things a text wants: the one that is named and not turned down."""
    found = set()
    for title in titles:
        for start, end in spans(title, language, text):
            before, after = text[max(0, start - 40) : start], text[end : end + 20]
            turned = any(_ends(span, before) for span in spans("not before", language, before))
            if not turned and not any(not after[:first].strip() for first, _ in spans("not after", language, after)):
                found.add(title)
    return found.pop() if len(found) == 1 else ""


def _ends(span: tuple[int, int], before: str) -> bool:
    """Whether nothing but small words stands between a place and the end of a text."""
    rest = before[span[1] :].strip()
    return not rest or bool(compiled(_SMALL).fullmatch(rest))


def starter(path: str, style: Style) -> tuple[str, list[Known]]:
    """How a new file begins, and the memories that it follows.

    >>> starter("notes/plan.md", Style())
    ('# Plan\\n', [])
    """
    stem, dot = os.path.splitext(os.path.basename(path.replace("\\\\", "/")))
    ending = dot[1:].lower()
    ending = SAME.get(ending, ending)
    text = _starters().get(ending, "\n").replace("{title}", stem[:1].upper() + stem[1:])
    follows: list[Known] = []
    if "\n    " in text:
        step = style.indent or STEPS.get(ending, "  ")
        text = re.sub(r"(?m)^(?: {4})+", lambda blanks: step * (len(blanks[0]) // 4), text)
        follows += [style.indented] if style.indented else []
    if ending in QUOTED:
        text = text.replace('"', style.quote or '"')
        follows += [style.quoted] if style.quoted else []
    return text, list(dict.fromkeys(follows))


@cache
def _starters() -> dict[str, str]:
    from memsheaf.prompts import read_prompt

    section = read_prompt("offline").partition("\n## Starters\n")[2]
    return dict(re.findall(r"(?ms)^```(\w+)\n(.*?)^```$", section))
