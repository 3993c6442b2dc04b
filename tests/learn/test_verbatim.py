"""What is said is what is kept: through the command line, the chat and learning."""

from __future__ import annotations

import io
import json
import os
import re
from datetime import date
from pathlib import Path

import pytest

from cases import sample
from memsheaf import Settings, Sheaf
from memsheaf.chat.memory import ChatMemory
from memsheaf.chat.offline import Offline
from memsheaf.chat.permissions import Permission
from memsheaf.cli import main
from memsheaf.learn.sentences import draft_fact, without_request
from memsheaf.recall.turns import Message, Turn
from memsheaf.text.sentences import MAX_DESCRIPTION_CHARS, MAX_NAME_CHARS

TODAY = date(2026, 11, 18)
CORPUS = Path(__file__).parents[1] / "corpora" / "sentences.json"

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
    for number, sentence in enumerate(sample(SENTENCES, 4)):
        folder = tmp_path / str(number)
        (folder / "work").mkdir(parents=True)
        monkeypatch.chdir(folder / "work")
        code, out, err = run(folder, "remember", sentence, "--json")
        assert code == 0, err
        assert json.loads(out)["memories"][0]["body"] == f"{sentence}\n"


def test_learning_and_the_chat_save_each_sentence_as_it_was_said(settings: Settings) -> None:
    for number, sentence in enumerate(SENTENCES):
        assert learn_message(f"l{number}", _ask(sentence), settings) == [sentence]
    for number, sentence in enumerate(sample(SENTENCES, 3)):
        assert send_to_chat(f"c{number}", _ask(sentence), settings)[0] == [sentence]


def _ask(sentence: str) -> str:
    """Return the sentence behind a request to remember it, in a language that fits."""
    if re.search("[\u3040-\u30ff]", sentence):
        return f"覚えておいて：{sentence}"
    return f"请记住：{sentence}" if re.search("[\u4e00-\u9fff]", sentence) else f"Remember that {sentence}"


def test_learning_loses_no_word_of_two_hundred_sentences_in_eleven_languages(settings: Settings) -> None:
    lost = []
    for number, text in enumerate(sample(json.loads(CORPUS.read_text(encoding="utf-8"))["sentences"])):
        sentence = without_request(text)
        with Sheaf.open(f"agent/l{number}", settings=settings._replace(embedder="none")) as sheaf:
            sheaf.learn(Turn("c", (Message("user", f"Remember: {sentence}"), Message("assistant", "Noted."))))
            sheaf.distil()
            stored = [sheaf.read(row.path).body for row in sheaf.list()]
            stored += [item.proposal.content for item in sheaf.learning.queue.all()]
        bare = [re.sub(r" \((?:week of )?\d{4}-\d\d(?:-\d\d)?\)", "", body).strip() for body in stored]
        bare.sort(key=sentence.find)
        if re.findall(r"\w+", " ".join(bare)) != re.findall(r"\w+", sentence):
            lost.append((sentence, bare))
    assert lost == []


ABBREVIATED = [
    "Dr. Smith is my doctor",
    "approx. 5 people use it, incl. Bob",
    "the API is on port 9443, i.e. not on 8443.",
    "`var` is banned, e.g. in legacy.js.",
    "No. 5 is the test account of J. R. Miller",
    "the demo is on Nov. 3 vs. the plan of Oct. 5",
    "wir nutzen z. B. kein npm, bzw. nur für Dr. Weber",
    "der 2. Server ist langsam, d. h. ca. 3 Sekunden",
    "el Sr. Pérez no trabaja los viernes, p. ej. en mayo",
    "Mme. Dupont et M. Petit ne mangent pas de viande",
]
LEANING = [
    "Redis is only a cache; never the source of truth. It may be flushed.",
    "Kim is the designer. She doesn't work on Fridays.",
    "we deploy on Fridays. Except in December.",
    "we use RabbitMQ. But not for jobs.",
    "the tests run with `make test`. Not `npm test`.",
    "I have two cats\nand a dog named Rex",
    "Dr. Smith is my doctor. She is in Oslo. They close at noon.",
    "Kim ist Designerin. Sie arbeitet freitags nicht. Außer im Dezember.",
    "Kim est designer. Elle ne travaille pas le vendredi.",
    "Kim es diseñadora. Pero no trabaja los viernes.",
    "周五不部署。除非是热修复。",
    "本番は金曜日にデプロイしない。ただし緊急時は別。",
    "the deploy of the payment service to production takes about\nten minutes on a Friday",
]
AS_TYPED = [
    "Zoë’s café opens at 8, don’t be late",
    "the cafe\u0301 closes at 9, d’accord",
    "— dash start",
    "- [ ] checkbox item",
    "the line ends with a colon:",
    f"the build takes {'very ' * 100}long.",
]


