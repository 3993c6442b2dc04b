"""Each module imports only from earlier rows and from its own folder."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "memsheaf"

ROWS = [
    {"values", "prompts"},
    {"caps", "errors", "timeouts"},
    {"trusted_repositories"},
    {"scope", "frontmatter"},
    {"memory"},
    {"text"},
    {"guard"},
    {"store", "embed"},
    {"llm"},
    {"archive", "config", "editing", "history", "index", "worktree"},
    {"erasure"},
    {"recall"},
    {"learn"},
    {"writer"},
    {"transfer"},
    {"sheaf"},
    {"work"},
    {"tools", "doctor"},
    {"adapters"},
    {"mcp"},
    {"chat"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, row in enumerate(ROWS) for name in row}


def modules() -> Iterator[Path]:
    for path in sorted(SOURCE.rglob("*.py")):
        if path != SOURCE / "__init__.py":  # the public names, loaded when they are used
            yield path


def imports(path: Path) -> Iterator[str]:
    """The parts of memsheaf that a module imports, wherever in the file it does so."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative imports hide where a name comes from"
            module = node.module or ""
            if module == "memsheaf":
                yield from (alias.name for alias in node.names)
            elif module.startswith("memsheaf."):
                yield module.split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("memsheaf."))


@pytest.mark.parametrize("path", list(modules()), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_from_earlier_layers(path: Path) -> None:
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    for name in imports(path):
        if name in LEVEL and name != own:
            assert LEVEL[name] < LEVEL[own], f"{own} imports {name}, which is not below it"


def test_every_module_has_a_layer() -> None:
    found = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in modules()}
    assert found - set(LEVEL) == set()
