"""What is said is what is kept: through the command line, the chat and learning."""

from __future__ import annotations

import io
import json
import os
import re
from datetime import date
from pathlib import Path

import pytest

from memsheaf import Settings, Sheaf
from memsheaf.chat.offline import Offline
from memsheaf.cli import main
from memsheaf.learn.rules import draft_fact
from memsheaf.llm.model import Request, Said, Step, ToolCall
from memsheaf.recall.turns import Message, Turn
from memsheaf.text.summary import MAX_DESCRIPTION_CHARS, MAX_NAME_CHARS, without_request
from memsheaf.tools import Tools

TODAY = date(2026, 11, 18)

SENTENCES = [
    "no emojis in commit messages",
    "No more than two reviewers per PR",
    "No force pushes to main.",
    "No, use yarn",
    "No meetings on Wednesdays",
    "not everyone on the team can read French",
    "If the tests hang, kill chromedriver",
    "When the build is red nobody merges",
    "Unless I say so, do not touch the migrations",
    "We use Vitest instead of Jest",
    "not 8443, 9443",
    "I prefer pnpm",
    "I'm allergic to peanuts",
    "my cat is called Momo",
    "I also like short answers",
    "I changed my mind: use npm",
    "Actually, staging is on db2",
    "Never deploy on Fridays!",
    "don't squash commits",
    "Use `rg --hidden`, not grep; see https://example.com/a?b=1&c=2.",
    "The header is X-Request-ID: <uuid>",
    "Only Kim can approve a release, or Robin when Kim is away",
    "that one server in Oslo has 8 GB",
    "Das Passwort-Feld ist nie leer, wenn der Nutzer angemeldet ist",
    "Keine Emojis in Commits",
    "Je ne mange pas de viande",
    "No usamos npm en este proyecto",
    "不要在周五部署",
    "本番へのデプロイは金曜日にしない",
    "Мы не деплоим по пятницам",
    "לא לפרוס ביום שישי",
    "우리는 금요일에 배포하지 않습니다",
    "Nie wdrażamy w piątki",
]


def run(folder: Path, *words: str) -> tuple[int, str, str]:
    """Run a command in an empty home of its own."""
    (folder / "work").mkdir(parents=True, exist_ok=True)
    places = {"MEMSHEAF_HOME": str(folder / "home"), "MEMSHEAF_CACHE": str(folder / "cache"), "HOME": str(folder)}
    environment = {**places, "MEMSHEAF_EMBEDDER": "none", "PATH": os.environ["PATH"]}
    out, err = io.StringIO(), io.StringIO()
    code = main(words, environment=environment, stdin=io.StringIO(), stdout=out, stderr=err)
    return code, out.getvalue(), err.getvalue()


def test_the_command_line_saves_each_sentence_as_it_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, sentence in enumerate(SENTENCES):
        folder = tmp_path / str(number)
        (folder / "work").mkdir(parents=True)
        monkeypatch.chdir(folder / "work")
        code, out, err = run(folder, "remember", sentence, "--json")
        assert code == 0, err
        assert json.loads(out)["body"] == f"{sentence}\n"


def test_the_chat_saves_each_sentence_as_it_was_said(settings: Settings) -> None:
    for number, sentence in enumerate(SENTENCES):
        with Sheaf.open(f"agent/a{number}", settings=settings) as sheaf:
            tools, said = Tools(sheaf), [Said("user", _ask(sentence))]
            for _ in range(4):
                *_, step = Offline(today=lambda: TODAY).talk(Request("", said, list(tools.schemas())))
                assert isinstance(step, Step)
                said.append(step.said)
                said += [_answer(tools, call) for call in step.said.calls]
            bodies = [sheaf.read(row.path).body for row in sheaf.list()]
            assert bodies == [f"{sentence}\n"]


def _ask(sentence: str) -> str:
    """Return the sentence behind a request to remember it, in a language that fits."""
    if re.search("[\u3040-\u30ff]", sentence):
        return f"覚えておいて：{sentence}"
    return f"请记住：{sentence}" if re.search("[\u4e00-\u9fff]", sentence) else f"Remember that {sentence}"


def _answer(tools: Tools, call: ToolCall) -> Said:
    answer = tools.answer(call.tool, call.arguments)
    return Said("tool", answer.text, answers=call.id, tool=call.tool, touched=answer.touched)


def test_learning_saves_each_sentence_as_it_was_said(settings: Settings) -> None:
    for number, sentence in enumerate(SENTENCES):
        with Sheaf.open(f"agent/b{number}", settings=settings) as sheaf:
            sheaf.learn(Turn("c", (Message("user", _ask(sentence)), Message("assistant", "Noted."))))
            sheaf.distil()
            assert [sheaf.read(row.path).body for row in sheaf.list()] == [f"{sentence}\n"], sentence


