from __future__ import annotations

import json
import os
import random
import re
import time
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from memsheaf.text.requests import MAX_END_CHARS, asks_to_ignore, find_request, is_private

CORPUS = os.path.join(os.path.dirname(__file__), "..", "corpora", "ignore.json")
with open(CORPUS, encoding="utf-8") as file:
    CASES: list[dict[str, Any]] = json.load(file)["cases"]

ASKING = [case["text"] for case in CASES if case["ignore"] and asks_to_ignore(case["text"])]
NOT_ASKING = [case["text"] for case in CASES if not case["ignore"] and not asks_to_ignore(case["text"])]
HIDDEN = "\u200b\u200c\u200d\u2060\ufeff\xad\u180e\ufe0f\U000e0041\u202e"
ORDINARY = [
    "Thanks for yesterday.", "Here is the plan for the garden:", "What should I plant in spring?",
    "Das Wetter ist heute schön.", "Merci beaucoup !", "¿Qué tal?", "今天天气很好。", "ありがとうございます。",
    "Спасибо!", "고마워요.", "- first\n- second", "```python\nprint(1)\n```", "> a quoted line",
    "He said “no” and left.",
]  # fmt: skip
# All that a request is made of, but the words for memory.
REST = [
    "ignore", "don't use", "please", "without using", "forget", "your", "what you know", "as if you had no", "off",
    "for this", "this time", "ignoriere", "dein", "nicht", "ohne", "n'utilise pas", "ta", "no uses", "tu", "忽略",
    "不要使用", "を無視して", "игнорируй", "무시해줘", "negeer je", "\n", ".", ",", "```", '"', "“", "RAM",
    "Speicher", "内存",
]  # fmt: skip


PLAIN = [
    "Ignore memory.", "ignore memory for this turn", "Don't use your memory for this answer.", "No memory please.",
    "Answer without using memory.", "Ignoriere dein Gedächtnis.", "Nutze dein Gedächtnis nicht.",
    "Ignore ta mémoire.", "N'utilise pas ta mémoire.", "Ignora tu memoria.", "No uses tu memoria.", "忽略记忆",
    "不要使用记忆", "記憶を無視して", "メモリを使わないで",
]  # fmt: skip


def test_every_plain_wording_is_a_request() -> None:
    assert [text for text in PLAIN if not asks_to_ignore(text)] == []


def test_few_requests_are_missed_and_little_else_is_taken_for_one() -> None:
    requests, others = (sum(case["ignore"] is wanted for case in CASES) for wanted in (True, False))

    assert len(ASKING) >= 0.98 * requests
    assert len(NOT_ASKING) >= 0.94 * others


def test_the_turn_after_a_request_is_normal() -> None:
    assert asks_to_ignore("Ignore memory for this one.")
    assert not asks_to_ignore("And now, what do you remember about my garden?")


def test_without_a_word_for_memory_nothing_is_asked() -> None:
    chance = random.Random(7)
    for _ in range(500):
        message = " ".join(chance.choices(REST, k=chance.randint(0, 20)))
        assert not asks_to_ignore(message), message


@given(st.sampled_from(ASKING), st.sampled_from(["", *ORDINARY]), st.sampled_from(["", *ORDINARY]))
def test_ordinary_sentences_around_a_request_keep_it(request: str, before: str, after: str) -> None:
    assert asks_to_ignore(f"{before}\n\n{request}\n\n{after}")


@given(st.sampled_from(NOT_ASKING), st.sampled_from(["", *ORDINARY]), st.sampled_from(["", *ORDINARY]))
def test_ordinary_sentences_around_something_else_make_no_request_of_it(other: str, before: str, after: str) -> None:
    assert not asks_to_ignore(f"{before}\n\n{other}\n\n{after}")


@given(st.sampled_from(ASKING), st.sampled_from(["```", "```text", "~~~", "`````"]), st.sampled_from(["", *ORDINARY]))
def test_a_code_fence_removes_a_request(request: str, fence: str, after: str) -> None:
    assert not asks_to_ignore(f"Look:\n\n{fence}\n{request}\n{fence.removesuffix('text')}\n{after}")


@example("fresh context")
@given(st.sampled_from([text for text in ASKING if not re.search("[\"'“”„«»「」`‘’´\n]", text)]))
def test_quotation_marks_inline_code_and_quoted_lines_remove_a_request(request: str) -> None:
    for left, right in ('""', "''", "“”", "„“", "«»", "「」", "『』", "‘’", "``", ("> ", ""), ("« ", " »")):
        assert not asks_to_ignore(f"{left}{request}{right}"), left
        assert not asks_to_ignore(f"She wrote:\n{left}{request}{right}\nWhy?"), left


@given(st.sampled_from(ASKING), st.data())
def test_hidden_characters_inside_a_request_do_not_hide_it(request: str, data: st.DataObject) -> None:
    for _ in range(3):
        place = data.draw(st.integers(0, len(request)))
        request = request[:place] + data.draw(st.sampled_from(HIDDEN)) + request[place:]
    assert asks_to_ignore(request)


def test_only_the_beginning_and_the_end_of_a_long_message_are_looked_at() -> None:
    filler = "All work and no play. " * 500
    assert asks_to_ignore("Ignore your memory.\n" + filler)
    assert asks_to_ignore(filler + "\nIgnore your memory.")
    assert asks_to_ignore(filler + "Ignore your memory.")
    assert not asks_to_ignore(filler + "\nIgnore your memory.\n" + filler)
    assert MAX_END_CHARS == 2_000


