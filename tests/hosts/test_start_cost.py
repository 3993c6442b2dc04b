"""The start of a conversation and a recall stay within their budgets, however much is remembered."""

from __future__ import annotations

from pathlib import Path

import pytest

from hosts.conftest import HookRunner
from hosts.start_cost import measure, tokens


@pytest.mark.parametrize(("count", "budget"), [(5, 1_500), (200, 2_500), (1_500, 2_600)])
def test_a_start_costs_at_most_its_budget(tmp_path: Path, count: int, budget: int) -> None:
    cost = measure(tmp_path, count)

    assert cost["context"] > 250
    assert cost["tools"] > 500
    assert cost["all"] <= budget, cost


def test_the_frame_of_a_recall_costs_at_most_40_tokens(hooks: HookRunner) -> None:
    hooks.remember("We deploy the shop on Fridays")

    text = hooks.context("UserPromptSubmit", prompt="when do we deploy the shop?")

    items = [line for line in text.splitlines() if line.startswith("- ")]
    assert len(items) == 1
    assert tokens(text) - tokens("\n".join(items)) <= 40
