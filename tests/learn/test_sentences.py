from __future__ import annotations

import json
import os
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case, sample
from memsheaf.learn.sentences import MAX_SENTENCE_CHARS, as_typed, find_asked, find_stated_facts, split_facts
from memsheaf.memory import DESCRIPTION_LIMIT, KINDS, NAME_LIMIT
from memsheaf.recall.turns import Message, Proposal, Turn

TODAY = date(2026, 11, 15)
TRAINING = Path(__file__).parents[2] / "training"
CORPUS = os.path.join(os.path.dirname(__file__), "..", "corpora", "phrases.json")
with open(CORPUS, encoding="utf-8") as file:
    CASES: list[dict[str, Any]] = json.load(file)["cases"]
ASKING = [case["text"] for case in CASES if case["kind"] and "half" not in case and "\n" not in case["text"]]


def said(text: str, role: str = "user") -> list[Proposal]:
    return find_stated_facts(Turn("talk-1", (Message(role, text),)), TODAY)


class Tally(NamedTuple):
    """What the rules make of some cases of the corpus."""

    found: list[str]
    missed: list[str]
    false: list[str]
    mistyped: list[str]

    @property
    def recall(self) -> float:
        return len(self.found) / (len(self.found) + len(self.missed))

    @property
    def precision(self) -> float:
        return len(self.found) / (len(self.found) + len(self.false))


def tally(half: str | None) -> Tally:
    """Of the cases in this half; those of none are the ones of parts 1 to 3."""
    made = Tally([], [], [], [])
    for case in sample([case for case in CASES if case.get("half") == half], 1 if half == "test" else 2):
        proposals = said(case["text"])
        fitting = [each for each in proposals if case["holds"].casefold() in each.content.casefold()]
        if case["kind"]:
            (made.found if fitting else made.missed).append(case["text"])
            made.mistyped.extend(case["text"] for each in fitting[:1] if each.kind != case["kind"])
        elif proposals:
            made.false.append(case["text"])
    return made


def test_what_users_ask_to_keep_is_found_and_little_else() -> None:
    made = tally(None)

    assert made.recall >= 0.9, made.missed
    assert made.precision >= 0.9, made.false
    assert len(made.mistyped) <= 0.08 * len(made.found), made.mistyped


@pytest.mark.parametrize(("half", "recall", "precision"), [("development", 0.9, 0.96), ("test", 0.7, 0.9)])
def test_casual_talk_is_understood_and_little_else(half: str, recall: float, precision: float) -> None:
    made = tally(half)

    assert made.recall >= recall, f"{made.recall:.2f}"
    assert made.precision >= precision, f"{made.precision:.2f}"
    assert len(made.mistyped) <= 0.08 * len(made.found), len(made.mistyped)


def test_nobody_but_the_user_is_heard() -> None:
    assert [text for text in ASKING[::7] for role in ("assistant", "tool") if said(text, role)] == []


def test_what_is_pasted_or_quoted_is_not_heard() -> None:
    shapes = ("> {}", "```\n{}\n```", "`{}`", "“{}”", "    {}", "2026-11-02 10:00:00 {}", "user: {}")
    pasted = (f"Look at this\n\n{shown.format(text)}" for text in ASKING[::14] for shown in shapes)

    assert [text for text in pasted if said(text)] == []


