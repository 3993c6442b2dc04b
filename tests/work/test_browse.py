"""Lists over several scopes: filters, orders, pages, and what drifted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memsheaf import Settings, Sheaf
from memsheaf.index.browse import SORTS, Filter
from memsheaf.open_scope import list_page
from memsheaf.state.trust import accept

DAY = 86_400
NOON = 1_794_744_000.0  # 2026-11-15


@pytest.fixture
def filled(settings: Settings, work: Path) -> Iterator[Sheaf]:
    now = [NOON - 10 * DAY]
    with Sheaf.open(settings=settings, cwd=str(work), by="user", clock=lambda: now[0]) as layers:
        layers.write("Zebra crossing", "stripes on roads", "user", "White stripes mark a crossing.")
        now[0] += 8 * DAY
        layers.write("apple harvest", "when apples are ripe", "project", "Apples are picked in September.")
        layers.write("Build server", "where builds run", "reference", "Builds run on the blue machine.", pinned=True)
        layers.by = "agent"
        layers.write("Mood", "how to test", "feedback", "Test the billing service on staging.", trust="unconfirmed")
        now[0] = NOON
        yield layers


def names(layers: Sheaf, wanted: Filter = Filter(), **more: object) -> list[str]:  # noqa: B008
    found, total = list_page(layers.open_scopes(), wanted, **more)  # type: ignore[arg-type]
    assert more or total == len(found)
    return [row.name for _, row in found]


def test_filters_orders_and_pages_hold_over_all_scopes(filled: Sheaf) -> None:
    assert names(filled) == ["Mood", "Build server", "apple harvest", "Zebra crossing"]  # within a day, by the time
    assert names(filled, sort="oldest") == names(filled)[::-1]
    assert names(filled, sort="name") == ["apple harvest", "Build server", "Mood", "Zebra crossing"]
    assert names(filled, sort="type") == ["Mood", "apple harvest", "Build server", "Zebra crossing"]
    for sort in SORTS:
        pages = [list_page(filled.open_scopes(), sort=sort, limit=1, offset=at) for at in range(5)]
        assert [row.name for page, _ in pages for _, row in page] == names(filled, sort=sort)
        assert {total for _, total in pages} == {4}
    assert names(filled, Filter(kind="user")) == ["Zebra crossing"]
    assert names(filled, Filter(kind="other")) == []
    assert names(filled, Filter(trust="unconfirmed")) == names(filled, Filter(source="agent")) == ["Mood"]
    assert names(filled, Filter(pinned=True)) == ["Build server"]
    assert names(filled, Filter(until="2026-11-10")) == ["Zebra crossing"]
    assert len(names(filled, Filter(since="2026-11-13"))) == 3
    assert names(filled, Filter(kind="\ud800' OR 1 --")) == []


def test_a_search_is_filtered_and_the_best_come_first(filled: Sheaf) -> None:
    assert names(filled, Filter("stripes on a crossing")) == ["Zebra crossing"]
    assert names(filled, Filter("builds apples stripes", kind="project")) == ["apple harvest"]
    assert set(names(filled, Filter("builds apples stripes"))) == {"Zebra crossing", "apple harvest", "Build server"}
    assert names(filled, Filter("builds apples stripes", trust="unconfirmed")) == []


def test_what_is_shared_in_a_checkout_is_told_apart(settings: Settings, work: Path) -> None:
    (work / ".git").mkdir()
    (work / ".memory").mkdir()
    accept(settings.home, str(work))
    theirs = "---\nname: Theirs\ndescription: came along\ntype: project\n---\nSomething.\n"
    (work / ".memory" / "project_theirs.md").write_text(theirs)
    with Sheaf.open(settings=settings, cwd=str(work), by="user") as layers:
        layers.write("Ours", "written here", "project", "Anything else that matters.")
        assert names(layers, Filter(trust="shared")) == ["Theirs"]
        assert names(layers, Filter(trust="confirmed")) == ["Ours"]
        assert names(layers, Filter("something anything", trust="shared")) == ["Theirs"]
