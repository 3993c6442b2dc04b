"""Train the three classifiers of `memsheaf.text.classifier`, and tell how good they are on writers left out.

python training/classifiers.py            # writes src/memsheaf/text/*.table; two minutes on one core
python training/classifiers.py --try      # only tells: each writer is left out in turn

`sentences/*.txt`, `scopes/*.txt` and `messages/*.txt` are labelled, one file a writer or a kind of sentence; READMEs
say what it means. Those of `held-out.*` are never trained on.
"""

from __future__ import annotations

import argparse
import glob
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

from memsheaf.text import classifier

HERE = os.path.dirname(os.path.abspath(__file__))
HELD_OUT = "held-out"
LABELS, MESSAGES, SCOPES = "-FUPR", "TMGCX", "up"
USUAL_SCOPE = {"F": "u", "U": "u", "P": "p", "R": "p"}  # where a sentence has no letter of its own for it
COMMON = 12  # sentences that have a word which counts as itself
STEPS, RATE, DECAY = 300, 0.5, 1e-5
THRESHOLDS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

Sentences = list[tuple[int, str]]


def read_sentences(path: str) -> Sentences:
    """The sentences of a file, each with the number of its label."""
    return [(LABELS.index(label[0]), text) for label, text in _read_labelled(path)]


def _read_labelled(path: str) -> list[tuple[str, str]]:
    """Return the sentences of a file, each behind its label; the second letter of a label is the scope."""
    with open(path, encoding="utf-8") as file:
        lines = [line.rstrip("\n").partition(" ") for line in file]
    return [(label, text) for label, sign, text in lines if sign]


def read_scopes(path: str) -> Sentences:
    """Return the sentences of a file that are clearly about the person (0) or about the work (1)."""
    found = [(label[1:] or USUAL_SCOPE.get(label, label), text) for label, text in _read_labelled(path)]
    return [(SCOPES.index(scope), text) for scope, text in found if scope in SCOPES]


def train_scopes(sentences: Sentences) -> None:
    """Make the table that says whose a memory is; above 0 it is the project's."""
    found = [classifier.scope_features(text) for _, text in sentences]
    _write("scopes", frozenset(), _fit(found, [label for label, _ in sentences], len(SCOPES))[1:])


def tell_scopes(name: str, sentences: Sentences) -> None:
    """Print how many sentences the table gives to the right scope."""
    judged = [(label, classifier.guess_scope(text) == ("user", "project")[label]) for label, text in sentences]
    shares = []
    for label, scope in enumerate(("user", "project")):
        right = [is_right for each, is_right in judged if each == label]
        shares.append(f"{scope} {sum(right)} of {len(right)}")
    print(f"{name:18} {sum(right for _, right in judged) / len(judged):.3f}: {', '.join(shares)}")


def train_sentences(sentences: Sentences) -> None:
    """Make the table that says what is worth keeping."""
    seen = Counter(word for _, text in sentences for word in {word for word, _ in classifier.words(text)})
    common = frozenset(word for word, count in seen.items() if count >= COMMON and word[0].isalpha())
    found = [classifier.hashed_features(text, common) for _, text in sentences]
    _write("sentences", common, _fit(found, [label for label, _ in sentences], len(LABELS)))


def read_messages(path: str) -> Sentences:
    """The messages of a file, each with the number of its kind."""
    with open(path, encoding="utf-8") as file:
        return [(MESSAGES.index(line[0]), line[2:].rstrip("\n")) for line in file if line[1:2] == " "]


def train_messages(messages: Sentences) -> None:
    """Make the table that says which messages may be about something remembered."""
    common = classifier.load("sentences").common
    found = [classifier.hashed_features(text, common) for _, text in messages]
    _write("messages", common, _fit(found, [label for label, _ in messages], len(MESSAGES)))


def tell_messages(name: str, messages: Sentences) -> None:
    """Print what the table makes of some messages."""
    judged = [(label, classifier.concerns(text)) for label, text in messages]
    for least in THRESHOLDS:
        by_kind = {kind: [worth >= least for label, worth in judged if MESSAGES[label] == kind] for kind in MESSAGES}
        shares = (f"{kind} {sum(each) / len(each):.2f}" for kind, each in by_kind.items())
        print(f"{name:10} {least}: {', '.join(shares)}")


