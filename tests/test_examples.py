"""Every example, and `memsheaf demo`, runs as it is: no key, no network, nothing set up, and nothing left behind.

A program of examples/ runs as `__main__`. All ```python blocks of a page run in order, in one namespace; a ```text
block right after one is what it prints. Each program and each page has a process of its own, forked from one that
has loaded what they import.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from cases import each_case
from memsheaf.cli import main

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "guides").glob("*.md"))]
PAGES.remove(ROOT / "docs" / "servers.md")  # tests/hub/test_servers.py runs it, with servers
DEMO = (
    "no memories in project, user", "Saved user:user_pnpm.md", "user:user_pnpm.md  user", "<memories-",
    "saved: ", "+ We now deploy on Mondays", "Undone in ", "holds a password; nothing was stored", "# Memory",
)  # fmt: skip
SAYS = {
    "agent_framework_tools": ("tool: Memory saved: user_prefers-tabs.md", "Use tabs, not spaces. (agent, "),
    "anthropic_memory": (
        "     6\tTabs, 4 wide, in every language.",
        "    release/todo.txt.md  [free]  1. Write the changelog\n",
    ),
    "anthropic_tools": ("  recalled: project_release-day.md\n",),
    "demo": DEMO,
    "google_adk_tools": ("{'result': 'Memory saved: user_prefers-tabs.md'}", "Use tabs, not spaces. (agent, "),
    "langchain_tools": ("tool: Memory saved: user_prefers-tabs.md", "Use tabs, not spaces. (agent, "),
    "langgraph_store": ("Which tea do I drink? -> I drink green tea in the morning.\n",),
    "mcp_over_http": ("other finds:  project_release-day.md",),
    "openai_tools": ("  recalled: project_release-day.md\n",),
    "pydantic_ai_agent": ("agent: I was told: our staging database is called heron. Releases go out on Fridays.\n",),
}
"""An example, and pieces of what it prints."""
LANGCHAIN = "ignore:'asyncio.iscoroutinefunction' is deprecated:DeprecationWarning"  # with Python 3.14
ONCE = {
    "anthropic-memory", "audit", "daily-log", "layers", "library", "notes-and-facts", "promotion", "recall", "scopes",
    "secrets", "sessions", "tasks",
}  # fmt: skip
"""Pages whose examples save a memory, a task or a session of a fixed name, which is refused the second time."""

BLOCKS = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
RUN_PROGRAM = """import os, runpy, sys
os.environ["MEMSHEAF_MCP_TOKEN"] = "a-token-of-the-user-with-32-characters"
sys.path[0] = {!r}
runpy.run_path({!r}, run_name="__main__")
"""
RUNNER = """
import contextlib, gc, io, json, os, sys, tempfile, traceback
gc.disable()
import agent_framework, anthropic.resources, google.adk.runners, langgraph.graph, mcp, openai.resources, pydantic_ai
import mcp.client.streamable_http, memsheaf.tools, memsheaf.work.brief, numpy
from memsheaf import Settings, Sheaf
with tempfile.TemporaryDirectory() as place:  # what an example needs is loaded and compiled once for all of them
    settings = Settings(place + "/home", place + "/cache", state=place + "/state", embedder="none")
    with Sheaf.open("user", settings=settings) as sheaf:
        sheaf.learning.daily.note("Remember that we ship on Fridays, and I always use tabs.")
        sheaf.distil()
        sheaf.recall("When do we ship?")
gc.freeze()
gc.enable()
for folder, times, examples in json.load(sys.stdin):
    if os.fork():
        os.wait()
        continue
    os.chdir(folder + "/here")
    os.dup2(os.open(folder + "/errors", os.O_CREAT | os.O_WRONLY), 2)
    os.environ.update({"MEMSHEAF_" + name: folder + "/" + name.lower() for name in ("HOME", "CACHE", "STATE")})
    os.environ["TMPDIR"] = tempfile.tempdir = folder + "/scratch"
    printed = []
    try:
        for _ in range(times):  # as a reader would who tries it again
            names = {"__name__": "__main__"}
            for place, code in examples:
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    exec(compile(code, place, "exec"), names)
                printed.append(out.getvalue())
    except BaseException:
        traceback.print_exc()
    with open(folder + "/printed.json", "w") as file:
        json.dump(printed, file)
    os._exit(0)
