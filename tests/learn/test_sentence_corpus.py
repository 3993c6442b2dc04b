"""200 sentences of all kinds, in eleven languages: what is stored are the words of the user."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path

import pytest

from memsheaf import Settings, Sheaf
from memsheaf.chat.offline import Offline
from memsheaf.llm.model import Request, Said, Step
from memsheaf.recall.turns import Message, Turn
from memsheaf.text.requests import without_request
from memsheaf.tools import Tools

CORPUS = Path(__file__).parents[1] / "corpora" / "sentences.json"
SENTENCES = [without_request(text) for text in json.loads(CORPUS.read_text(encoding="utf-8"))["sentences"]]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def stored_words(sheaf: Sheaf) -> list[list[str]]:
    """Return the words of each memory, without the days in brackets that we add."""
    bodies = (sheaf.read(row.path).body for row in sheaf.list())
    return [words(re.sub(r" \((?:week of )?\d{4}-\d\d(?:-\d\d)?\)", "", body)) for body in bodies]


def hold_all_words(sheaf: Sheaf, sentence: str) -> bool:
    """Return True if the memories hold the words of a sentence in order; several facts may be several memories."""
    missing = words(sentence)
    for stored in sorted(stored_words(sheaf), key=lambda each: sentence.find(each[0])):
        for word in stored:
            if missing and word == missing[0]:
                missing.pop(0)
    return not missing


@pytest.fixture
def scope(settings: Settings) -> Settings:
    return settings._replace(embedder="none")


def test_the_library_stores_each_sentence_as_it_is_given(scope: Settings) -> None:
    with Sheaf.open("user", settings=scope) as sheaf:
        for sentence in SENTENCES:
            body = sheaf.remember(sentence).body
            assert words(re.sub(r" \((?:week of )?\d{4}-\d\d(?:-\d\d)?\)", "", body)) == words(sentence)


def test_learning_stores_each_sentence_that_is_asked_for(scope: Settings) -> None:
    lost = []
    for number, sentence in enumerate(SENTENCES[::3]):
        with Sheaf.open(f"agent/l{number}", settings=scope) as sheaf:
            sheaf.learn(Turn("c", (Message("user", f"Remember: {sentence}"), Message("assistant", "Noted."))))
            sheaf.distil()
            waiting = " ".join(item.proposal.content for item in sheaf.learning.queue.all())
            if not hold_all_words(sheaf, sentence) and words(sentence) != words(waiting):
                lost.append(sentence)
    assert lost == []


def test_the_chat_stores_each_sentence_that_it_is_told_to_remember(scope: Settings) -> None:
    lost = []
    for number, sentence in enumerate(SENTENCES[::5]):
        with Sheaf.open(f"agent/c{number}", settings=scope) as sheaf:
            tools, conversation = Tools(sheaf), [Said("user", f"Remember: {sentence}")]
            for _ in range(6):
                *_, step = Offline(today=lambda: date(2026, 11, 18)).talk(
                    Request("", conversation, list(tools.schemas()))
                )
                assert isinstance(step, Step)
                conversation.append(step.said)
                for call in step.said.calls:
                    answer = tools.answer(call.tool, call.arguments)
                    said = Said("tool", answer.text, answers=call.id, tool=call.tool, touched=answer.touched)
                    conversation.append(said)
            if not hold_all_words(sheaf, sentence):
                lost.append(sentence)
    assert lost == []
