"""Packages of npm that tests run: fetched once, and kept in `.cache/node`."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from cases import give_up

ROOT = Path(__file__).resolve().parent.parent
OFFLINE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT", "ENETUNREACH", "ERR_SOCKET_TIMEOUT")


def require_node() -> None:
    """Give the test up where there is no node."""
    if None in (shutil.which("node"), shutil.which("npm")):
        give_up("node and npm are not installed")


def install_locked(folder: Path) -> Path:
    """Install what a folder's lock file pins, and give the place where the folder's files stand beside it."""
    pinned = hashlib.sha256((folder / "package-lock.json").read_bytes()).hexdigest()[:12]
    place = _cached(f"{folder.name}-{pinned}", ["ci"], folder)
    for script in folder.glob("*.mjs"):  # beside the packages, where node looks for them
        _place(script, place / script.name)
    return place


def install_packages(name: str, *packages: str) -> Path:
    """Install packages, each with its version, and give the folder that holds their programs."""
    return install_modules(name, *packages) / ".bin"


def install_modules(name: str, *packages: str) -> Path:
    """Install packages, each with its version, and give the folder that holds them."""
    pinned = hashlib.sha256(" ".join(packages).encode()).hexdigest()[:12]
    return _cached(f"{name}-{pinned}", ["install", *packages]) / "node_modules"


def _cached(name: str, words: list[str], folder: Path | None = None) -> Path:
    """Have npm install beside the place, and move it there whole; the loser of a race throws its own away."""
    require_node()
    place = ROOT / ".cache" / "node" / name
    if place.exists():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
        draft = Path(scratch) / "draft"
        if folder:
            shutil.copytree(folder, draft)
        else:
            draft.mkdir()
            (draft / "package.json").write_text('{"private": true}', encoding="utf-8")
        words = ["npm", *words, "--no-audit", "--no-fund", "--loglevel=error"]
        result = subprocess.run(words, cwd=draft, capture_output=True, text=True, timeout=600, check=False)
        if result.returncode and any(sign in result.stderr for sign in OFFLINE):
            give_up("npm can reach no registry, and nothing is in .cache/node")
        assert result.returncode == 0, result.stderr
        try:
            draft.rename(place)
        except OSError:
            assert place.exists()
    return place


def _place(source: Path, target: Path) -> None:
    """Copy a file in one step, since another test may be about to read it."""
    draft = target.with_name(f"{target.name}.{os.getpid()}")
    shutil.copyfile(source, draft)
    draft.replace(target)
