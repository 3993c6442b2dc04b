"""Memory follows the person: what is told in one repository is known in the next, through every door."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import environment_in, run_command
from memsheaf import Message, Settings, Sheaf, Tools, Turn
from memsheaf.errors import Duplicate, Ref, ScopeRefused
from memsheaf.open_scope import choose_scope

TYPESCRIPT = "I prefer TypeScript, remember that"


class World:
    """One person with one home, and two git repositories."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = Settings(
            str(folder / "home"), str(folder / "cache"), state=str(folder / "home" / "state"), embedder="none"
        )
        self.environment = environment_in(folder, MEMSHEAF_STATE=self.settings.state)
        for name in ("a", "b"):
            subprocess.run(["git", "init", "-q", str(folder / name)], check=True)

    def layers(self, where: str, **more: Any) -> Sheaf:
        return Sheaf.open(settings=self.settings, cwd=str(self.folder / where), **more)

    def run(self, where: str, *words: str, stdin: str = "") -> tuple[int, str, str]:
        """Run a command in a repository."""
        return run_command(words, self.environment, folder=self.folder / where, stdin=stdin)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def layers(world: World) -> Iterator[Sheaf]:
    with world.layers("a", by="user") as layers:
        yield layers


# through every door


def test_what_the_offline_chat_is_told_in_one_repository_is_known_in_the_next(world: World) -> None:
    assert "Saved user:user_" in world.run("a", "chat", "-p", TYPESCRIPT)[1]

    assert "TypeScript" in world.run("b", "chat", "-p", "What do you know about me?")[1]
    assert "TypeScript" in world.run("b", "chat", "-p", "What do you know about my preferences?")[1]


def test_what_is_learned_behind_a_chat_goes_to_the_user_and_a_decision_to_the_project(world: World) -> None:
    conversation = [
        {"role": "user", "content": "Remember that I prefer single quotes over double quotes."},
        {"role": "assistant", "content": "Notice."},
        {"role": "user", "content": "We decided to use PostgreSQL for the auth service. Remember that."},
        {"role": "assistant", "content": "Notice."},
    ]

    code, out, err = world.run("a", "learn", "-", "--model", "none", stdin=json.dumps(conversation))

    assert (code, err) == (0, "")
    assert "saved: user:" in out
    assert "single quotes" in world.run("b", "recall", "Which quotes do I like, single or double quotes?")[1]
    assert "PostgreSQL" in world.run("a", "list")[1]
    assert "PostgreSQL" not in world.run("b", "list")[1]


def test_tools_in_another_repository_find_read_change_and_delete_it(world: World) -> None:
    with world.layers("a") as layers:
        tools = Tools(layers)
        assert tools.call("memory_write", _TABS) == "Memory saved: user:user_prefers-tabs.md"
        redis = {"name": "Uses Redis", "description": "Cache", "type": "project", "content": "The cache is Redis."}
        assert tools.call("memory_write", redis).startswith("Memory saved: project_uses-redis.md")

    name = "user:user_prefers-tabs.md"
    with world.layers("b") as layers:
        tools = Tools(layers)
        found = tools.call("memory_search", {"query": "tabs or spaces?"})
        assert found.startswith(f"{name}  [user]")
        assert "Redis" not in found
        assert "Use tabs." in tools.call("memory_read", {"filename": name})
        change = {"filename": name, "old_text": "Use tabs.", "new_text": "Use 3 spaces."}
        assert tools.call("memory_update", change) == f"Memory updated: {name}"
        assert tools.call("memory_delete", {"filename": name}) == f"Memory deleted: {name}"


_TABS = {"name": "Prefers tabs", "description": "Indentation", "type": "user", "content": "Use tabs."}


