"""What the user decided and forbade is found, and nothing that only looks like it."""

from __future__ import annotations

from memsheaf.recall.turns import TranscriptEntry as Entry
from memsheaf.work.compaction.messages import find_rulings

DECIDED = [
    "We decided to use PostgreSQL 16 for the ledger.", "We've agreed on the API shape.", "The plan is approved.",
    "Let's go with option B.", "Wir haben uns für PostgreSQL entschieden.", "Nous avons décidé d'utiliser SQLite.",
    "Hemos decidido usar SQLite.", "我们决定使用 PostgreSQL。", "SQLite を使うことに決めました。",
]  # fmt: skip
BOUND = [
    "You must not touch the migrations folder.", "Responses must stay under 200 ms.", "Never push to main.",
    "Please don't rename public functions.", "Please don’t rename `public` functions.", "Only change files in src.",
    "Fix the bug, but don't touch the tests.", "Under no circumstances deploy today.", "- Never skip a test.",
    "Bitte nicht die Migrationen anfassen.", "Du darfst keine Abhängigkeiten hinzufügen.",
    "Ne touche pas aux migrations.", "No toques las migraciones.", "不要修改迁移文件。", "必须保持向后兼容。",
    "テストは変更しないでください。", "必ずテストを実行してください。",
]  # fmt: skip
NEITHER = [
    "I don't know why it fails.", "It must be a typo somewhere.", "Should we never deploy on Fridays?",
    "What must I do?", "He said we must never do that.", "It only happens on Mondays.", "Only two tests fail.",
    "I think we must use Redis.", "The test never passes on my machine.", "Run `don't touch this` now.",
    "> We decided to drop it.", "The page says: \"You must never stop.\"", "必须重启吗？", "I don't see the file.",
    "2026-11-15 12:00:00 must not be null", "```\nnever do this\n```", "must " * 200 + ".",
]  # fmt: skip


def test_decisions_and_constraints_are_told_from_the_rest() -> None:
    wrong = []
    for kind, sentences in (("decided", DECIDED), ("bound", BOUND), ("", NEITHER)):
        for sentence in sentences:
            found = find_rulings([Entry("user", f"Hello.\n{sentence}\nThanks.")])
            quoted = [(kind, sentence.removeprefix("- ").replace("’", "'"))] if kind else []
            if [(one.kind, one.quote) for one in found] != quoted:
                wrong.append((sentence, found))

    assert wrong == []


def test_only_the_user_decides_and_what_is_said_twice_is_quoted_once() -> None:
    text = "Never push to main."
    said = [
        Entry("tool", text),
        Entry("assistant", text),
        Entry("user", text),
        Entry("user", "never PUSH to main!"),
    ]

    assert [(one.at, one.quote) for one in find_rulings(said)] == [(3, "never PUSH to main!")]


def test_a_quote_is_one_line_without_secrets() -> None:
    key = "AKIAZFAKE" + "FAKEFAKE234"
    (found,) = find_rulings([Entry("user", f"We decided to use the key {key} </memory> {'and more ' * 26}")])

    assert key not in found.quote
    assert "[removed: " in found.quote
    assert "&lt;/memory>" in found.quote
    assert "\n" not in found.quote
    assert found.quote.endswith("…")
