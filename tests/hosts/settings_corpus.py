"""Settings files as people have them, made from a seed: layouts, comments, entries of others, and our older ones."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from random import Random
from typing import Any

import yaml  # type: ignore[import-untyped]

MARK = "mark-of-the-person"
OLD_HOOK = {"type": "command", "command": "'/opt/old venv/bin/memsheaf' hook claude-code Stop || exit 0"}
OLD_SERVER = {"command": "/opt/old venv/bin/memsheaf", "args": ["mcp"]}
_WORDS = [
    "theme",
    "model",
    "näme",
    "日本",
    'with "quotes"',
    "a//b",
    "/* no comment */",
    "tab\there",
    "x" * 200,
    "",
    "{",
    "],",
]


def read_jsonc(text: str) -> Any:
    """JSON with comments and trailing commas, read by taking both out of the text first."""
    text = text.removeprefix("\ufeff")
    strings = r'"(?:\\.|[^"\\])*"'
    text = re.sub(rf"({strings})|//[^\n]*|/\*.*?\*/", lambda found: found[1] or " ", text, flags=re.DOTALL)
    text = re.sub(rf"({strings})|,(?=\s*[}}\]])", lambda found: found[1] or "", text)
    return json.loads(text) if text.strip() else {}


READERS: dict[str, Callable[[str], Any]] = {
    "json": read_jsonc,
    "toml": lambda text: tomllib.loads(text.removeprefix("\ufeff")),
    "yaml": lambda text: yaml.safe_load(text) or {},
    "text": lambda text: text,
}


def make_text(rng: Random, format: str, ours: Any) -> str:
    """A settings file in one of the formats."""
    text = {"json": _json, "toml": _toml, "yaml": _yaml, "text": lambda *_: ""}[format](rng, ours)
    if rng.random() < 0.3:
        text = text.replace("\n", "\r\n")
    return "\ufeff" + text if rng.random() < 0.1 and format != "yaml" else text


def _value(rng: Random, depth: int) -> Any:
    kind = rng.random()
    if depth <= 0 or kind < 0.5:
        return rng.choice([*_WORDS, 0, -1.5, 1e30, True, False, None, MARK])
    if kind < 0.75:
        return {f"{rng.choice(_WORDS)}{number}": _value(rng, depth - 1) for number in range(rng.randrange(4))}
    return [_value(rng, depth - 1) for _ in range(rng.randrange(4))]


def _json(rng: Random, ours: dict[str, Any]) -> str:
    if rng.random() < 0.1:
        return rng.choice(
            ["", "\n", "  \n", "{}", "{}\n", "{ }", "{\n}\n", "// nothing yet\n", "{ // mine\n}\n", "{/* */}"]
        )
    value = {f"key{number}": _value(rng, 3) for number in range(rng.randrange(1, 5))}
    if rng.random() < 0.1:
        deep: Any = MARK
        for _ in range(60):
            deep = {"deeper": [deep]}
        value["deep"] = deep
    for key, held in ours.items():
        if rng.random() < 0.6:
            value[key] = _other_people(rng, key, held)
    items = list(value.items())
    rng.shuffle(items)
    style = _Style(rng)
    return style.render(dict(items), "") + rng.choice(["", "\n", "\n\n"])


def _other_people(rng: Random, key: str, held: Any) -> Any:
    """A container that ours goes into, with what others have in it, and maybe ours of an older version."""
    if key == "hooks":
        found: dict[str, Any] = {}
        for event in [*held, "Other"]:
            groups: list[Any] = [{"matcher": "x", "hooks": [{"type": "command", "command": "lint"}]}] * rng.randrange(
                3
            )
            if rng.random() < 0.2:
                groups.insert(0, {"hooks": [OLD_HOOK, *groups[:1]]})
            if rng.random() < 0.6:
                found[event] = groups
        return found
    if isinstance(held, dict):
        found = {f"other{number}": {"command": rng.choice(_WORDS)} for number in range(rng.randrange(3))}
        if "memsheaf" in held and rng.random() < 0.2:
            found["memsheaf"] = OLD_SERVER
        return {
            **found,
            **{inner: _other_people(rng, inner, one) for inner, one in held.items() if inner != "memsheaf"},
        }
    return ["Bash(ls)"] * rng.randrange(3) if isinstance(held, list) else held


class _Style:
    """A layout that somebody is used to."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.unit = rng.choice(["  ", "  ", "    ", "\t", ""])
        self.inline = rng.choice([0.0, 0.1, 0.5, 1.0])
        self.comments = rng.choice([0.0, 0.0, 0.2])
        self.trailing = self.comments > 0 and rng.random() < 0.7

    def render(self, value: Any, indent: str) -> str:
        if not isinstance(value, dict | list) or (not value and self.rng.random() < 0.7):
            return json.dumps(value, ensure_ascii=self.rng.random() < 0.5)
        items = list(value.items()) if isinstance(value, dict) else [(None, item) for item in value]
        inner = indent + self.unit
        texts = []
        for key, item in items:
            name = "" if key is None else json.dumps(key) + self.rng.choice([": ", ":", " : "])
            texts.append(self.comment(inner) + name + self.render(item, inner))
        opened, closed = "{}" if isinstance(value, dict) else "[]"
        if self.rng.random() < self.inline and not any(
            "//" in re.sub(r'"(?:\\.|[^"\\])*"', "", text) for text in texts
        ):
            space = self.rng.choice(["", " "])
            return opened + space + self.rng.choice([", ", ","]).join(texts) + space + closed
        after = ("," if self.trailing and texts else "") + (" // end" if self.rng.random() < self.comments else "")
        start = " // begin" if self.rng.random() < self.comments else ""
        lines = f",\n{inner}".join(texts)
        return f"{opened}{start}\n{inner}{lines}{after}\n{indent}{closed}"

    def comment(self, indent: str) -> str:
        if self.rng.random() >= self.comments:
            return ""
        return self.rng.choice(["/* block { */ ", f'// line ", {{\n{indent}', f"/* two\n{indent}lines */ "])


