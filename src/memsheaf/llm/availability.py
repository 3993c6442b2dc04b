"""Which models can be used from here, and what the others lack; nothing is sent."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from memsheaf.embed.http import ServerAddress, parse_address
from memsheaf.errors import BadSettings, ModelFailed
from memsheaf.llm import load_model
from memsheaf.llm.providers import PROVIDERS, Provider, choose, packages_lacking
from memsheaf.llm.subprocess_model import TOOLS
from memsheaf.values import NamedTuple

_KNOCK = 0.5  # seconds for somebody on this machine to open


class Way(NamedTuple):
    """A way to a model: a provider, a server on this machine or a command. `problem` is why it cannot be used now."""

    name: str
    kind: str
    problem: str = ""
    hint: str = ""


def ways(environment: Mapping[str, str]) -> list[Way]:
    """All ways that we know, in the order of how they are told."""
    served = [_served(name, provider, environment) for name, provider in PROVIDERS.items()]
    return [*served, *(way(tool, environment=environment, kind="command") for tool in TOOLS)]


def way(name: str, *, url: str = "", key: str = "", environment: Mapping[str, str], kind: str = "model") -> Way:
    """The way to one model, by its name: whether its package, its key and, on this machine, its server are there."""
    try:
        load_model(name, url=url, key=key, environment=environment)
    except (ModelFailed, BadSettings) as error:
        return Way(name, kind, str(error), error.hint)
    if name.partition(":")[0] in TOOLS:
        return Way(name, kind)
    return Way(name, kind, _silent(choose(name, url=url, key=key, environment=environment).place))


def _served(name: str, provider: Provider, environment: Mapping[str, str]) -> Way:
    kind = "server" if provider.url else "provider"
    if lacking := packages_lacking(provider):
        return Way(name, kind, f"needs the package {lacking[0]}", f"pip install 'pydantic-ai-slim[{provider.extra}]'")
    if provider.keys and not any(environment.get(variable) for variable in provider.keys):
        return Way(name, kind, f"needs a key in {' or '.join(provider.keys)}")
    if not provider.keys and not provider.url:
        return Way(name, kind, "needs an address in model.url", "Whatever speaks like OpenAI can be at it.")
    return Way(name, kind, _silent(parse_address(provider.url) if provider.url else None))


def _silent(place: ServerAddress | None) -> str:
    """What is wrong with a server on this machine that does not open; elsewhere it is not tried."""
    if not place or not place.is_here:
        return ""
    try:
        socket.create_connection((place.host.strip("[]"), place.port or 80), _KNOCK).close()
    except OSError:
        return f"nothing listens at {place}"
    return ""
