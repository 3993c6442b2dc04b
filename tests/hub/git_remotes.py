"""Git remotes for tests, and machines that use one."""

from __future__ import annotations

import subprocess
from pathlib import Path

from memsheaf.hub import HubSettings
from memsheaf.hub.git import GitRemote


def git(folder: Path, *words: str, given: str = "") -> str:
    """What git says."""
    command = ["git", "-C", str(folder), "-c", "user.name=Ana Person", "-c", "user.email=ana@example.com", *words]
    return subprocess.run(command, input=given, capture_output=True, check=True, text=True).stdout.strip()


def make_bare(folder: Path) -> None:
    """Make an empty remote."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--bare", "--template=")
    with (folder / "config").open("a") as config:
        config.write("[receive]\n\tautogc = false\n")


def add_hook(bare: Path, script: str, name: str = "pre-receive") -> Path:
    """Give a remote a hook."""
    hook = bare / "hooks" / name
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\n{script}\n")
    hook.chmod(0o755)
    return hook


def open_git(
    bare: Path, machine: str = "m1", *, url: str = "", namespace: str = "memsheaf/user", timeout: float = 30.0
) -> GitRemote:
    """A machine of its own: its copy is beside the remote."""
    settings = HubSettings(url or f"file://{bare}", namespace, machine, f"{machine}'s name")
    return GitRemote(settings, folder=str(bare.parent / f"copy-{machine}"), timeout=timeout)
