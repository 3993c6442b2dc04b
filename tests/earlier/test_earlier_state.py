"""The state in files that an earlier version left: read before anything is written, taken over by the first write."""

from __future__ import annotations

import json
from pathlib import Path

from earlier.conftest import EarlierHome
from memsheaf.learn.consolidate import expectations, load_last_run
from memsheaf.limits import Caps
from memsheaf.llm.spend import Ledger, Spent
from memsheaf.recall.turns import Message, Turn

DAY = "2026-11-19"


def turn(conversation: str, asked: str, answered: str) -> Turn:
    return Turn(conversation, (Message("user", asked), Message("assistant", answered)))


def test_looking_reads_the_earlier_files_and_writes_nothing(looked_at: EarlierHome) -> None:
    before = looked_at.files()
    ledger = Ledger.of(str(looked_at.state))

    assert ledger.spent(DAY)._replace(seconds=0) == Spent(DAY, requests=1, input=812, output=97)

    assert looked_at.files() == before
    assert not (looked_at.state / "state.db").is_file()


def test_the_first_write_takes_over_what_was_spent_and_later_lines_follow(earlier: EarlierHome) -> None:
    before = earlier.files()
    ledger = Ledger.of(str(earlier.state))
    for count in (2, 3):
        ledger.reserve(Caps(), Spent(purpose="learn", model="m", seconds=5.0))
        assert sum(ledger.spent(day).requests for day in {DAY, ledger.today()}) == count
    assert earlier.files() == before

    with open(earlier.state / "spend" / f"{DAY}.jsonl", "a") as file:  # the earlier version goes on
        line = {"at": 1, "id": "later", "input": 5, "model": "m", "output": 5, "purpose": "x"}
        file.write(f"\n{json.dumps(line)}\n")
    assert sum(ledger.spent(day).requests for day in {DAY, ledger.today()}) == 4


def test_what_waits_and_what_was_decided_is_shown_before_anything_is_written(looked_at: EarlierHome) -> None:
    before = looked_at.files()
    proposals = json.loads(looked_at.run("review", "--json"))["proposals"]

    assert [proposal["name"] for proposal in proposals] == ["The build number 2 is green"]
    assert "Remember that I live in Oslo." in looked_at.run("learn", "--waiting")
    with looked_at.sheaf() as sheaf:
        queue = sheaf.learning.queue
        assert [(decision.outcome, decision.reason) for decision in queue.decisions()] == [
            ("rejected", "it is not"),
            ("approved", ""),
        ]
        assert [record.message for record in sheaf.own.recalled()] == ["When is the shop deployed?"] * 2
        assert expectations(sheaf.own.state) == [("Which day do we deploy?", "project_shop-deployed-fridays.md")]
        assert load_last_run(sheaf.own.state).at > 0
        assert sheaf.learning.inbox.count_learned() == 2
    assert looked_at.files() == before


def test_the_queue_of_an_earlier_version_goes_on_and_nothing_comes_twice(earlier: EarlierHome) -> None:
    before = earlier.files()
    with earlier.sheaf() as sheaf:
        inbox, queue = sheaf.learning.inbox, sheaf.learning.queue
        assert not sheaf.learn(turn("talk-4", "Remember that I live in Oslo.", "Yes."))
        assert not sheaf.learn(turn("talk-3", "And never write this down.", "I see."))
        assert [verdict.proposal.quote for verdict in sheaf.distil().verdicts] == ["I live in Oslo."]
        assert (inbox.count_waiting(), inbox.count_learned()) == (0, 3)
        sheaf.learning.reopen(queue.decisions()[0].id)
        assert len(queue.all()) == 2
        for waiting in queue.all():
            sheaf.learning.reject(waiting.id)
        assert queue.all() == []
    assert earlier.files() == before


def test_what_an_earlier_version_adds_later_is_taken_in(earlier: EarlierHome) -> None:
    state = earlier.state_of("project")
    state.save("mine", 1)
    folder = Path(state.folder)
    old = json.loads(next(folder.glob("inbox-*.json")).read_text())
    old |= {"messages": [["user", "Remember that the ferry is late.", ""]], "keys": ["0123456789abcdef"]}
    (folder / "inbox-000000000099.json").write_text(json.dumps(old))
    with open(folder / "inbox.known", "a") as known:
        known.write("\n0123456789abcdef\n")
    with open(folder / "recalls", "a") as recalls:
        recalls.write('{"at": "2026-11-19T05:00:00Z", "message": "later", "paths": ["a.md"]}\n{"at": "torn')
    draft = folder / "draft-dream"
    draft.write_text('{"at": 7.0, "learned": 9, "looked": 7.0, "settled": []}\n')
    draft.rename(folder / "dream.json")

    with earlier.sheaf() as sheaf:
        waiting = sheaf.learning.inbox.turns()
        assert waiting[-1].messages[0].text == "Remember that the ferry is late."
        assert sheaf.own.recalled()[0].message == "later"
        assert load_last_run(sheaf.own.state).learned == 9
        assert len(sheaf.own.recalled()) == 3


def test_erasing_takes_in_the_rest_and_deletes_the_files_of_earlier_versions(earlier: EarlierHome) -> None:
    folder = Path(earlier.state_of("project").folder)
    with open(folder / "recalls", "a") as recalls:
        line = {"at": "2026-11-19T05:00:00Z", "message": "please: the kestrel runs at night.", "paths": []}
        recalls.write(json.dumps(line) + "\n")

    earlier.run("erase", "project_kestrel-runs-night.md", "--yes")

    with earlier.sheaf() as sheaf:
        assert [waiting.proposal.name for waiting in sheaf.learning.queue.all()] == ["The build number 2 is green"]
        assert len(sheaf.learning.queue.decisions()) == 2
        assert len(sheaf.own.recalled()) == 2
        assert len(sheaf.learning.inbox.turns()) == 1
    assert [name for name in earlier.files() if name.startswith(folder.name)] == []


def test_what_an_earlier_version_installed_is_uninstalled(earlier: EarlierHome) -> None:
    settings = earlier.base / "user" / ".claude.json"
    assert "memsheaf" in settings.read_text()

    earlier.run("uninstall", "claude-code", "--yes")

    assert not settings.exists()