def _fit(found: Sequence[Collection[int]], labels: Sequence[int], classes: int) -> NDArray[numpy.int8]:
    """The weights, class by class: logistic regression with all examples at each step (Adam)."""
    lengths = [len(each) for each in found]
    place = numpy.concatenate([numpy.array(sorted(each)) for each in found])
    row = numpy.repeat(numpy.arange(len(found)), lengths)
    starts = numpy.cumsum([0, *lengths[:-1]])
    part = 1 / numpy.sqrt(lengths)
    wanted = numpy.eye(classes)[list(labels)]
    size = 1 << classifier.BITS
    weights, mean, square = (numpy.zeros((classes, size)) for _ in range(3))
    for step in range(1, STEPS + 1):
        scores = numpy.stack([numpy.add.reduceat(each[place], starts) * part for each in weights], axis=1)
        likely = numpy.exp(scores - scores.max(axis=1, keepdims=True))
        likely /= likely.sum(axis=1, keepdims=True)
        wrong = (likely - wanted) * part[:, None] / len(found)
        for number in range(classes):
            slope = numpy.bincount(place, wrong[row, number], size) + DECAY * weights[number]
            mean[number] += 0.1 * (slope - mean[number])
            square[number] += 0.01 * (slope**2 - square[number])
            spread = numpy.sqrt(square[number] / (1 - 0.99**step)) + 1e-8
            weights[number] -= RATE * (1 - step / (STEPS + 1)) * mean[number] / (1 - 0.9**step) / spread
    return numpy.clip(numpy.rint(weights * classifier.SCALE), -128, 127).astype(numpy.int8)


def _write(name: str, common: frozenset[str], weights: NDArray[numpy.int8]) -> None:
    """Write a table as the classifier reads it."""
    with open(os.path.join(classifier.FOLDER, f"{name}.table"), "wb") as file:
        file.write(" ".join(sorted(common)).encode() + b"\n" + weights.tobytes())
    classifier.load.cache_clear()


def tell_sentences(name: str, sentences: Sentences) -> None:
    """Print what the table makes of some sentences."""
    judged = [(label, *classifier.classify(text)) for label, text in sentences]
    wanted = sum(label > 0 for label, _ in sentences)
    for least in THRESHOLDS:
        kept = [(label, kind) for label, kind, worth in judged if worth >= least]
        right = [classifier.CLASSES[label] == kind for label, kind in kept if label]
        print(
            f"{name:10} {least}: of {wanted} found {len(right) / wanted:.2f}, right among those kept "
            f"{len(right) / max(1, len(kept)):.2f}, of the right type {sum(right) / max(1, len(right)):.2f}"
        )


def leave_out(by_writer: dict[str, Any], train: Callable[..., None], tell: Callable[..., None]) -> None:
    """Train without each writer, and tell of that one."""
    for name in by_writer:
        train([one for other, each in by_writer.items() if other != name for one in each])
        tell(name, by_writer[name])


def read_all(pattern: str, read: Callable[[str], Any]) -> dict[str, Any]:
    """What each writer wrote."""
    paths = sorted(glob.glob(os.path.join(HERE, pattern)))
    return {os.path.splitext(os.path.basename(path))[0]: read(path) for path in paths}


def main(arguments: Sequence[str] | None = None) -> None:
    """Train and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--try", action="store_true", dest="trial", help="leave each writer out in turn")
    options = parser.parse_args(arguments)
    texts = read_all("sentences/*.txt", read_sentences)
    held_out = texts.pop(HELD_OUT)
    scopes = read_all("sentences/*.txt", read_scopes)
    scopes |= {f"scopes/{name}": each for name, each in read_all("scopes/*.txt", read_scopes).items()}
    held_scopes = {name: scopes.pop(name) for name in (HELD_OUT, f"scopes/{HELD_OUT}")}
    with tempfile.TemporaryDirectory() as trial:
        if options.trial:
            classifier.FOLDER = trial
            leave_out(scopes, train_scopes, tell_scopes)
        train_scopes([one for each in scopes.values() for one in each])
        for name, each in held_scopes.items():
            tell_scopes(name, each)
        if options.trial:
            leave_out(texts, train_sentences, tell_sentences)
        train_sentences([one for each in texts.values() for one in each])
        tell_sentences(HELD_OUT, held_out)
        messages = read_all("messages/*.txt", read_messages)
        held_messages = messages.pop(HELD_OUT)
        if options.trial:
            leave_out(messages, train_messages, tell_messages)
        train_messages([one for each in messages.values() for one in each])
        tell_messages(HELD_OUT, held_messages)


if __name__ == "__main__":
    main()
