"""Language models: those of providers, of a local server, and the user's own command.

Deferred imports, to start quickly: pydantic-ai and its SDKs, asyncio, and the models themselves: half a second that
only a request pays.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from memsheaf.llm.model import Answer, Model, Question, answer, object_schema

__all__ = ["Answer", "Model", "Question", "answer", "load_model", "object_schema"]


def load_model(name: str, *, url: str = "", key: str = "", environment: Mapping[str, str] = os.environ) -> Model:
    """Return the model of that name: `provider:model`, or the user's `claude` or `codex`, with `:model` or not.

    `url` is another address than the provider's own, and `key` the environment variable with the key for it. Nothing
    is sent, and nothing large is imported, before the first question.

    Raises:
        BadSettings: there is no such provider, or name, address and key do not go together.
        ModelFailed: a package, a key or a command is missing.
    """
    from memsheaf.llm.subprocess_model import TOOLS, SubprocessModel

    tool, _, model = name.partition(":")
    if tool in TOOLS:
        return SubprocessModel(tool, model, url=url, key=key, environment=environment)
    from memsheaf.llm.served import Served

    return Served(name, url=url, key=key, environment=environment)
