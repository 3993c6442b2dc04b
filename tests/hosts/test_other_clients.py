"""Real coding agents other than Claude Code, as far as each runs offline: `make clients` runs them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hosts.real_clients import KINDS, RealClient, open_client, tell_and_ask

pytestmark = pytest.mark.long


@pytest.fixture(params=[name for name in KINDS if name != "claude-code"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RealClient]:
    with open_client(request.param, tmp_path / "home") as client:
        yield client


def test_a_preference_is_known_in_the_next_conversation_of_another_repository(
    client: RealClient, tmp_path: Path
) -> None:
    client.say("Good morning.", tmp_path / "before")  # some add a version or a schema to their settings
    before = client.files()
    client.memsheaf("install", client.name, "--yes")

    tell_and_ask(client, tmp_path)

    client.memsheaf("uninstall", client.name, "--yes")
    assert client.files() == before
