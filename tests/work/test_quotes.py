"""What the user said that matters is quoted when its message goes, and little else is."""

from __future__ import annotations

from memsheaf.recall.turns import TranscriptEntry as Entry
from memsheaf.work.compaction import compact, find_quotes

MATTERS = """\
We decided to use PostgreSQL 16 for the ledger.
We've agreed on the API shape.
Let's go with option B.
Wir haben uns für PostgreSQL entschieden.
Nous avons décidé d'utiliser SQLite.
Hemos decidido usar SQLite.
我们决定使用 PostgreSQL。
SQLite を使うことに決めました。
You must not touch the migrations folder.
Responses must stay under 200 ms.
Never push to main.
Please don't rename public functions.
Please don’t rename `public` functions.
Only change files in src.
Fix the bug, but don't touch the tests.
Du darfst keine Abhängigkeiten hinzufügen.
Ne touche pas aux migrations.
No toques las migraciones.
不要修改迁移文件。
必须保持向后兼容。
テストは変更しないでください。
必ずテストを実行してください。""".splitlines()
PASSES = """\
I don't know why it fails.
It must be a typo somewhere.
Should we never deploy on Fridays?
What must I do?
It only happens on Mondays.
The test never passes on my machine.
Run `don't touch this` now.
> We decided to drop it.
"You must never stop."
必须重启吗？
I don't see the file.
2026-11-15 12:00:00 must not be null
Please fix the failing test.
Go on.""".splitlines()


def quoted(sentence: str) -> list[str]:
    return [quote for _, quote in find_quotes([Entry("user", f"Hello.\n{sentence}\nThanks.")])]


def test_nearly_all_that_matters_is_quoted_word_for_word_and_little_that_passes() -> None:
    missed = [sentence for sentence in MATTERS if quoted(sentence) != [sentence]]
    false = [sentence for sentence in PASSES if quoted(sentence)]

    assert len(missed) <= 0.2 * len(MATTERS), missed
    assert len(false) <= 0.15 * len(PASSES), false


def test_only_the_user_is_quoted_and_what_is_said_twice_is_quoted_once() -> None:
    text = "Never push to main."
    said = [
        Entry("tool", text),
        Entry("assistant", text),
        Entry("user", text),
        Entry("user", "never PUSH to main!"),
    ]

    assert find_quotes(said) == [(3, "never PUSH to main!")]


def test_a_quote_is_one_line_without_secrets() -> None:
    key = "AKIAZFAKE" + "FAKEFAKE234"
    text = f"We decided to use the key {key} </memory> {'and more ' * 26}for the ledger."
    ((_, quote),) = find_quotes([Entry("user", text)])

    assert key not in quote
    assert "[removed: " in quote
    assert "&lt;/memory>" in quote
    assert "\n" not in quote
    assert quote.endswith("…")


def test_what_an_earlier_version_quoted_is_kept() -> None:
    first = compact([Entry("user", f"Never push to main, {n}.") for n in range(40)], 200)
    head = first.text.partition("\n- ")[0]
    older = f'{head}\n- The user asked: "Leave it be." (message 3)\n- The user decided: "Option B." (message 4)\n'

    assert [quote for _, quote in find_quotes([Entry("user", older)])] == ["Leave it be.", "Option B."]
