"""Real coding agents other than Claude Code, as far as each runs offline: `make clients` runs them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hosts.real_clients import KINDS, RealClient, prepare_client, wait_for
from model_api import serve_models

pytestmark = pytest.mark.long


@pytest.fixture(params=[name for name in KINDS if name != "claude-code"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RealClient]:
    home = tmp_path / "home"
    home.mkdir()
    with serve_models() as api:
        yield prepare_client(request.param, home, api)


def test_a_preference_is_known_in_the_next_conversation_of_another_repository(
    client: RealClient, tmp_path: Path
) -> None:
    before = client.files()
    client.memsheaf("install", client.name, "--yes")

    first = client.say("I prefer pnpm over npm for installing packages.", tmp_path / "one")
    assert any("memory_search" in request for request in first), "the tools of the server were not offered"
    assert any("Memory that outlives this conversation" in request for request in first)
    client.memsheaf("hook", "work")
    wait_for(lambda: "pnpm" in client.memsheaf("list"))

    second = client.say("Which package manager do I prefer, npm or another?", tmp_path / "two")
    [asked, *_] = [request for request in second if "or another" in request]
    assert "pnpm" in asked.partition("or another")[0], "the catalog is not at the start"
    assert "pnpm" in asked.partition("or another")[2], "the memory is not beside the message"

    client.memsheaf("uninstall", client.name, "--yes")
    assert client.files() == before