def learn_message(folder: str, message: str, settings: Settings) -> list[str]:
    """Return the texts that are in memory after a conversation with this message."""
    with Sheaf.open(f"agent/{folder}", settings=settings) as sheaf:
        sheaf.learn(Turn("c", (Message("user", message), Message("assistant", "Noted."))))
        sheaf.distil()
        return sorted(sheaf.read(row.path).body.removesuffix("\n") for row in sheaf.list())


def send_to_chat(folder: str, message: str, settings: Settings) -> tuple[list[str], str]:
    """Return the texts that are in memory after this message to the chat, and its last answer."""
    with Sheaf.open(f"agent/{folder}", settings=settings) as sheaf:
        answer = Offline(ChatMemory(sheaf), Permission()).answer(message)
        return sorted(sheaf.read(row.path).body.removesuffix("\n") for row in sheaf.list()), answer


def test_what_follows_a_request_is_kept_whole_and_byte_for_byte(settings: Settings) -> None:
    sentences = [*ABBREVIATED, *LEANING, *AS_TYPED]
    for number, sentence in enumerate(sentences):
        assert learn_message(f"l{number}", _ask(sentence), settings) == [sentence]
    for number, sentence in enumerate(sample(sentences, 3)):
        assert send_to_chat(f"c{number}", _ask(sentence), settings)[0] == [sentence]


@pytest.mark.parametrize(
    "message",
    [
        "From now on answer in French. Unless I write in German.",
        "Never use `var`, e.g. in legacy.js. That’s for new code only.",
        "I’m allergic to peanuts. It is serious.",
    ],
)
def test_what_is_said_in_passing_is_kept_with_the_sentence_that_leans_on_it(message: str, settings: Settings) -> None:
    assert learn_message("learned", message, settings) == [message]


REQUESTS = {
    "Remember:\n1. Build with make\n2. Never push to main\n3. Tag each release": [
        "Build with make",
        "Never push to main",
        "Tag each release",
    ],
    "Remember: 1. Build with make 2. Never push to main": ["1. Build with make 2. Never push to main"],
    "Remember:\nThe port is 9443.": ["The port is 9443."],
    "Remember I'm vegan, ok?": ["I'm vegan"],
    "Remember that I use vim, okay?": ["I use vim"],
    "Can you remember that I use vim?": ["I use vim"],
    "Kannst du dir merken, dass ich vim nutze?": ["ich vim nutze"],
    "I can’t eat nuts — don’t forget.": ["I can’t eat nuts"],
    "I can't eat nuts. Don't forget!": ["I can't eat nuts."],
    "We use pnpm. It is fast. Remember that.": ["We use pnpm. It is fast."],
    "The pipes froze last winter. remember!!": ["The pipes froze last winter."],
    "Der Zugang läuft am Montag ab, bitte nicht vergessen": ["Der Zugang läuft am Montag ab"],
    "La porte du fond reste fermée. N'oublie pas !": ["La porte du fond reste fermée."],
    "La clave está en el cajón azul, no lo olvides": ["La clave está en el cajón azul"],
    "Запомни, что мы не деплоим по пятницам.": ["мы не деплоим по пятницам."],
    "Ricorda che non mangio carne.": ["non mangio carne."],
    "Zapamiętaj, że nie jem mięsa.": ["nie jem mięsa."],
    "Onthoud dat ik geen vlees eet.": ["ik geen vlees eet."],
    "Lembre-se de que não como carne.": ["não como carne."],
    "기억해 줘, 나는 고기를 안 먹어": ["나는 고기를 안 먹어"],
    "تذكر أن الاجتماع يوم الأحد": ["الاجتماع يوم الأحد"],
}


def test_each_wording_of_a_request_is_understood(settings: Settings) -> None:
    for number, (message, texts) in enumerate(REQUESTS.items()):
        assert learn_message(f"l{number}", message, settings) == texts
        is_list = message.startswith("Remember:\n1.")  # the chat keeps numbered steps as one
        expected = [message.partition("\n")[2]] if is_list else texts
        assert send_to_chat(f"c{number}", message, settings)[0] == expected


def test_the_chat_says_why_a_fact_with_invisible_characters_is_not_saved(settings: Settings) -> None:
    texts, answer = send_to_chat("chat", "Remember that zero\u200bwidth is on", settings)
    assert texts == []
    assert "U+200B" in answer


def test_name_and_description_are_the_first_sentence_cut_at_a_word() -> None:
    long = "We never deploy on Fridays because the on-call engineer of the payments team is away until Monday noon"
    drafted = draft_fact(f"{long}, and that will not change before the summer of next year. Ask Kim.", TODAY)
    assert len(drafted.name) <= MAX_NAME_CHARS
    assert long.startswith(drafted.name.rstrip("…"))
    assert len(drafted.description) <= MAX_DESCRIPTION_CHARS
    assert "Ask Kim" not in drafted.description
    assert draft_fact("I prefer pnpm.", TODAY).name == "I prefer pnpm"
