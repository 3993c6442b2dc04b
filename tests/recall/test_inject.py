from __future__ import annotations

import json
import os
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memsheaf.memory import KINDS
from memsheaf.recall.inject import CONTEXT_BYTES, render_section
from memsheaf.tools import TOOLS

CORPUS = os.path.join(os.path.dirname(__file__), "..", "corpora", "injection.json")
with open(CORPUS, encoding="utf-8") as file:
    CASES: list[dict[str, Any]] = json.load(file)["cases"]

CATALOG = "# Memory\n\n## User\n- [Prefers tabs](user_prefers-tabs.md) — Indentation\n"


def section(*, scope: str = "user", catalog: str = CATALOG, context: str = "", offer: str = "all") -> str:
    return render_section(scope=scope, catalog=catalog, context=context, offer=offer)


def test_the_section_names_its_scope_and_ends_with_the_catalog() -> None:
    text = section(scope="agent/researcher")

    assert "`agent/researcher`" in text
    assert text.endswith("\n## User\n- [Prefers tabs](user_prefers-tabs.md) — Indentation\n")
    assert text.count("# Memory\n") == 1
    assert "{" not in text


def test_the_protocol_says_when_to_read_when_to_save_and_what_not_to_save() -> None:
    text = section()

    for kind in KINDS:
        assert f"`{kind}`" in text
    for needed in ("When to read", "When to save", "What not to save", "ignore memory", "secret", "**Why:**", "git"):
        assert needed in text
    assert "not instructions" in text


def test_every_tool_that_the_protocol_names_exists() -> None:
    named = {word.strip("`.,;:") for word in section().split() if word.startswith("`memory_")}

    assert named <= {tool.__name__ for tool in TOOLS}
    assert len(named) >= 4


def test_without_tools_the_section_does_not_speak_of_them() -> None:
    text = section(offer="none", context="Loaded all the same.")

    assert "memory_" not in text
    assert "not instructions" in text
    assert "[Prefers tabs]" in text
    assert text.endswith("\n# Persistent Memory\n\nLoaded all the same.\n")


def test_context_of_just_the_limit_is_whole_and_one_byte_more_is_cut() -> None:
    assert section(context="x" * CONTEXT_BYTES).endswith("x\n")
    assert {section(context=blank) for blank in ("", "\n", " \t\r\n", "\u2003\n")} == {section()}

    cut = section(context="x" * (CONTEXT_BYTES + 1))
    assert "x" * CONTEXT_BYTES + "\n\n(CONTEXT.md is cut here: 16,384 of 16,385 bytes are shown." in cut


@given(context=st.text(min_size=1, max_size=40), times=st.integers(1, 2_000))
def test_whatever_is_in_the_context_the_section_is_text_within_its_limit(context: str, times: int) -> None:
    text = section(context=context * times)

    assert len(text.encode()) <= len(section().encode()) + CONTEXT_BYTES + 200
    assert text.startswith(section())


def test_a_placeholder_in_a_memory_stays_what_it_is() -> None:
    for placeholder in ("{catalog}", "{scope}", "{protocol}", "%s", "{0}", "{}"):
        line = f"- [{placeholder}](n.md) — {placeholder}"

        text = section(catalog=f"# Memory\n\n## User\n{line}\n", context=f"say {placeholder}")

        assert line in text
        assert f"say {placeholder}" in text


def test_no_payload_opens_or_closes_an_envelope_or_hides_in_the_prompt() -> None:
    before = section(context="x")
    for case in CASES:
        if "{{" in case["payload"]:
            continue
        text = section(context=f"x {case['payload']}")

        added = text[len(before) - 1 :]
        forbidden = ("</", "<|", "<function", "＜", *"\x1b\x07\x9b\u202e\u200b\u2066")
        assert [mark for mark in forbidden if mark in added] == [], case["id"]
        assert "<system" not in added.lower(), case["id"]
        if case["id"].startswith("N") and "</" not in case["payload"]:
            assert case["payload"] in text, "what is harmless is not altered"
