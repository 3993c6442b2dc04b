from __future__ import annotations

import pytest

from memsheaf.flow.kept import lost
from memsheaf.memory import parse


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Maria reviews Otto.", "Otto reviews Maria."),
        ("The Gateway calls the Ledger first.", "The Ledger calls the Gateway first. It is quick."),
    ],
)
def test_names_that_changed_places_are_a_loss(before: str, after: str) -> None:
    assert "comes before" in lost([before], parse("a.md", after.encode()))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Maria reviews Otto.", "Maria reviews Otto. Otto reviews Maria."),
        ("Maria reviews Otto.", "Every change: Maria reviews Otto."),
        ("Kim signs. Robin ships.", "Robin ships. Kim signs."),
        ("Ask Kim before Robin.", "Ask Kim before Robin. Robin knows Kim."),
    ],
)
def test_names_that_did_not_are_none(before: str, after: str) -> None:
    assert lost([before], parse("a.md", after.encode())) == ""
