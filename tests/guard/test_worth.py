from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memsheaf.guard.worth import MAX_CHARS_READ, derivable, ephemeral

HERE = os.path.dirname(__file__)
with open(os.path.join(HERE, "..", "corpora", "worth.json"), encoding="utf-8") as file:
    CASES: list[dict[str, Any]] = json.load(file)["cases"]
MEMORIES = os.path.join(HERE, "..", "..", "benchmarks", "data", "coding", "memories")
DIFF = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n-a = 1\n+a = 2\n"


def test_the_fleeting_and_the_derivable_are_refused_and_no_durable_fact_is() -> None:
    reasons = {"ephemeral": ephemeral, "derivable": derivable}
    refused = [case for case in CASES if case["refused"]]
    missed = [case["text"] for case in refused if not reasons[case["refused"]](case["text"])]
    false = [
        case["text"] for case in CASES if not case["refused"] and (ephemeral(case["text"]) or derivable(case["text"]))
    ]

    found = len(refused) - len(missed)
    report = f"precision {found}/{found + len(false)}, recall {found}/{len(refused)}; missed {missed}, false {false}"
    assert not false, report
    assert found >= 0.95 * len(refused), report


def test_no_memory_of_the_coding_set_is_refused() -> None:
    refused = []
    for name in os.listdir(MEMORIES):
        with open(os.path.join(MEMORIES, name), encoding="utf-8") as file:
            _, header, body = file.read().split("---\n", 2)
        fields = dict(line.partition(": ")[::2] for line in header.splitlines())
        text = f"{fields['name']}\n{fields['description']}\n{body}"
        refused += [(name, why) for why in (ephemeral(text), derivable(text)) if why]

    assert refused == []


def test_an_end_a_quotation_and_a_denial_take_the_moment_out_of_a_phrase() -> None:
    for text in (
        "Use the mock for now, until 2026-12-01.", "For now the mock; this ends on December 1.",
        "The words `for now` are banned in comments.", 'Comments that say "for now" are banned.',
        "Not just for now: ask before you delete.", "> use the mock for now", "```\n# for now\n```",
    ):  # fmt: skip
        assert ephemeral(text) == "", text


def test_a_reason_names_the_words_and_says_what_to_do() -> None:
    assert ephemeral("Skip CI **for now**.") == (
        "'for now' says that it holds for the moment only; say until when it holds, or leave it out"
    )
    assert ephemeral("Stop here.").startswith("'stop here' asks for one thing, once")
    assert derivable("utils.py contains helper functions.").startswith("'utils.py contains' can be looked up")
    assert derivable(DIFF).startswith("this is a diff")


def test_a_cited_fact_may_speak_of_code_but_pasted_output_stays_out() -> None:
    assert derivable("The function parse is defined in src/parser.py.")
    assert derivable("The function parse is defined in src/parser.py.", cited=True) == ""
    assert derivable(DIFF, cited=True)


def test_a_reason_makes_a_fact_on_code_worth_keeping() -> None:
    fact = "utils.py contains the retry helper"

    assert derivable(f"{fact}.")
    assert derivable(f"{fact}, because importing client.py there would be a cycle.") == ""
    assert derivable(f"{fact}.\n\n**Why:** tenacity leaks threads.") == ""


@given(st.text(), st.text())
def test_any_text_gets_an_answer(before: str, after: str) -> None:
    for text in (before, before + "for now" + after, before + "\ncommit 4f2a9c1\n" + after):
        assert isinstance(ephemeral(text), str)
        assert isinstance(derivable(text), str)


def test_hostile_texts_get_an_answer() -> None:
    for unit in (
        "a/", "for ", "class ", "先", "`", '"', "x.py ", "├\n", "- a.b\n", "in this ", "現在", "関数", "4f2a9c1", "{",
        "please ", "this time ", "has 4 a ", "there are 4 ", "takes a ",
    ):  # fmt: skip
        start = time.process_time()
        assert isinstance(ephemeral(unit * 30_000), str)
        assert isinstance(derivable(unit * 30_000), str)
        assert time.process_time() - start < 30, unit


def test_only_the_beginning_of_a_very_long_text_is_read() -> None:
    assert ephemeral("All is well.\n" * MAX_CHARS_READ + "Skip CI for now.") == ""


def test_importing_it_compiles_nothing_and_loads_no_words() -> None:
    code = "import sys, memsheaf.guard.worth; print('memsheaf.prompts' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"