def test_what_is_asked_for_is_never_dropped_without_a_reason(settings: Settings) -> None:
    with Sheaf.open("user", settings=settings) as sheaf:
        sheaf.learn(Turn("c", (Message("user", "Please remember that the CI is off at the moment."),)))
        (verdict,) = sheaf.distil().verdicts
        assert (verdict.outcome, verdict.proposal.content) == ("dropped", "the CI is off at the moment.")
        assert verdict.why


def test_a_sentence_that_corrects_another_is_stored_as_it_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert run(tmp_path, "remember", "We deploy on Fridays")[0] == 0
    code, out, _ = run(tmp_path, "remember", "no, we deploy on Mondays now", "--json")
    assert code == 0
    assert json.loads(out)["replaced"] == "We deploy on Fridays\n"
    assert json.loads(out)["body"] == "no, we deploy on Mondays now\n"


def test_one_value_for_another_replaces_nothing_and_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert run(tmp_path, "remember", "The gateway listens on port 8443")[0] == 0
    assert run(tmp_path, "remember", "not 8443, 9443")[0] == 0
    listed = run(tmp_path, "list")[1]
    assert "The gateway listens on port 8443" in listed
    assert "not 8443, 9443" in listed


@pytest.mark.parametrize(
    ("old", "new"),
    [("Bob reports to Anna", "Anna reports to Bob"), ("I like C", "I like C++"), ("Use x > 5", "Use x < 5")],
)
def test_two_facts_of_the_same_words_are_both_kept(
    old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert run(tmp_path, "remember", old)[0] == run(tmp_path, "remember", new)[0] == 0
    assert len(run(tmp_path, "list", "--paths")[1].split()) == 2


UNRELATED = [
    ("The service keeps its secrets in vault", "audit log keeps entries 90 days"),
    ("English is my third language after Tamil and French", "recipe cards: French on the left, English on the right"),
    ("logs are in Loki", "quiet logs, only warnings"),
    ("The team agreed on OAuth", "I'm in Wellington, the rest of my team sits in Europe"),
    ("i grew up in Lagos", "Grew up on vi, I won't touch the mouse if there's a key for it"),
    ("security reports go to security@lobby.example", "I report to the CFO every first Monday"),
    ("every image you add needs alt text", "For access to the CRM ask Noor"),
    ("releases happen on tuesdays", "The next release is called Sandpiper"),
]


def test_a_shared_verb_or_topic_neither_replaces_nor_supersedes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, (old, new) in enumerate(UNRELATED):
        folder = tmp_path / str(number)
        (folder / "work").mkdir(parents=True)
        monkeypatch.chdir(folder / "work")
        for sentence in (old, new):
            assert run(folder, "remember", sentence, "--scope", "project")[0] == 0
        texts = [path.read_text() for path in (folder / "home").rglob("*.md") if path.name != "MEMORY.md"]
        assert len(texts) == 2
        assert not any("supersedes" in text for text in texts), new


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("remember that I prefer tabs", "I prefer tabs"),
        ("Please note: staging is wiped on Sundays.", "staging is wiped on Sundays."),
        ("Keep in mind that no one reviews on Fridays", "no one reviews on Fridays"),
        ("Merk dir, dass wir freitags nicht deployen", "wir freitags nicht deployen"),
        ("Recuerda que no como carne", "no como carne"),
        ("请记住：周五不部署", "周五不部署"),
        ("Remember to call Kim", "Remember to call Kim"),
        ("Note taking happens in Obsidian", "Note taking happens in Obsidian"),
        ("remember", "remember"),
    ],
)
def test_only_a_leading_request_is_cut_off(typed: str, kept: str) -> None:
    assert without_request(typed) == kept


def test_a_relative_date_gets_the_day_behind_it_and_nothing_else_changes() -> None:
    assert draft_fact("we freeze next Friday, no exceptions", TODAY).content == (
        "we freeze next Friday (2026-11-27), no exceptions"
    )


def test_name_and_description_are_the_first_sentence_cut_at_a_word() -> None:
    long = "We never deploy on Fridays because the on-call engineer of the payments team is away until Monday noon"
    drafted = draft_fact(f"{long}, and that will not change before the summer of next year. Ask Kim.", TODAY)
    assert len(drafted.name) <= MAX_NAME_CHARS
    assert long.startswith(drafted.name.rstrip("…"))
    assert len(drafted.description) <= MAX_DESCRIPTION_CHARS
    assert "Ask Kim" not in drafted.description
    assert draft_fact("I prefer pnpm.", TODAY).name == "I prefer pnpm"
