"""What a program may rely on: the public names, what importing costs, the README's words."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import memsheaf

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment or None, check=False, timeout=60
    )


def test_the_public_names_are_these() -> None:
    assert memsheaf.__all__ == [
        "ABSENT", "Allow", "Blamed", "Commit", "Distilled", "Exported", "Finding", "Hit", "Imported", "Memory",
        "MemsheafError", "Message", "Page", "Proof", "Recall", "Ref", "Revision", "Row", "Saved", "Scope", "Session",
        "Settings", "Sheaf", "Tools", "Turn", "__version__", "load_model",
    ]  # fmt: skip


def test_every_public_name_is_there_and_says_what_it_is() -> None:
    for name in memsheaf.__all__:
        value = getattr(memsheaf, name)
        assert isinstance(value, str) or value.__doc__, name


def test_a_name_that_is_not_public_is_refused() -> None:
    result = run("import memsheaf; memsheaf.Nothing")
    assert "has no attribute 'Nothing'" in result.stderr


def test_importing_memsheaf_loads_nothing_heavy() -> None:
    result = run("import sys, memsheaf; print(sorted(m for m in sys.modules if m.startswith('memsheaf')))")
    assert result.stdout.strip() == "['memsheaf']"


def test_opening_a_sheaf_stays_within_the_import_budget(tmp_path: Path) -> None:
    heavy = {
        "inspect",
        "dataclasses",
        "pathlib",
        "asyncio",
        "difflib",
        "tarfile",
        "zipfile",
        "tomllib",
        "argparse",
        "email",
    }
    code = (
        "import sys; before = set(sys.modules)\n"
        "from memsheaf import Sheaf\n"
        "with Sheaf.open('user') as sheaf: sheaf.write('A', 'b', 'user', 'c'); sheaf.prompt()\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    result = run(code, MEMSHEAF_HOME=str(tmp_path / "home"), MEMSHEAF_CACHE=str(tmp_path / "cache"))
    loaded = set(result.stdout.split())
    assert "memsheaf.sheaf" in loaded, result.stderr
    assert not loaded & heavy


def test_the_first_example_of_the_readme_has_ten_lines_at_most() -> None:
    example = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert example is not None
    assert len([line for line in example[1].splitlines() if line.strip()]) <= 10


def test_no_message_names_a_file_that_only_the_repository_has() -> None:
    only = re.compile(r"\b(?:docs|examples)/[\w-]+\.(?:md|py)|see README|pip install (?:-e )?['\"]?\.")
    found = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        nodes = ast.walk(ast.parse(text)) if only.search(text) else ()
        said = (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
        found += [f"{path.name}: {named[0]}" for text in said if (named := only.search(text))]
    for path in sorted((ROOT / "src").rglob("prompts/*.md")):
        found += [f"{path.name}: {named}" for named in only.findall(path.read_text(encoding="utf-8"))]
    assert found == []


def test_nothing_in_the_tree_names_a_machine_or_how_it_was_made() -> None:
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    pattern = re.compile(
        r"(?<!\w)/(?:work(?!/project\b)|root|farm)/[a-z]|/home/(?!victim|user|me\b|you)[a-z]|\.\./shared(?!/data)",
        re.IGNORECASE,
    )
    for name in filter(None, files.split("\0")):
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ""} and path.is_file() and path != Path(__file__):
            found = pattern.search(path.read_text(encoding="utf-8"))
            assert not found, f"{name}: {found and found[0]}"


def test_a_process_of_ours_imports_nothing_from_the_folder_that_it_starts_in() -> None:
    for path in sorted((ROOT / "src").rglob("*.py")):
        for started in re.findall(r".{6}\"-m\", \"memsheaf\"", path.read_text(encoding="utf-8")):
            assert started.startswith('"-P", '), f"{path.name}: a repository may have a memsheaf.py of its own"
