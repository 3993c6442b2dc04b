"""docs/sync.md, run as written: two homes as machines, and a folder that stands for the server behind ssh."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "sync.md"
SSH = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do case $1 in -[op]) shift 2 ;; *) shift ;; esac; done
[ "$1" = server ] && shift && cd "$SERVER" && exec sh -c "$*"
"""
GITCONFIG = "[user]\n\tname = Ana\n\temail = ana@example.com\n[init]\n\tdefaultBranch = main\n"


def commands(text: str) -> list[tuple[str, str, list[str]]]:
    """What is typed on which machine, and the lines that are shown below it."""
    found: list[tuple[str, str, list[str]]] = []
    for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if typed := re.fullmatch(r"(\w+)\$ (.*)", line):
                found.append((typed[1], typed[2], []))
            else:
                found[-1][2].append(line)
    return found


def without_days(text: str) -> list[str]:
    return re.sub(r"\d{4}-\d\d-\d\d", "DAY", text).splitlines()


@pytest.mark.parametrize("part", ["five commands", pytest.param("page", marks=pytest.mark.long)])
def test_the_page_is_run_as_it_is_written(tmp_path: Path, part: str) -> None:
    tools = tmp_path / "bin"
    for folder in ("bin", "server", "laptop", "desktop"):
        (tmp_path / folder).mkdir()
    (tools / "ssh").write_text(SSH)
    (tools / "memsheaf").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m memsheaf "$@"\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("MEMSHEAF_", "GIT_", "XDG_"))}
    kept |= {"PATH": f"{tools}:{os.environ['PATH']}", "SERVER": str(tmp_path / "server"), "MEMSHEAF_EMBEDDER": "none"}
    typed = commands(PAGE.read_text(encoding="utf-8"))
    for machine, command, shown in typed if part == "page" else typed[:5]:
        home = tmp_path / machine
        (home / ".gitconfig").write_text(GITCONFIG)
        done = subprocess.run(
            command,
            shell=True,
            cwd=home,
            env={**kept, "HOME": str(home)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        said = without_days(done.stdout)
        assert [line for line in without_days("\n".join(shown)) if line not in said] == [], f"{command}: {said}"
    assert (tmp_path / "server" / "memory.git" / "refs" / "heads" / "memsheaf" / "user").is_file()
    texts = b"".join(path.read_bytes() for path in (tmp_path / "desktop" / ".memsheaf").rglob("*") if path.is_file())
    assert b"white tea" not in texts


def test_from_nothing_to_two_machines_are_five_commands() -> None:
    _, _, rest = PAGE.read_text(encoding="utf-8").partition("## Five commands")
    assert len(commands(rest.partition("\n## ")[0])) == 5
