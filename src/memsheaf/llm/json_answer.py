"""Parse a model's text as the JSON it was asked for; JSON inside other text is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NoReturn

ANSWER_BYTES = 4_000_000  # limit of an answer; what we ask for has a few thousand bytes

_FENCED = re.compile(r"```(?:json)?[ \t]*\r?\n(.*)\n[ \t]*```", re.DOTALL | re.IGNORECASE)
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}


class UnusableAnswer(ValueError):
    """An answer that is not what was asked for. The message says what is wrong, and shows nothing of the text."""


def read(text: str, schema: Mapping[str, object]) -> object:
    """Return the JSON that a text is, or that the one fenced block is which makes up the text.

    Only its outer shape is held against the schema: the type, and for an object the keys that it must have.

    >>> read('```json\\n{"found": []}\\n```', {"type": "object", "required": ["found"]})
    {'found': []}
    >>> read('The answer is {"found": []}', {"type": "object"})
    Traceback (most recent call last):
    memsheaf.llm.json_answer.UnusableAnswer: it is no JSON

    Raises:
        UnusableAnswer: it is not that.
    """
    fenced = _FENCED.fullmatch(text.strip())
    try:
        value = json.loads(fenced[1] if fenced else text, parse_constant=_refuse)
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UnusableAnswer("it holds half characters") from None
    except (ValueError, RecursionError):
        raise UnusableAnswer("it is no JSON") from None
    return _check_shape(value, schema)


def _check_shape(value: object, schema: Mapping[str, object]) -> object:
    """Return the value, if it has the outer shape that the schema asks for. Raises UnusableAnswer."""
    wanted = schema.get("type")
    if not isinstance(wanted, str) or wanted not in _TYPES:
        return value
    if not isinstance(value, _TYPES[wanted]) or (isinstance(value, bool) and wanted != "boolean"):
        raise UnusableAnswer(f"it is JSON, but not of the type {wanted}")
    required = schema.get("required")
    if isinstance(value, dict) and isinstance(required, list | tuple):
        missing = [str(key) for key in required if key not in value]
        if missing:
            raise UnusableAnswer(f"it has no {missing[0]!r}")
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number of JSON")
