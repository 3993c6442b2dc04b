"""What the sample promises to those who show it."""

from __future__ import annotations

import os
from pathlib import Path

from memsheaf.chat.conversations import Conversations
from memsheaf.config import load
from memsheaf.guard.citations import check, parse
from memsheaf.llm.spend import Ledger
from memsheaf.sheaf import Sheaf
from memsheaf.worktree import WorkingTree
from web.sample import PRESENT, PROJECTS
from web.web_site import environment_of


def test_a_month_of_a_developer_is_there(sample: Path) -> None:
    settings = load(environment_of(sample / "home"))
    rows, days = 0, set[str]()
    for project in PROJECTS:
        with Sheaf.open(settings=settings, cwd=str(sample / "work" / project), read_only=True) as layers:
            rows += len(layers.only("project").list())
            days |= {commit.at[:10] for commit in layers.only("project").log()}
            assert Conversations(layers.only("project").state).list()
    assert len(days) >= 25
    with (
        Sheaf.open(settings=settings, cwd=str(sample / PRESENT), read_only=True) as layers,
        WorkingTree.open(str(sample / PRESENT)) as tree,
    ):
        rows += len(layers.only("user").list())
        assert rows >= 120
        assert len(layers.learning.queue.all()) >= 8
        assert len(layers.only("project").consolidate("none").groups) >= 3
        memories = [layers.only("project").read(row.path) for row in layers.only("project").list()]
        places = [parse(text) for memory in memories for text in memory.citations]
        states = [check(place, tree).state for place in places if place]
        assert {"verified", "drifted"} <= set(states)
        assert layers.names("task") == ["gift-vouchers", "tide-import"]
    assert len({spent.day for spent in Ledger.of(settings.state).summary()}) >= 25
    assert os.path.isdir(sample / "home" / "agents" / "reviewer")
