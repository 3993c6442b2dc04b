"""The map of memories: like ones near each other, the same every time, kept without their words."""

from __future__ import annotations

import doctest
from pathlib import Path

import numpy
import pytest

from memsheaf import Settings, Sheaf
from memsheaf.index import layout
from memsheaf.memory import Allow
from memsheaf.recall.memory_map import MapMaker, MemoryMap, render_svg

TOPICS = {
    "deploy": "Deploy staging rollout canary release helm",
    "tabs": "Tabs spaces indentation formatting lint quotes",
    "部署": "部署流程 数据库备份 发布计划",
}


@pytest.fixture
def filled(sheaf: Sheaf) -> Sheaf:
    for number in range(36):
        topic = list(TOPICS)[number % 3]
        words = TOPICS[topic].split()
        told = f"{words[number % len(words)]} {words[number // 3 % len(words)]} {topic}"
        sheaf.remember(f"{told} {number}", told, "project", f"{told}.", allow=Allow(anyway=True))
    return sheaf


def make(sheaf: Sheaf) -> MemoryMap:
    return MapMaker(sheaf.settings.cache).make({"user": sheaf.overview})


def test_like_texts_are_near_each_other_and_the_map_is_the_same_every_time() -> None:
    random = numpy.random.default_rng(5)
    labels = numpy.arange(150) % 3
    vectors = numpy.eye(3, 40, dtype=numpy.float32)[labels] * 6 + random.standard_normal((150, 40), numpy.float32)

    points = layout.place(vectors).points

    assert (points == layout.place(vectors).points).all()
    assert numpy.abs(points).max() <= 1
    middles = numpy.stack([points[labels == label].mean(axis=0) for label in range(3)])
    nearest = numpy.linalg.norm(points[:, None] - middles, axis=2).argmin(axis=1)
    assert (nearest == labels).mean() > 0.95


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 9, 30])
def test_any_number_of_texts_has_its_places_even_if_all_are_the_same(count: int) -> None:
    points = layout.place(numpy.ones((count, 8), numpy.float32)).points

    assert points.shape == (count, 2)
    assert numpy.isfinite(points).all()


def test_more_than_can_be_laid_out_are_placed_near_those_that_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "LANDMARKS", 60)
    labels = numpy.arange(200) % 2
    noise = numpy.random.default_rng(3).standard_normal((200, 16), numpy.float32) * 0.1

    points = layout.place(numpy.eye(2, 16, dtype=numpy.float32)[labels] + noise).points

    apart = points[labels == 0].mean(axis=0) - points[labels == 1].mean(axis=0)
    sides = (points - points.mean(axis=0)) @ apart > 0
    assert (sides == (labels == 0)).mean() > 0.95


def test_clusters_are_named_by_their_telling_words(filled: Sheaf) -> None:
    clusters = make(filled).clusters

    named = " ".join(cluster.name for cluster in clusters)
    assert "deploy" in named
    assert "tabs" in named
    assert "部署" in named
    assert doctest.testmod(layout).failed == 0


def test_a_new_memory_is_placed_beside_its_like_and_nothing_else_moves(filled: Sheaf) -> None:
    before = {dot.path: (dot.x, dot.y) for dot in make(filled).dots}
    new = filled.remember("Canary deploy", "Deploy rollout canary release", "project", "Deploy the canary first.")

    after = {dot.path: (dot.x, dot.y) for dot in make(filled).dots}

    place = after.pop(new.path)
    assert after == before
    likes = [numpy.hypot(x - place[0], y - place[1]) for path, (x, y) in after.items() if "deploy" in path]
    others = [numpy.hypot(x - place[0], y - place[1]) for path, (x, y) in after.items() if "tabs" in path]
    assert min(likes) < min(others)


def test_links_are_what_supersedes_and_what_is_named(sheaf: Sheaf) -> None:
    old = sheaf.remember("Uses make", "How to build", "project", "Run make.")
    text = "---\nname: Uses just\ndescription: Building\ntype: project\nsupersedes:\n  - {}\n---\n\nRun just.\n"
    sheaf.put("project_just.md", text.format(old.path))
    sheaf.remember("Editor", "Which editor", "user", "It is helix; see [[uses just]] for keys.")

    found = make(sheaf)

    named = [(found.dots[link.source].name, found.dots[link.target].name, link.why) for link in found.links]
    assert sorted(named) == [("Editor", "Uses just", "mentions"), ("Uses just", "Uses make", "supersedes")]


def test_the_cache_has_no_word_of_a_memory_and_may_be_damaged(filled: Sheaf, settings: Settings) -> None:
    made = make(filled)
    (file,) = Path(settings.cache).glob("*.map.npz")

    assert b"deploy" not in file.read_bytes().lower()
    file.write_bytes(b"PK damaged")
    assert make(filled) == made


def test_the_picture_escapes_what_memories_say(sheaf: Sheaf) -> None:
    for number in range(8):
        sheaf.remember(f"<script>&quot;{number}", "x<b>", "user", f"Number {number}.", allow=Allow(anyway=True))

    picture = render_svg(make(sheaf))

    assert picture.startswith("<svg")
    assert picture.count("<circle") == 8
    assert "<script" not in picture