"""


def blocks(page: Path) -> list[tuple[str, str, str | None]]:
    """Where a block of Python stands, the block, and what it is said to print; None when nothing is said."""
    text, name = page.read_text(encoding="utf-8"), page.relative_to(ROOT).as_posix()
    return [(f"{name}:{text.count(chr(10), 0, one.start()) + 2}", one[1], one[2]) for one in BLOCKS.finditer(text)]


def test_every_example_runs_without_a_key_and_prints_what_it_says(tmp_path: Path) -> None:
    pages = {page.stem: found for page in PAGES if (found := blocks(page))}
    assert {"README", "format", "library", "scopes"} <= set(pages), "the pages that teach have examples"
    jobs = [
        (str(tmp_path / name), 2 - (name in ONCE), [block[:2] for block in found]) for name, found in pages.items()
    ]
    programs = {name: RUN_PROGRAM.format(str(EXAMPLES), str(EXAMPLES / f"{name}.py")) for name in SAYS}
    programs["demo"] = "from memsheaf.cli import main; assert main(['demo']) == 0"
    jobs += [(str(tmp_path / name), 1, [(name, program)]) for name, program in programs.items()]
    for folder, *_ in jobs:
        os.makedirs(f"{folder}/here")
        os.makedirs(f"{folder}/scratch")
    secret = ("MEMSHEAF_", "ANTHROPIC_", "OPENAI_", "GOOGLE_", "GEMINI_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(secret)}
    kept |= {"MEMSHEAF_EMBEDDER": "none", "NO_PROXY": "127.0.0.1"}
    command = [sys.executable, "-X", "utf8", "-W", "error", "-W", LANGCHAIN, "-c", RUNNER]

    subprocess.run(command, input=json.dumps(jobs), env=kept, text=True, check=True)

    wrong = []
    printed = {name: json.loads((tmp_path / name / "printed.json").read_text("utf-8")) for name in (*pages, *SAYS)}
    for name, found in pages.items():
        for (place, _, says), said in zip(found, printed[name], strict=False):
            if says is not None and said != says:
                wrong.append(f"{place} prints {said}")
    for name, pieces in SAYS.items():
        wrong += [f"{name} does not print {piece}" for piece in pieces if piece not in "".join(printed[name])]
        wrong += [f"{name} left {path}" for path in (tmp_path / name).glob("*/*")]
    wrong += [f"{name}: {said}" for name in printed if (said := (tmp_path / name / "errors").read_text("utf-8"))]
    assert not wrong, "\n".join(wrong)


def test_the_commands_of_the_first_hour_can_be_typed_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = []
    for page in (ROOT / "README.md", ROOT / "docs" / "quick-start.md"):
        text = page.read_text(encoding="utf-8")
        typed += re.findall(r"^\$ ((?:cd|memsheaf) .*)$", text, re.MULTILINE)
        typed += re.findall(r"^(memsheaf (?:remember|recall|mcp --print-config) .*)$", text, re.MULTILINE)
    assert len(typed) > 8, typed
    place = {"HOME": str(tmp_path), "MEMSHEAF_HOME": str(tmp_path / "memories"), "MEMSHEAF_EMBEDDER": "auto"}
    for line in 2 * typed:
        first, *words = shlex.split(line, comments=True)
        if first == "cd":
            folder = Path(words[0].replace("~", str(tmp_path)))
            (folder / ".git").mkdir(parents=True, exist_ok=True)
            monkeypatch.chdir(folder)
        else:
            err = io.StringIO()
            assert (main(words, environment=place, stdout=io.StringIO(), stderr=err), err.getvalue()) == (0, ""), line


def test_a_framework_without_an_adapter_needs_sixty_lines_over_the_tools() -> None:
    for name in ("agent_framework_tools", "google_adk_tools", "langchain_tools"):
        assert len((EXAMPLES / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= 60, name


def test_no_example_is_left_out() -> None:
    programs = {path.stem for path in EXAMPLES.glob("*.py") if "__main__" in path.read_text(encoding="utf-8")}
    assert programs == set(SAYS) - {"demo"}


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


@each_case("name", sorted(set(SAYS) - {"demo"}))
def test_an_example_says_what_to_install_and_a_page_leads_to_it(name: str) -> None:
    about = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8").split('"""')[1]
    pages = [page.read_text(encoding="utf-8") for page in PAGES]

    assert "Needs: pip install" in about
    assert any(f"../examples/{name}.py)" in page for page in pages)
