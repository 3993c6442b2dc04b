"""House rules: the order of imports, what the rim may use, and how large things may get."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "memsheaf"

# Each module imports only from earlier rows and from its own folder. A module of a folder may have a row of its own:
# most of `hub` lies below the sheaf, which opens replicas; what opens sheaves that have a hub lies above it.
ROWS = [
    {"prompts", "errors"},
    {"limits"},
    {"scope", "frontmatter"},
    {"memory"},
    {"text"},
    {"guard"},
    {"store"},
    {"state"},
    {"config"},
    {"llm", "hub"},
    {"encode"},
    {"index", "worktree"},
    {"gates"},
    {"recall"},
    {"open_scope"},
    {"learn"},
    {"transfer"},
    {"sheaf"},
    {"aio"},
    {"work"},
    {"hub.scopes", "hub.upkeep"},
    {"hub.server_replicas"},
    {"hub.jobs"},
    {"tools"},
    {"adapters"},
    {"hosts"},
    {"mcp"},
    {"chat"},
    {"web"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, row in enumerate(ROWS) for name in row}

# The rim asks a sheaf, or the folder of one scope, and runs no SQL.
RIM = {"work", "tools", "mcp", "adapters", "chat", "cli", "hosts", "web"} | {name for name in LEVEL if "." in name}
VALUES_OF_INDEX = {
    "UNUSABLE",
    "abandoned",
    "remove",
    "EVERYTHING",
    "Embedding",
    "Filter",
    "MAX_BYTES",
    "MAX_LINES",
    "Match",
    "Page",
    "Row",
    "RowCounts",
    "SHOWN_FROM",
    "SORTS",
    "asked_at",
    "database_for",
    "existing_vectors",
    "with_scope",
}

# Ratchets: each may only go down.
MAX_NODES = {
    "(flat) and work": 78_395,
    "adapters": 10_793,
    "chat": 28_447,
    "cli": 45_730,
    "encode, learn and text": 40_119,
    "guard": 14_530,
    "hosts": 29_441,
    "hub": 37_145,
    "index": 14_868,
    "llm": 10_456,
    "mcp": 14_895,
    "prompts": 61,
    "recall": 7_081,
    "state": 5_319,
    "store": 24_666,
    "web": 16_680,
}
"""AST nodes for each room: the amount of code that a reader must take in, however its lines are broken.

The modules beside the rooms and `work` share one number: what several scopes share moves from one to the other. So do
`encode`, `learn` and `text`: what is trained takes over what patterns and tables decided.
"""
SHARED_RATCHETS = {
    "work": "(flat) and work",
    **dict.fromkeys(("encode", "learn", "text"), "encode, learn and text"),
}
DEFERRED_IMPORTS = 113  # `import` inside a function
NAMED_TWICE = {"Memory", "Sheaf"}
"""Class names with two meanings: a memory and pydantic-ai's capability; a sheaf and its asynchronous twin."""


def modules() -> Iterator[Path]:
    for path in sorted(SOURCE.rglob("*.py")):
        if path != SOURCE / "__init__.py":  # the public names, loaded when they are used
            yield path


@cache
def nodes(path: Path) -> list[ast.AST]:
    """All nodes of a module, itself first."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def name_of(path: Path) -> str:
    """A module as imports name it.

    >>> name_of(SOURCE / "store" / "folder.py")
    'memsheaf.store.folder'
    """
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room(module: str) -> str:
    """Return the row that a module is in: its own name where ROWS has it, else that of its folder."""
    inner = module.removeprefix("memsheaf.")
    return inner if inner in LEVEL else inner.split(".")[0]


NAMES = {name_of(path) for path in modules()}


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """The modules of memsheaf that a module imports, wherever in the file, each with the name taken from it."""
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative imports hide where a name comes from"
            module = node.module or ""
            for alias in node.names if module.split(".")[0] == "memsheaf" else ():
                inner = f"{module}.{alias.name}"
                yield (inner, "") if inner in NAMES else (module, alias.name)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.startswith("memsheaf."))


def test_a_module_imports_only_from_earlier_layers() -> None:
    wrong = []
    for path in modules():
        own = room(name_of(path))
        for used in {room(module) for module, _ in imports(path)} - {own, "memsheaf"}:
            if LEVEL[used] >= LEVEL[own]:
                wrong.append(f"{name_of(path)} imports {used}, which is not below it")
    assert wrong == []


def test_every_module_has_a_layer() -> None:
    assert {room(name) for name in NAMES} - set(LEVEL) == set()


def test_the_rim_runs_no_sql() -> None:
    found = []
    for path in modules():
        for node in nodes(path) if room(name_of(path)) in RIM else ():
            if isinstance(node, ast.Attribute) and node.attr in ("query", "rows", "execute"):
                owner = node.value
                if isinstance(owner, ast.Attribute) and owner.attr in ("index", "_index", "db", "_db"):
                    found.append(f"{path.relative_to(SOURCE)}:{node.lineno} {owner.attr}.{node.attr}")
    assert found == []


def test_the_rim_takes_only_values_from_the_index() -> None:
    found = [
        f"{name_of(path)} imports {name} of {module}"
        for path in modules()
        if room(name_of(path)) in RIM
        for module, name in imports(path)
        if module.startswith("memsheaf.index") and name not in VALUES_OF_INDEX
    ]
    assert found == []


def test_no_modules_import_each_other() -> None:
    graph = {
        name_of(path): {module for module, _ in imports(path) if module in NAMES} - {name_of(path)}
        for path in modules()
    }
    circles = {name.removeprefix("memsheaf.") for name in graph if name in reachable(graph, name)}
    assert circles == set()


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """What a module imports, directly or through others."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def test_no_room_grows() -> None:
    sizes: dict[str, int] = defaultdict(int)
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).parts
        name = parts[0] if len(parts) > 1 else "work"
        sizes[SHARED_RATCHETS.get(name, name)] += len(nodes(path))

    assert {name: size for name, size in sizes.items() if size > MAX_NODES.get(name, 0)} == {}


@cache
def deferred(path: Path) -> int:
    """How many imports stand inside functions."""
    functions = [node for node in nodes(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return sum(isinstance(inner, ast.Import | ast.ImportFrom) for node in functions for inner in ast.walk(node))


def test_few_imports_are_deferred_and_each_package_says_which() -> None:
    assert sum(map(deferred, modules())) <= DEFERRED_IMPORTS
    for folder in {
        path.relative_to(SOURCE).parts[0] for path in modules() if path.parent != SOURCE and deferred(path)
    }:
        package = nodes(SOURCE / folder / "__init__.py")[0]
        assert isinstance(package, ast.Module)
        assert "Deferred imports" in (ast.get_docstring(package) or ""), folder


def test_a_class_name_means_one_thing() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in modules():
        for node in nodes(path):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name_of(path))
    twice = {name: found for name, found in places.items() if len(found) > 1 and name not in NAMED_TWICE}
    assert twice == {}
