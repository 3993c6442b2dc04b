"""The corpora that tests of several rooms go through."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_cases(name: str) -> list[dict[str, Any]]:
    """The cases of a corpus."""
    text = (Path(__file__).parent / "corpora" / f"{name}.json").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = json.loads(text)["cases"]
    return found


def texts_that(expect: str) -> list[tuple[str, str]]:
    """Texts of the corpus of secrets, `flag` or `pass`, each with the secret itself."""
    found = (case for case in read_cases("secrets") if case["expect"] == expect)
    return [("".join(case["parts"]), "".join(case["parts"][at] for at in case.get("secret", ()))) for case in found]


SECRETS = texts_that("flag")
"""Texts with secrets that every gate must stop, each with the secret itself."""

HOSTILE_NAMES: list[str] = [
    case["input"]
    for case in read_cases("traversal")
    if case["surface"] == "name" and isinstance(case["input"], str) and case["expect"] == "reject"
]
"""Names that must be refused, or become one harmless label."""