def test_recall_and_search_find_what_the_user_prefers_and_say_whose_it_is(world: World) -> None:
    world.run(
        "a",
        "remember",
        "Use tabs, not spaces.",
        "--name",
        "Prefers tabs",
        "--type",
        "user",
        "--description",
        "Tabs or spaces",
    )
    world.run(
        "b",
        "remember",
        "File names have no spaces.",
        "--name",
        "Spaces in names",
        "--type",
        "project",
        "--description",
        "Names",
    )

    recalled = json.loads(world.run("b", "recall", "tabs or spaces?", "--json")[1])
    found = json.loads(world.run("b", "search", "tabs", "spaces", "--json")[1])
    shown = json.loads(world.run("b", "show", "user:user_prefers-tabs.md", "--json")[1])

    assert ("user", "user:user_prefers-tabs.md") in [(one["scope"], one["path"]) for one in recalled["memories"]]
    assert "; user:user_prefers-tabs.md)" in recalled["text"]
    assert [(one["scope"], one["path"]) for one in found["memories"]] == [
        ("project", "project_spaces-names.md"),
        ("user", "user:user_prefers-tabs.md"),
    ]
    assert (shown["scope"], shown["body"]) == ("user", "Use tabs, not spaces.\n")
    assert json.loads(world.run("b", "search", "tabs", "--scope", "project", "--json")[1])["memories"] == []


# where it belongs


def test_a_new_memory_goes_where_it_belongs(layers: Sheaf) -> None:
    for number, (kind, text, scope) in enumerate(
        (
            ("user", "Prefers tabs.", "user"),
            ("feedback", "Always answer in English.", "user"),
            ("feedback", "In all my projects, no emoji in commits.", "user"),
            ("feedback", "Always run make check in this repository.", "project"),
            ("feedback", "Integration tests mock no database.\n\n**How to apply:** always.", "project"),
            ("project", "We always release on Fridays.", "project"),
            ("reference", "The dashboard is everywhere.", "project"),
        )
    ):
        assert choose_scope(kind, text, layers.scopes(), layers.home) == scope
        memory = layers.write(f"Name {number}", "When it matters", kind, text)
        assert memory.ref == Ref(scope, f"{kind}_name-{number}.md")


def test_a_fact_that_a_wider_scope_has_already_is_refused_under_its_name(layers: Sheaf) -> None:
    layers.write("Prefers tabs", "Indentation", "user", "The user prefers tabs for indentation, not spaces.")

    with pytest.raises(Duplicate) as refused:
        layers.write("Tabs", "Indentation", "feedback", "The user prefers tabs for indentation, not spaces.")

    assert refused.value.ref == Ref("user", "user_prefers-tabs.md")
    assert "'user:user_prefers-tabs.md' says the same already" in str(refused.value)


def test_files_of_one_name_in_two_scopes_stay_apart(layers: Sheaf) -> None:
    layers.only("project").write("Testing", "How we test", "feedback", "Run the tests.", path="feedback_testing.md")
    layers.only("user").write("Testing", "How I test", "feedback", "Write tests first.", path="feedback_testing.md")
    tools = Tools(layers)

    assert "Run the tests." in tools.call("memory_read", {"filename": "feedback_testing.md"})
    assert "Write tests first." in tools.call("memory_read", {"filename": "user:feedback_testing.md"})
    change = {"filename": "user:feedback_testing.md", "old_text": "first", "new_text": "last"}
    assert tools.call("memory_update", change) == "Memory updated: user:feedback_testing.md"
    assert layers.only("user").read("feedback_testing.md").body == "Write tests last.\n"
    assert tools.call("memory_delete", {"filename": "user:feedback_testing.md"}).endswith("user:feedback_testing.md")
    assert layers.only("project").read("feedback_testing.md").body == "Run the tests.\n"
    [commit] = layers.undo()
    assert (commit.scope, commit.revisions[0].path) == ("user", "feedback_testing.md")
    layers.only("project").write("Last", "d", "project", "It came last.")
    assert layers.undo()[0].scope == "project", "the last change, wherever it was made"


def test_a_memory_that_is_deleted_twice_does_not_take_its_namesake_of_the_user_with_it(layers: Sheaf) -> None:
    layers.only("project").write("X", "Of the project", "project", "The port is 8080.", path="x.md")
    layers.only("user").write("X", "Of the user", "user", "Likes bananas.", path="x.md")
    tools = Tools(layers)

    assert tools.call("memory_delete", {"filename": "x.md"}) == "Memory deleted: x.md"
    again = tools.call("memory_delete", {"filename": "x.md"})

    assert again.startswith("Error: Memory file 'x.md' not found.")
    assert "'user:x.md'" in again
    assert tools.call("memory_delete", {"filename": "user:x.md"}) == "Memory deleted: user:x.md"