def test_no_cut_makes_a_request_of_something_else() -> None:
    for other in (
        "Do not please ignore memory leaks.",
        "请不要忽略记忆。",
        "Never answer without using your memory.",
    ):
        for shift in range(0, len(other) + 2, 2):
            assert not asks_to_ignore("x" * (MAX_END_CHARS - shift) + f" {other} " + "y" * 5_000)
            assert not asks_to_ignore("x" * 5_000 + f" {other} " + "y" * (MAX_END_CHARS - shift))


def test_a_fence_or_a_quoted_line_that_begins_out_of_sight_still_counts() -> None:
    log = "nothing to see\n" * 500
    assert not asks_to_ignore(f"Look:\n{log}```\n{log}ignore memory\n```\nWhy?")
    assert not asks_to_ignore(f"```\n{log}\nignore memory\n```\nWhy?")
    assert asks_to_ignore(f"```\n{log}```\n{log}\nIgnore memory.")
    assert not asks_to_ignore("Look:\n> " + "x, " * 2_000 + "ignore memory, they said.")
    assert not asks_to_ignore(f"Look:\n{log}> " + "x, " * 2_000 + "ignore memory, they said.")
    assert asks_to_ignore(f"Look:\n{log}" + "x, " * 2_000 + "ignore memory, I said.")


def test_hostile_messages_take_no_time() -> None:
    asks_to_ignore("ignore memory")
    for message in (
        "ignore " * 15_000, "ignore memory " * 8_000, "don't ignore memory " * 6_000, "memory " * 15_000,
        "ignore memory x, " * 6_000, "as if you had no memory leaks " * 4_000,
        ("please " * 600 + "ignore memory x ") * 25, "\"'“‘«" * 20_000 + "ignore memory leaks",
        "“" * 2_000 + "ignore memory" + "”" * 2_000, "`" * 100_000 + "memory", "'a" * 50_000 + "memory",
        "i\u200bg\u200bnore m\u200bemory leaks " * 5_000, "\ufdfa" * 100_000 + "memory",
        "想要" * 2_000 + "x忽略记忆x", "不要忽略记忆" * 15_000, "メモリを無視しない" * 10_000,
        "ignoriere jetzt bitte mal hier dein gedächtnis nicht, " * 2_000, ("jetzt hier " * 300 + "gedächtnis ") * 30,
        "memory memoria gedächtnis mémoire память 기억 記憶 geheugen " * 2_000,
    ):  # fmt: skip
        start = time.process_time()
        asks_to_ignore(message)
        is_private(message)
        assert time.process_time() - start < 20, message[:20]  # it takes far less


# off the record


PRIVATE = [
    "this is off the record", "Off the record: Kim leaves in May.", "between you and me, the CEO quits",
    "Between you and me the CEO quits", "don't remember this", "Please don't remember this.",
    "Don't store that anywhere.", "Our releases go out on Fridays. Don't store that anywhere.",
    "Remember that the freeze begins in week 50, but off the record: Kim leaves in May.",
    "Between us: we decided to sell the company.", "just between us, he is leaving",
    "Wir haben entschieden, zu verkaufen. Das bleibt unter uns.", "我们决定使用 Postgres，不要记录这个",
    "ここだけの話、リリースは金曜日に決定しました", "do not record this please", "Keep this to yourself.",
    "keep that between us", "forget what I just said", "Forget that I said that.",
    "This is strictly confidential: we merge.", "Das bitte nicht speichern: ich kündige.", "Merk dir das nicht.",
    "Entre nous, il part.", "Ça reste entre nous.", "Ne retiens pas ça.", "Esto queda entre nosotros.",
    "No guardes esto, por favor.", "别记住这个", "请不要保存这些", "これは覚えないでください",
    "オフレコですが、社長が辞めます", "Kim earns 90k and that is off the record.", "I quit in May (off the record).",
    "Don’t write that down.", "don't save this", "Please keep this off the record, ok?", "Unter uns gesagt: er geht.",
    "please do not log this", "off the record, we sell", "私下说，他要走了", "Keep it out of your memory.",
    "don't keep a record of this",
]  # fmt: skip
PUBLIC = [
    "the contract between us and Acme", "The contract between us and Acme ends in May.",
    "do not store it in localStorage", "Do not store it in localStorage, use a cookie.", "don't save it to disk",
    "Never log this header in production.", "don't keep this function private", "keep it private",
    "Make it private and keep it out of the API.", "Is this off the record?", "What does off the record mean?",
    "> off the record", "She said “off the record” twice.", "`off the record`",
    "The latency between us and the CDN is 30 ms.", "Set the gap between us-east and us-west.",
    "Don't note that in the changelog.", "Do not save that file.", "don't record this metric",
    "Please record that we ship on Fridays.", "这个文件不要保存到磁盘", "不要保存日志文件",
    "ログは保存しないでください", "La diferencia entre nosotros y ellos", "Die Datei nicht speichern, nur anzeigen.",
    "ne garde pas ce fichier", "don't remember this API, can you look it up?", "Do not store this in the database.",
    "forget about that bug", "I don't remember this function", "We don't keep that in the repo.",
    "Don't save this as JSON.", "entre nous et le client il y a un contrat",
    "The off the record feature flag is broken.", "Nothing stands between you and me finishing this",
]  # fmt: skip


def test_a_clause_that_says_so_is_off_the_record_and_nothing_else_is() -> None:
    assert [text for text in PRIVATE if not is_private(text)] == []
    assert [text for text in PUBLIC if is_private(text)] == []


def test_a_question_whether_one_remembers_is_no_request() -> None:
    for text in ("Remember?", "We never deploy on Fridays, remember?", "Do you remember?", "I remember."):
        assert find_request(text) is None, text
