"""The labelled data in this folder, and which part of it is for what.

Every sixth world and dialogue of a file is kept aside for the final measurement ("test"), every twelfth serves to
choose between models and to set thresholds ("development"); a model learns from the others. Of sentences,
conversations, scopes, messages and pairs, the files called `held-out` are kept aside, and `DEVELOPMENT` serves
to choose.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))

SENTENCES = "-FUPR"  # not worth keeping; feedback, user, project, reference
SCOPES = "up"  # the person's, the project's
USUAL_SCOPE = {"F": "u", "U": "u", "P": "p", "R": "p"}
MESSAGES = "TMGCX"  # small talk, about the user's own things, general, commands of the moment, pasted
REPLACES = {0: 0, 1: 1, 0.3: 2}  # both stay; the newer replaces the older; it replaces a part of it
REQUESTS = "nsb"  # no request to remember; one that holds its fact; one that points at another sentence
CUT = " | "  # in a file of requests, between a request and its fact

GENERATED = ("plain", "mined")  # files of pairs that nobody wrote one by one

DEVELOPMENT = {
    "sentences": ("k", "fr"),
    "conversations": ("c1", "c13"),
    "scopes": ("home",),
    "messages": ("c",),
    "pairs": ("pairs5", "pairs8", "pairs12"),
    "requests": ("q2",),
}


MAX_CONTEXT_CHARS = 240  # of what was said before a sentence
MAX_DIFFERENT = 4  # facts of the same person that a new one is paired with, because it does not replace them


class Labelled(NamedTuple):
    """A text with its label; `other` is what was said before it, or the older sentence that it may replace."""

    label: int
    text: str
    other: str = ""


class Line(NamedTuple):
    """A labelled sentence, what was said before it, and which earlier ones it makes obsolete, and how far."""

    label: str
    text: str
    context: str
    obsolete: dict[str, float]


def part_of(number: int) -> str:
    """Return the part of the data that a world or dialogue belongs to, by its number in its file.

    >>> [part_of(number) for number in (0, 3, 6, 9, 12)]
    ['training', 'test', 'development', 'test', 'training']
    """
    if number % 6 == 3:
        return "test"
    return "development" if number % 12 == 6 else "training"


def worlds(part: str) -> list[dict[str, Any]]:
    """Return persons with their memories and messages; `file` names the file they are from."""
    return _parted("worlds", part)


def dialogues(part: str) -> list[dict[str, Any]]:
    """Return dialogues of several sittings, with questions and the turns that answer them."""
    return _parted("dialogues", part)


def _parted(kind: str, part: str) -> list[dict[str, Any]]:
    items = []
    for path in sorted(glob.glob(os.path.join(HERE, kind, "*.jsonl"))):
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file):
                if part_of(number) == part:
                    items.append({"file": os.path.basename(path)[:-6], **json.loads(line)})
    return items


def translated_worlds() -> dict[str, dict[str, Any]]:
    """Return the messages and memories of some training worlds in another language, by file and name of the world."""
    found = {}
    for path in sorted(glob.glob(os.path.join(HERE, "translated", "*.jsonl"))):
        with open(path, encoding="utf-8") as file:
            for line in file:
                world = json.loads(line)
                found[f"{world['file']}/{world['world']}"] = world
    return found


def sentence_files(part: str) -> list[str]:
    """Return the files that sentences of a part are in."""
    return [*files("sentences", part, "txt"), *files("conversations", part, "txt")]


def sentences(part: str, path: str = "") -> list[Labelled]:
    """Return sentences, labelled by the type of memory they would make, 0 for none; of all files, or of one."""
    lines = [line for each in sentence_files(part) if path in ("", each) for line in read_lines(each)]
    return [Labelled(SENTENCES.index(line.label[0]), line.text, line.context) for line in lines]


def read_lines(path: str, *, in_order: bool = False) -> list[Line]:
    """Return the labelled sentences of a file, each with what was said before it.

    A blank line ends a message, `a:` is what the agent said before it, `> 1 TEXT` makes an earlier line obsolete.
    With `in_order`, a line with the label `==` stands where another person begins.
    """
    lines: list[Line] = []
    before: list[str] = []
    with open(path, encoding="utf-8") as file:
        for row in file:
            label, sign, text = row.rstrip("\n").partition(" ")
            text = text.strip()
            if label in ("==", "--", "") or not text:
                before = []
                if label == "==" and in_order:
                    lines.append(Line(label, text, "", {}))
            elif label == "a:":
                before = [text]
            elif label == ">":
                share, _, older = text.partition(" ")
                lines[-1].obsolete[older.strip()] = float(share)
            elif sign:
                lines.append(Line(label, text, "\n".join(before)[-MAX_CONTEXT_CHARS:], {}))
                before.append(text.replace(CUT, " "))
    return lines


def conversation_pairs(part: str) -> list[Labelled]:
    """Return the pairs of all conversations of a part."""
    return [pair for path in files("conversations", part, "txt") for pair in pairs_within(path)]


def pairs_within(path: str) -> list[Labelled]:
    """Return what each new fact of a person makes obsolete, and near facts that stay true beside it."""
    pairs = []
    known: list[Line] = []
    gone: set[str] = set()
    for line in read_lines(path, in_order=True):
        if line.label == "==":
            known, gone = [], set()
            continue
        for older, share in line.obsolete.items():
            pairs.append(Labelled(1 if share == 1 else 2, line.text, older))
        words = set(line.text.casefold().split())
        others = [each for each in known if each.text not in gone and each.text not in line.obsolete]
        others.sort(key=lambda each: -len(words & set(each.text.casefold().split())))
        number = 1 if line.label == "-" else MAX_DIFFERENT
        pairs += [Labelled(0, line.text, each.text) for each in others[:number]]
        gone |= {older for older, share in line.obsolete.items() if share == 1}
        if line.label != "-":
            known.append(line)
    return pairs


def scopes(part: str) -> list[Labelled]:
    """Return sentences that are clearly about the person or about the work."""
    kinds = ("sentences", "conversations", "scopes")
    lines = [line for kind in kinds for line in labelled_lines(kind, part)]
    labelled = [(label[1:] or USUAL_SCOPE.get(label, label), text) for _, label, text in lines]
    return [Labelled(SCOPES.index(scope), text) for scope, text in labelled if scope in ("u", "p")]


def scope_lines(part: str) -> list[tuple[str, str]]:
    """Return the scope and the text of the sentences that are labelled with nothing else."""
    return [(label, text) for _, label, text in labelled_lines("scopes", part) if label in SCOPES]


def messages(part: str) -> list[Labelled]:
    """Return whole messages, labelled by kind."""
    return [
        Labelled(MESSAGES.index(label), text.replace("\\n", "\n"))
        for _, label, text in labelled_lines("messages", part)
    ]


def request_lines(part: str) -> list[Line]:
    """Return sentences that ask to remember something or might seem to, each behind what was said before it.

    The first letter of a label says what it asks, the rest which memory it makes.
    """
    return [line for path in files("requests", part, "txt") for line in read_lines(path)]


def requests(part: str) -> list[Labelled]:
    """Return these sentences, labelled by what they ask; the two pieces of one that can be cut stand alone, too."""
    labelled = []
    for line in request_lines(part):
        label = REQUESTS.index(line.label[0])
        request, _, fact = line.text.partition(CUT)
        labelled.append(Labelled(label, line.text.replace(CUT, " "), line.context))
        if fact:
            labelled.append(Labelled(REQUESTS.index("b"), request, line.context))
            labelled.append(Labelled(REQUESTS.index("n"), fact, line.context))
    return labelled


def pairs(part: str, generated: bool | None = None) -> list[Labelled]:
    """Return older and newer sentences; the label says whether the newer one takes the place of the older one.

    `generated` limits them to those that were made from frames or mined, or to those that were written by hand. Pairs
    with a memory of a world that is kept aside are left out.
    """
    paths = files("pairs", part, "jsonl")
    return [pair for path in paths if generated in (None, is_generated(path)) for pair in read_pairs(path)]


def is_generated(path: str) -> bool:
    """Return True for a file of pairs that nobody wrote one by one."""
    return os.path.basename(path).startswith(GENERATED)


def read_pairs(path: str) -> list[Labelled]:
    """Return the pairs of a file, without those with a memory of a world that is kept aside."""
    kept_aside = {memory["text"] for world in worlds("test") for memory in world["memories"]}
    labelled = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            pair = json.loads(line)
            if not {pair["old"], pair["new"]} & kept_aside:
                labelled.append(Labelled(REPLACES[pair["same"]], pair["new"], pair["old"]))
    return labelled


def labelled_lines(kind: str, part: str) -> Iterator[tuple[str, str, str]]:
    """Yield the file, the label and the text of each labelled line of a part."""
    for path in files(kind, part, "txt"):
        name = os.path.basename(path)[:-4]
        with open(path, encoding="utf-8") as file:
            for line in file:
                label, sign, text = line.rstrip("\n").partition(" ")
                if sign and text.strip() and label not in ("a:", ">", "==", "--"):
                    yield name, label, text


def files(kind: str, part: str, ending: str) -> list[str]:
    """Return the files of a kind that belong to a part."""
    paths = []
    for path in sorted(glob.glob(os.path.join(HERE, kind, f"*.{ending}"))):
        name = os.path.basename(path)[: -len(ending) - 1]
        belongs = "training"
        if name == "held-out":
            belongs = "test"
        elif name in DEVELOPMENT[kind]:
            belongs = "development"
        if belongs == part:
            paths.append(path)
    return paths
