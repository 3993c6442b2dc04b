"""JSON schemas of tools, from their signatures and docstrings; and the arguments that a model gave, checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, get_type_hints

from memsheaf.errors import TextRefused
from memsheaf.text.neutralize import one_line

AnyTool = Callable[..., object]
ALIASES = {"memory_type": "type", "old_str": "old_text", "new_str": "new_text", "kind": "type"}
_NUMBER = re.compile(r"\s*-?[0-9]{1,9}\s*")
SHAPES: Mapping[str, Callable[[str, str, dict[str, Any]], dict[str, Any]]] = {
    "anthropic": lambda name, said, takes: {"name": name, "description": said, "input_schema": takes},
    "openai": lambda name, said, takes: {
        "type": "function", "function": {"name": name, "description": said, "parameters": takes},
    },
    "openai-responses": lambda name, said, takes: {  # strict unless told otherwise, and then nothing is optional
        "type": "function", "name": name, "description": said, "parameters": takes, "strict": False,
    },
    "mcp": lambda name, said, takes: {"name": name, "description": said, "inputSchema": takes},
}  # fmt: skip


def schema(tool: AnyTool) -> dict[str, Any]:
    """Describe a tool as a JSON schema, from its signature and its docstring."""
    hints = get_type_hints(tool, include_extras=True)
    del hints["return"]
    names = list(hints)[1:]  # the first is the conversation's
    return {
        "name": tool.__name__,
        "description": " ".join((tool.__doc__ or "").split()),
        "input_schema": {
            "type": "object",
            "properties": {name: _property(hints[name]) for name in names},
            "required": names[: len(names) - len(tool.__defaults__ or ())],
            "additionalProperties": False,
        },
    }


@cache
def parameters(tool: AnyTool) -> dict[str, Any]:
    """The JSON schema of a tool's arguments, worked out once."""
    shape: dict[str, Any] = schema(tool)["input_schema"]
    return shape


def _property(hint: Any) -> dict[str, Any]:
    """Describe an argument that is `Annotated[type, description]` or `Annotated[type, description, choices]`."""
    description, *choices = hint.__metadata__
    shape = {"type": "integer" if hint.__origin__ is int else "string", "description": description}
    return shape | ({"enum": list(choices[0])} if choices else {})


def from_json(text: str) -> object:
    """The object that a model wrote as JSON, {} when it wrote nothing; None for all else."""
    from memsheaf.llm.json_answer import ANSWER_BYTES, read

    if len(text) > ANSWER_BYTES:
        return None
    try:
        return read(text or "{}", {"type": "object"})
    except ValueError:
        return None


def arguments_of(tool: AnyTool, given: Mapping[str, object]) -> dict[str, object]:
    """The arguments a tool takes, from those a model gave: known names, right types, nothing missing."""
    shape = parameters(tool)
    known: dict[str, Any] = shape["properties"]
    arguments: dict[str, object] = {}
    for name, value in given.items():
        name = str(name)
        name = name if name in known else ALIASES.get(name, name)
        if name not in known:
            raise TextRefused(
                f"{tool.__name__} takes no argument '{one_line(name, 40)}'; it takes {', '.join(known)}"
            )
        if value is None:
            continue
        wanted = int if known[name]["type"] == "integer" else str
        if wanted is int and isinstance(value, str) and _NUMBER.fullmatch(value):
            value = int(value)
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise TextRefused(f"{tool.__name__}: '{name}' must be {'a number' if wanted is int else 'a text'}")
        arguments[name] = value
    if missing := [name for name in shape["required"] if name not in arguments]:
        raise TextRefused(f"{tool.__name__} needs {', '.join(missing)}")
    return arguments
