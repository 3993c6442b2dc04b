"""Every example, and `memsheaf demo`, runs as it is: no key, no network, nothing set up, and nothing left behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
DEMO = (
    "remember", "MEMORY.md", "memory_read", "memory_update", "refused:", "Forgotten", "Undone, with your line in it:",
    "outside", "system prompt", "We chose PostgreSQL", "(nothing: no memory",
)  # fmt: skip
SAYS = {
    "agent_framework_memory": ("Session 2\n> When do releases go out?\n  the model reads: '<memories-",),
    "anthropic_memory": (
        "     6\tTabs, 4 wide, in every language.",
        "    release/todo.txt.md  [free]  1. Write the changelog\n",
    ),
    "anthropic_tools": ("  recalled: project_release-day.md\n",),
    "demo": DEMO,
    "google_adk_memory": ("memory: Our releases go out on Fridays.",),
    "harness_notebook": ("line 3 of its text holds a password; nothing was stored.",),
    "langchain_tools": ("model calls memory_search: user_prefers-tabs.md", "model: With tabs."),
    "langgraph_store": ("Which tea do I drink? -> I drink green tea in the morning.\n",),
    "mcp_over_http": ("other finds:  project_release-day.md",),
    "openai_tools": ("  recalled: project_release-day.md\n",),
    "pydantic_ai_agent": ("agent: I was told: Our staging database is called heron. Releases go out on Fridays.\n",),
}
"""An example, and pieces of what it prints."""


def test_no_example_is_left_out() -> None:
    programs = {path.stem for path in EXAMPLES.glob("*.py") if "__main__" in path.read_text(encoding="utf-8")}
    assert programs == set(SAYS) - {"demo"}


@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs_without_a_key_and_leaves_nothing_behind(name: str, tmp_path: Path) -> None:
    here, own, scratch = tmp_path / "here", tmp_path / "own", tmp_path / "scratch"
    here.mkdir()
    scratch.mkdir()
    names = ("MEMSHEAF_", "ANTHROPIC_", "OPENAI_", "GOOGLE_", "GEMINI_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(names)}
    kept |= {f"MEMSHEAF_{place.upper()}": str(own / place) for place in ("home", "cache", "state")}
    kept |= {"MEMSHEAF_MCP_TOKEN": "a-token-of-the-user-with-32-characters"}
    kept |= {"TMPDIR": str(scratch), "NO_PROXY": "127.0.0.1", "PYTHONUTF8": "1"}

    words = ("-m", "memsheaf", "demo") if name == "demo" else (str(EXAMPLES / f"{name}.py"),)
    ran = subprocess.run(
        [sys.executable, "-W", "error", *words],
        cwd=here, env=kept, capture_output=True, text=True, encoding="utf-8", check=False, timeout=120,
    )  # fmt: skip

    assert ran.returncode == 0, ran.stderr
    for said in SAYS[name]:
        assert said in ran.stdout
    assert ran.stderr == ""
    assert not own.exists(), "it wrote into the memory of whoever runs it"
    assert not list(here.iterdir())
    assert not list(scratch.iterdir())


def test_an_example_without_its_package_ends_with_one_line_that_says_what_to_install() -> None:
    code = "import runpy, sys; sys.path[:0] = sys.argv[1:3]; runpy.run_path(sys.argv[3], run_name='__main__')"
    for name in sorted(set(SAYS) - {"demo"}):
        example = EXAMPLES / f"{name}.py"
        words = [sys.executable, "-S", "-c", code, str(ROOT / "src"), str(EXAMPLES), str(example)]  # no site-packages
        ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
        needed = re.search(r"Needs: pip install (?:memsheaf )?(.*)", example.read_text(encoding="utf-8"))

        assert needed
        assert (ran.returncode, ran.stdout) == (1, ""), name
        assert re.fullmatch(rf"this example needs .*: pip install {re.escape(needed[1])} \(.*\)\n", ran.stderr), (
            ran.stderr
        )


@pytest.mark.parametrize("name", sorted(set(SAYS) - {"demo"}))
def test_an_example_says_what_to_install_and_a_page_leads_to_it(name: str) -> None:
    about = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8").split('"""')[1]
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md")]

    assert "Needs: pip install" in about
    assert any(f"](../examples/{name}.py)" in page for page in pages)