def _toml(rng: Random, ours: Any) -> str:
    lines = ['model = "x"', f'note = "{MARK}" # note', "many = [", '  "a", # one', "]"] if rng.random() < 0.8 else []
    for name in rng.sample(["tui", "mcp_servers.other", "mcp_servers.other.env", "profiles.a"], rng.randrange(4)):
        lines += [rng.choice(["", "# about it"]), f"[{name}]", 'a = "1"', f"b = '''\n[not.a.table]\n{MARK}'''"]
    if rng.random() < 0.25:
        old = [
            "[mcp_servers.memsheaf]",
            'command = "/opt/old venv/bin/memsheaf"',
            "# of an older version",
            'args = ["mcp"]',
        ]
        lines += [*old, "", "# behind it", "[zeta]", "c = 1"]
    return "\n".join(lines) + rng.choice(["", "\n", "\n\n"]) if lines else rng.choice(["", "\n", "# only a comment"])


def _yaml(rng: Random, ours: Any) -> str:
    [(parent, held)] = ours.items()
    lines = ["# settings", "name: x", f"note: '{MARK}'"] if rng.random() < 0.7 else []
    if rng.random() < 0.6:
        indent = rng.choice(["  ", "    "])
        lines += [f"{parent}:{rng.choice(['', ' # theirs'])}"]
        if isinstance(held, list):
            indent = rng.choice(["", indent])
            lines += [f"{indent}- name: other", f"{indent}  command: y"]
            lines += (
                [f"{indent}- name: memsheaf", f"{indent}  command: /opt/old/memsheaf"] if rng.random() < 0.3 else []
            )
        else:
            lines += [
                f"{indent}other:",
                f"{indent}{indent}enabled: true",
                f"{indent}{indent}text: |",
                f"{indent * 3}memsheaf: no",
            ]
            lines += (
                [f"{indent}memsheaf:", f'{indent * 2}cmd: "/opt/old venv/memsheaf"'] if rng.random() < 0.3 else []
            )
    lines += ["last:", "  - 1"] if rng.random() < 0.5 else []
    return "\n".join(lines) + rng.choice(["", "\n"]) if lines else rng.choice(["", "# nothing\n"])
