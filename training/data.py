"""The labelled data in this folder, and which part of it is for what.

Every sixth world and dialogue of a file is kept aside for the final measurement ("test"), every twelfth serves to
choose between models and to set thresholds ("development"); a model learns from the others. Of sentences, scopes,
messages and pairs, the files called `held-out` are kept aside, and those named in `DEVELOPMENT` serve to choose.
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

GENERATED = ("plain", "mined")  # files of pairs that nobody wrote one by one

DEVELOPMENT = {
    "sentences": ("k", "fr"),
    "scopes": ("home",),
    "messages": ("c",),
    "pairs": ("pairs5", "pairs8", "pairs12"),
}


class Labelled(NamedTuple):
    """A text, or a pair of them, with its label."""

    label: int
    text: str
    other: str = ""


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


def sentences(part: str) -> list[Labelled]:
    """Return sentences, labelled by the type of memory they would make; 0 is none."""
    return [Labelled(SENTENCES.index(label[0]), text) for _, label, text in labelled_lines("sentences", part)]


def scopes(part: str) -> list[Labelled]:
    """Return sentences that are clearly about the person or about the work."""
    lines = [*labelled_lines("sentences", part), *labelled_lines("scopes", part)]
    labelled = [(label[1:] or USUAL_SCOPE.get(label, label), text) for _, label, text in lines]
    return [Labelled(SCOPES.index(scope), text) for scope, text in labelled if scope in ("u", "p")]


def messages(part: str) -> list[Labelled]:
    """Return whole messages, labelled by kind."""
    return [
        Labelled(MESSAGES.index(label), text.replace("\\n", "\n"))
        for _, label, text in labelled_lines("messages", part)
    ]


def pairs(part: str, generated: bool | None = None) -> list[Labelled]:
    """Return older and newer sentences; the label says whether the newer one takes the place of the older one.

    `generated` limits them to those that were made from frames or mined, or to those that were written by hand. Pairs
    with a memory of a world that is kept aside are left out.
    """
    kept_aside = {memory["text"] for world in worlds("test") for memory in world["memories"]}
    labelled = []
    for path in files("pairs", part, "jsonl"):
        if generated is not None and generated != os.path.basename(path).startswith(GENERATED):
            continue
        with open(path, encoding="utf-8") as file:
            for line in file:
                pair = json.loads(line)
                if not {pair["old"], pair["new"]} & kept_aside:
                    labelled.append(Labelled(REPLACES[pair["same"]], pair["old"], pair["new"]))
    return labelled


def labelled_lines(kind: str, part: str) -> Iterator[tuple[str, str, str]]:
    """Yield the file, the label and the text of each labelled line of a part."""
    for path in files(kind, part, "txt"):
        name = os.path.basename(path)[:-4]
        with open(path, encoding="utf-8") as file:
            for line in file:
                label, sign, text = line.rstrip("\n").partition(" ")
                if sign and text.strip():
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