RAIN = "and it rains\n" * 40
CHATTER = "It is raining.\n" * 5_000
BOARD = "The dashboard is at https://grafana.example.org/d/1?x=2"
KEPT = {
    # several facts are several memories, in their order
    "Hi! My name is Samira. From now on, answer in English; never use emojis.\n- We decided to use Rust.": [
        "My name is Samira.", "From now on, answer in English; never use emojis.",
        "We decided to use Rust.",
    ],
    # a list below such a request, and nothing below that
    "Remember:\n- deep blue\n- green on Sundays\n\nNow fix the header.": ["deep blue", "green on Sundays"],
    "Please remember that the freeze starts tomorrow.": ["the freeze starts tomorrow (2026-11-16)."],
    # a request may point at what stands before it
    "Contoso pays by bank transfer. Remember that.": ["Contoso pays by bank transfer."],
    "我们用 pnpm，记住这个": ["我们用 pnpm"],
    "Remember that.": [],
    # what is asked for is judged later, with a reason
    "Please remember that the CI is off at the moment.": ["the CI is off at the moment."],
    # what is of the moment, or of a turn without memory
    "Let's go with Rust for now.": [],
    "this file is generated": [],
    "Remember: I prefer tea. Ignore your memory for this one.": [],
    # an address is kept as it was typed, with the stop that ends the sentence
    **{f"{BOARD}{after}": [BOARD] for after in ("", "\nFix the header.")},
    **{f"{BOARD}{after}": [f"{BOARD}{after[:1]}"] for after in (".", "!", ". Fix the header.")},
    # a fact beside a request
    "can you add a retry? Priya owns the billing service": ["Priya owns the billing service"],
    # a statement with signs that it lasts, in a short message
    "customers in Norway pay with Vipps": ["customers in Norway pay with Vipps"],
    f"customers in Norway pay with Vipps\n{RAIN}": ["customers in Norway pay with Vipps"],
    # very long messages are read at both ends, and no sentence of a book unless somebody asks for it
    f"Never push to main.\n{CHATTER}Remember that Mira owns it.": ["Never push to main.", "Mira owns it."],
    "Never push " + "very " * MAX_SENTENCE_CHARS + "much.": [],
    f"Remember that it is {'very ' * MAX_SENTENCE_CHARS}much.": [f"it is {'very ' * MAX_SENTENCE_CHARS}much."],
}  # fmt: skip


@each_case("text", KEPT)
def test_what_is_kept_of_a_message(text: str) -> None:
    assert [each.content for each in said(text)] == KEPT[text]


def test_a_request_to_remember_is_explicit_and_a_fact_has_its_type_and_its_name() -> None:
    [asked] = said("Please remember that the freeze starts on 1 December.")
    [told] = said("always test against a real database, mocked tests burned us last year, so no more mocks")

    assert (asked.explicit, asked.conversation, asked.kind) == (True, "talk-1", "project")
    assert (told.explicit, told.kind) == (False, "feedback")
    assert told.name == "always test against a real database, mocked tests burned…"
    assert told.content == "always test against a real database, mocked tests burned us last year, so no more mocks"
    assert said("My name is Samira.")[0].kind == "user"


ASKED = {
    # in words that no pattern has
    "Put it in your notes that the annexe is closed in July.": ["the annexe is closed in July."],
    "One thing to hold on to for later: our tenant ids are ULIDs": ["our tenant ids are ULIDs"],
    "my car is a 2009 Volvo, could you keep that for me?": ["my car is a 2009 Volvo, could you keep that for me?"],
    "Schreib dir bitte auf: Frau Demir bekommt Rechnungen per Post.": ["Frau Demir bekommt Rechnungen per Post."],
    # a request before or behind its facts
    "Keep a note of this. Ulf does the backend. Maja does the design.": [
        "Ulf does the backend.", "Maja does the design.",
    ],
    "Remember these: no default exports. No barrel files.": ["no default exports.", "No barrel files."],
    "Could you save these two?\nMy son is called Tom.\nMy daughter is called Mia.\n\nNow fix the header.": [
        "My son is called Tom.", "My daughter is called Mia.",
    ],
    "The Dockerfile is for development only. Remember this so you don't deploy it again.": [
        "The Dockerfile is for development only.",
    ],
    # what sounds like a request
    "do you remember which port we use?": [],
    "remind me at five to call the bank": [],
    "save the file and add a note to the README that it is experimental": [],
    "did you write down what I said about the printer?": [],
    "please forget what I told you about my knee": [],
}  # fmt: skip


@each_case("text", ASKED)
def test_a_request_to_remember_is_known_in_any_words(text: str) -> None:
    assert [each.content for each in said(text) if each.explicit] == ASKED[text]


def test_a_request_may_point_at_the_message_before_it() -> None:
    before = (Message("user", "Our alto section has only three people."), Message("assistant", "I see."))
    turn = Turn("t", (Message("user", "remember that"),))

    [proposal] = find_stated_facts(turn, TODAY, before=before)

    assert (proposal.content, proposal.explicit) == ("Our alto section has only three people.", True)
    assert find_stated_facts(turn, TODAY) == []