@pytest.mark.skipif(os.name == "nt", reason="needs links")
def test_a_name_that_the_project_holds_as_a_link_is_not_taken_for_the_users(layers: Sheaf) -> None:
    layers.only("user").write("X", "Of the user", "user", "Likes bananas.", path="x.md")
    layers.only("project").write("Y", "Of the project", "project", "The port is 8080.")
    os.symlink("/etc/hostname", os.path.join(layers.only("project").root, "x.md"))
    tools = Tools(layers)

    answers = [tools.call(name, {"filename": "x.md"}) for name in ("memory_read", "memory_delete")]

    assert ["Error" in each and "bananas" not in each for each in answers] == [True, True]
    assert "bananas" in tools.call("memory_read", {"filename": "user:x.md"})


# learning


def turn(text: str, conversation: str = "c") -> Turn:
    return Turn(conversation, (Message("user", text), Message("assistant", "Notice.")))


def test_a_correction_finds_the_memory_in_the_scope_that_has_it(world: World) -> None:
    with world.layers("a") as layers:
        layers.learn(turn("Remember that I prefer pnpm."))
        (saved,) = layers.distil().of("saved")
    with world.layers("b") as layers:
        layers.learn(turn("Remember that I prefer yarn, not pnpm.", "d"))
        (corrected,) = layers.distil().of("saved")
        assert saved.ref == corrected.proposal.replaces == corrected.ref == Ref("user", "user_pnpm.md")
        (row,) = layers.list()
        assert layers.read(row.ref).body.startswith("I prefer yarn, not pnpm.\n")


def test_what_waits_for_a_person_is_approved_into_the_scope_that_it_belongs_to(world: World) -> None:
    world.settings = world.settings._replace(policy="suggest")
    with world.layers("a") as layers:
        layers.learn(turn("Remember that I prefer single quotes over double quotes."))
        done = layers.distil()
        (waiting,) = layers.learning.queue.all()
        assert [one.outcome for one in done.verdicts] == ["queued"]
        assert waiting.proposal.scope == "user"
        assert layers.learning.approve(waiting.id).scope == "user"
        assert layers.only("user").list()
        assert not layers.only("project").list()


CRASH = """
import glob, os, sys, time
from memsheaf import Sheaf, Message, Settings, Turn

home, where = sys.argv[1:3]
settings = Settings(home, home + "/cache", state=home + "/state", embedder="none")

def clock():
    if glob.glob(home + "/user/*_*.md"):
        os._exit(9)  # the first of two scopes has its memory
    return time.time()

with Sheaf.open(settings=settings, cwd=where, clock=clock) as layers:
    said = ("Remember that I prefer single quotes over double quotes. "
            "Remember that we decided to use PostgreSQL for the auth service.")
    layers.learn(Turn("c", (Message("user", said), Message("assistant", "Notice."))))
    layers.distil()
"""


def test_a_crash_between_two_scopes_leaves_the_second_to_be_done_and_the_first_done_once(world: World) -> None:
    where = str(world.folder / "a")
    killed = subprocess.run([sys.executable, "-c", CRASH, world.settings.home, where], check=False)
    assert killed.returncode == 9
    settings = world.settings._replace(cache=world.settings.home + "/cache")

    with Sheaf.open(settings=settings, cwd=where) as layers:
        assert len(layers.only("user").list()) == 1
        assert not layers.only("project").list()
        layers.distil()
        layers.distil()
        assert [
            "PostgreSQL" in layers.only("project").read(row.path).body for row in layers.only("project").list()
        ] == [True]
        assert len(layers.only("user").list()) == 1
        learned = [commit.why for commit in layers.log() if commit.why.startswith("learn ")]
        assert len(learned) == 2
        assert len(set(learned)) == 1


# the chat


def test_a_memory_of_a_scope_that_was_not_opened_is_refused(layers: Sheaf, settings: Settings) -> None:
    with Sheaf.open("agent/foo", settings=settings) as other:
        hidden = other.write("Secret plan", "Of another agent", "project", "We move to the moon.").ref

    for use in (
        lambda: layers.read(hidden),
        lambda: layers.forget(hidden),
        lambda: layers.put(hidden, "Text.", free=True),
        lambda: list(layers.log(hidden)),
    ):
        with pytest.raises(ScopeRefused, match="not among the scopes"):
            use()
