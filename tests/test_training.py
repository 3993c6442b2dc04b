"""The labelled data in `training/`: well-formed, and nothing that is kept aside is learned from."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
TRAINING = ROOT / "training"
PARTS = ("training", "development", "test")


def load_data() -> ModuleType:
    spec = importlib.util.spec_from_file_location("training_data", TRAINING / "data.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


DATA: Any = load_data()


def test_parts_are_stable_and_every_sixth_world_is_kept_aside() -> None:
    assert [len(DATA.worlds(part)) for part in PARTS] == [535, 62, 115]
    assert [len(DATA.dialogues(part)) for part in PARTS] == [64, 7, 12]
    parts = [DATA.part_of(number) for number in range(24)]
    assert [number for number, part in enumerate(parts) if part == "test"] == [3, 9, 15, 21]
    assert [number for number, part in enumerate(parts) if part == "development"] == [6, 18]


def texts_to_learn_from() -> Iterator[str]:
    for world in DATA.worlds("training"):
        yield from (each["text"] for each in (*world["memories"], *world["messages"]))
    for dialogue in DATA.dialogues("training"):
        yield from (each["text"] for each in (*dialogue["turns"], *dialogue["questions"]))
    for kind in ("sentences", "scopes", "messages"):
        yield from (each.text for each in getattr(DATA, kind)("training"))
    for pair in DATA.pairs("training"):
        yield from (pair.text, pair.other)


def test_no_memory_question_or_message_that_needs_something_is_both_learned_and_kept_aside() -> None:
    """Small talk such as "thx" may be on both sides: it has no label that could be learned by heart."""
    learned = set(texts_to_learn_from())
    for world in DATA.worlds("test"):
        assert not learned & {memory["text"] for memory in world["memories"]}
        assert not learned & {message["text"] for message in world["messages"] if message["relevant"]}
    for dialogue in DATA.dialogues("test"):
        assert not learned & {question["text"] for question in dialogue["questions"]}


def test_no_pair_scope_or_sentence_worth_keeping_is_both_learned_and_kept_aside() -> None:
    for kind in ("pairs", "scopes"):
        assert not set(getattr(DATA, kind)("training")) & set(getattr(DATA, kind)("test"))
    learned = {each.text for each in DATA.sentences("training")}
    assert not [each.text for each in DATA.sentences("test") if each.label and each.text in learned]
    learned = {each.text for each in DATA.messages("training")}
    own = DATA.MESSAGES.index("M")
    assert not [each.text for each in DATA.messages("test") if each.label == own and each.text in learned]


def test_sources_name_a_version_and_a_hash_for_every_package() -> None:
    sources = json.loads((TRAINING / "sources.json").read_text(encoding="utf-8"))
    for kind in ("translations", "english", "wheels"):
        for package, source in sources[kind].items():
            assert source["version"], package
            assert len(bytes.fromhex(source["sha256"])) == 32, package


@pytest.mark.parametrize("name", ["encoder.onnx", "judge.onnx", "tokenizer.json"])
def test_the_readme_has_the_hash_of_every_shipped_file(name: str) -> None:
    digest = hashlib.sha256((ROOT / "src" / "memsheaf" / "encode" / name).read_bytes()).hexdigest()
    assert f"`{digest}`" in (TRAINING / "README.md").read_text(encoding="utf-8")
