"""The recall log: when a memory was recalled and for which message, and what must not be in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from memsheaf.cli import main
from memsheaf.config import Settings
from memsheaf.recall import recall_log
from memsheaf.sheaf import Sheaf
from memsheaf.transfer import erase

PATH = "project_deployment-pipeline.md"
NOW = 1_800_000_000.0


@pytest.fixture
def sheaf(tmp_path: Path) -> Sheaf:
    settings = Settings(home=str(tmp_path / "home"), cache=str(tmp_path / "cache"), embedder="none")
    sheaf = Sheaf.open("user", settings=settings, clock=lambda: NOW)
    sheaf.write("Deployment pipeline", "How we deploy the shop", "project", "Deploy the shop with `make ship`.")
    sheaf.write("Prefers tabs", "Indentation for all code", "user", "Use tabs.")
    return sheaf


def test_a_memory_knows_for_which_messages_it_was_recalled_newest_first(sheaf: Sheaf) -> None:
    session = sheaf.session()
    session.recall("how do we deploy the shop?")
    session.prefetch("which indentation for all code?")
    assert session.collect(wait=10)
    sheaf.recall("deploy the shop once more, please")

    found = sheaf.own.recalled(PATH)

    assert [one.message for one in found] == ["deploy the shop once more, please", "how do we deploy the shop?"]
    assert {one.at for one in found} == {"2027-01-15T08:00:00Z"}
    assert [one.message for one in sheaf.own.recalled("user_prefers-tabs.md")] == ["which indentation for all code?"]
    assert len(sheaf.own.recalled()) == 3


@pytest.mark.parametrize(
    "message",
    [
        "Off the record: how do we deploy the shop?",
        "Ignore your memory for this one: how do we deploy the shop?",
        "<system-reminder>It is Monday.</system-reminder>Off the record: how do we deploy the shop?",
    ],
)
def test_what_is_off_the_record_is_not_logged_nor_what_the_agent_asks_in_that_turn(
    sheaf: Sheaf, message: str
) -> None:
    session = sheaf.session()
    session.recall(message)
    session.recall("which indentation for all code?", is_new_turn=False)

    assert sheaf.own.recalled() == []


def test_why_and_a_scope_opened_for_reading_log_nothing(sheaf: Sheaf) -> None:
    sheaf.session().why("how do we deploy the shop?")
    with Sheaf.open("user", settings=sheaf.settings, read_only=True) as reading:
        assert reading.recall("how do we deploy the shop?").memories

    assert sheaf.own.recalled() == []


def test_no_secret_and_not_all_of_a_long_message_is_kept(sheaf: Sheaf) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    long = f"deploy the shop with {token} " + "and so on " * 60
    assert sheaf.recall(long).memories

    (found,) = sheaf.own.recalled(PATH)

    assert token[:12] not in found.message
    assert "[removed: a GitHub token]" in found.message
    assert len(found.message.encode()) <= recall_log.MAX_MESSAGE_BYTES + 3
    assert token[:12] not in str(sheaf.own.state.query("SELECT * FROM recall"))


def test_only_the_last_recalls_stay(sheaf: Sheaf) -> None:
    for number in range(900):
        sheaf.own.count_use([PATH], f"{number} " + "x" * 300)

    found = sheaf.own.recalled(PATH)

    assert len(found) == recall_log.MAX_RECORDS
    assert found[0].message.startswith("899 ")
    assert sheaf.own.state.query("SELECT count(*) FROM recall") == [(recall_log.MAX_RECORDS,)]


def test_erasing_a_memory_erases_its_recalls_and_messages_that_say_it(sheaf: Sheaf, tmp_path: Path) -> None:
    sheaf.recall("how do we deploy the shop?")
    cut = "which indentation for all code? " + "z" * (recall_log.MAX_MESSAGE_BYTES - 51) + " Deploy the shop wi"
    sheaf.own.count_use(["user_prefers-tabs.md"], "Is it true that: Deploy the shop with `make ship`.")
    sheaf.own.count_use(["user_prefers-tabs.md"], cut + "th `make ship`.")
    sheaf.own.count_use(["user_prefers-tabs.md"], "which indentation for all code?")

    proof = erase(sheaf.own, PATH)

    assert proof.left == ()
    assert [one.message for one in sheaf.own.recalled()] == ["which indentation for all code?"]


def test_show_says_when_a_memory_was_last_recalled(
    sheaf: Sheaf, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sheaf.recall("how do we deploy the shop?")
    sheaf.close()
    for name, value in {"HOME": sheaf.settings.home, "CACHE": sheaf.settings.cache}.items():
        monkeypatch.setenv(f"MEMSHEAF_{name}", value)

    assert main(["show", PATH, "--scope", "user"]) == 0

    assert "last recalled 2027-01-15, for: how do we deploy the shop?" in capsys.readouterr().err