def test_most_requests_are_found_and_little_else() -> None:
    """Sentences by one hand, of which the judge has learned nothing; the patterns alone find one in five."""
    lines = (TRAINING / "requests" / "q2.txt").read_text(encoding="utf-8").splitlines()
    labelled = [line.partition(" ") for line in sample(lines, 2) if not line.startswith("a:")]
    found = [label[0] for label, _, text in labelled if text and find_asked(text.replace(" | ", " "))]
    asking = [label for label, _, text in labelled if text and label[0] in "sb"]

    assert len(found) - found.count("n") >= 0.8 * len(asking)
    assert found.count("n") <= 0.08 * len(found)


def test_the_same_fact_is_proposed_once() -> None:
    turn = Turn("t", (Message("user", "Never push to main."), Message("user", "Remember: never push to main.")))

    [proposal] = find_stated_facts(turn, TODAY)

    assert proposal.explicit


@given(st.text(), st.sampled_from(["", *ASKING]), st.text())
def test_whatever_is_said_a_proposal_can_be_stored(before: str, asking: str, after: str) -> None:
    for proposal in said(before + asking + after):
        assert proposal.kind in KINDS
        assert proposal.content.strip()
        assert 0 < len(proposal.name.encode()) <= NAME_LIMIT
        assert 0 < len(proposal.description.encode()) <= DESCRIPTION_LIMIT
        assert "\n" not in proposal.name + proposal.description


SPLIT = {
    # what is asked behind a fact is no part of it, unless the answer is
    "We use pnpm. Can you fix the build?": ["We use pnpm."],
    "The staging db is broken. Can you fix it?": ["The staging db is broken."],
    "We use pnpm. Why? Because it is fast.": ["We use pnpm. Why? Because it is fast."],
    "Can you fix the build? We use pnpm.": ["We use pnpm."],
    "Which port is it? 8080.": ["Which port is it? 8080."],
    "Which port is it? Can you look?": ["Which port is it?"],
    "We use pnpm. Can you remember that the db is wiped on Sundays?": ["We use pnpm.", "the db is wiped on Sundays"],
    "We use pnpm for all. Remember that.": ["We use pnpm for all."],
    "We use pnpm. Could you please always answer in German?": [
        "We use pnpm.", "Could you please always answer in German?",
    ],
    # two facts in one sentence, with a scope each
    "For all my projects I use pnpm, never npm, and in this project staging is wiped on Sundays": [
        "For all my projects I use pnpm, never npm", "and in this project staging is wiped on Sundays",
    ],
    "Remember that I prefer tabs; the shop uses spaces": ["I prefer tabs", "the shop uses spaces"],
    "Amounts are integers; never use floats for money": ["Amounts are integers; never use floats for money"],
    "Anna leads QA; Bob leads ops": ["Anna leads QA; Bob leads ops"],
    "Don't add dependencies; each one takes me a review": ["Don't add dependencies; each one takes me a review"],
    # no sign is lost
    "I love Rust. We use pnpm for all! 🎉\nAsk Mira before merging :)": [
        "I love Rust.", "We use pnpm for all! 🎉", "Ask Mira before merging :)",
    ],
    # a line of code is a line, too
    "The docs are here.\nhttps://wiki.example.com/a": ["The docs are here.\nhttps://wiki.example.com/a"],
}  # fmt: skip


@each_case("text", SPLIT)
def test_a_text_is_split_where_one_fact_ends(text: str) -> None:
    assert split_facts(text) == SPLIT[text]


def test_what_is_learned_of_one_sentence_has_a_scope_for_each_clause() -> None:
    facts = said("For all my projects I use pnpm, never npm, and in this project staging is wiped on Sundays")

    assert [fact.content for fact in facts] == [
        "For all my projects I use pnpm, never npm", "and in this project staging is wiped on Sundays",
    ]  # fmt: skip


@given(st.text())
def test_every_letter_of_a_text_is_in_one_of_its_facts(text: str) -> None:
    facts = "".join(split_facts(text))
    assert [letter for letter in text if letter.isalpha()] == [letter for letter in facts if letter.isalpha()]


def test_a_piece_that_is_not_in_a_message_is_told_soon_in_any_script() -> None:
    assert as_typed("世界" * 50 + "!", "世界" * 50) == "世界" * 50 + "!"
    assert as_typed("Café", "Cafe\u0301, please") == "Cafe\u0301"
