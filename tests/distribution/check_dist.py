"""Check a built sdist and wheel: metadata, contents, size; then try the wheel alone. `make dist` runs it.

python tests/distribution/check_dist.py dist
"""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE = ROOT / "src"
WHEEL_BYTES, SDIST_BYTES = 50_000_000, 55_000_000  # the encoder is 36 MB of both
SUFFIXES = {
    ".py",
    ".md",
    ".js",
    ".json",
    ".onnx",
    ".npy",
    ".toml",
    ".txt",
    ".typed",
    ".css",
    ".html",
    ".svg",
    ".sql",
}
IN_SDIST = ("README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "Makefile", "src/memsheaf/py.typed")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PHRASES = ("Saved user:user_prefers-pnpm.md", "<memories-", "Undid ", "which is gone now")  # of the demo
PATIENCE = 600  # seconds


def wheel_problems(wheel: Path) -> Iterator[str]:
    """What is wrong with a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        info = next(name.partition("/")[0] for name in names if name.endswith(".dist-info/METADATA"))
        yield from metadata_problems(archive.read(f"{info}/METADATA").decode())
        machine = [os.fsencode(place) for place in {str(ROOT), sys.prefix, str(Path.home())} if len(place) > 5]
        for name in sorted(names):
            if any(place in archive.read(name) for place in machine):
                yield f"{name} names a path of this machine"
    paths = (path for path in (SOURCE / "memsheaf").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    ours = {path.relative_to(SOURCE).as_posix() for path in paths}
    packed = {name for name in names if not name.startswith(f"{info}/")}
    yield from (f"{name} is not in the wheel" for name in sorted(ours - packed))
    yield from (f"{name} does not belong into the wheel" for name in sorted(packed - ours))
    yield from (f"{name} is no source and no data" for name in sorted(packed) if Path(name).suffix not in SUFFIXES)
    if wheel.stat().st_size > WHEEL_BYTES:
        yield f"the wheel has {wheel.stat().st_size:,} bytes, more than {WHEEL_BYTES:,}"


def sdist_problems(sdist: Path) -> Iterator[str]:
    """What is wrong with a source distribution."""
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive}
    yield from (f"{name} is not in the sdist" for name in IN_SDIST if name not in names)
    yield from (f"{name} is in the sdist" for name in sorted(names) if re.search(r"\.pyc$|(^|/)(\.venv|dist)/", name))
    if sdist.stat().st_size > SDIST_BYTES:
        yield f"the sdist has {sdist.stat().st_size:,} bytes, more than {SDIST_BYTES:,}"


def metadata_problems(text: str) -> Iterator[str]:
    """What a package index or its reader would miss."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    said = email.message_from_string(text)
    version = re.search(r'__version__ = "(.*)"', (SOURCE / "memsheaf" / "__init__.py").read_text(encoding="utf-8"))
    expected = {
        "Name": "memsheaf",
        "Version": version and version[1],
        "Summary": project["description"],
        "License-Expression": "Apache-2.0",
        "License-File": "LICENSE",
        "Requires-Python": f">={PYTHONS[0]}",
        "Description-Content-Type": "text/markdown",
    }
    yield from (f"{key} is {said[key]!r}, not {value!r}" for key, value in expected.items() if said[key] != value)
    classifiers = said.get_all("Classifier") or []
    for python in PYTHONS:
        if f"Programming Language :: Python :: {python}" not in classifiers:
            yield f"no classifier for Python {python}"
    if set(said.get_all("Provides-Extra") or []) != set(project["optional-dependencies"]):
        yield "the extras are not those of pyproject.toml"
    description = str(said.get_payload())
    if len(description) < 1000:
        yield "there is no description to speak of"
    for link in re.findall(r"\]\((?!https?://)(?!#)([^)]*)\)", description):
        yield f"the description links to {link!r}, which is not there on a package index"


def try_wheel(wheel: Path, place: Path) -> None:
    """Install the wheel with nothing else of ours, and run it where there is no source tree."""
    alone = place / "alone"
    run([sys.executable, "-m", "venv", str(alone)], place)
    run([str(alone / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", str(wheel)], place)
    python, memsheaf = str(alone / "bin" / "python"), str(alone / "bin" / "memsheaf")
    found = run([python, "-c", "import memsheaf; print(memsheaf.__file__)"], place)
    assert found.startswith(str(alone)), f"{found} is not the installed package"
    version = run([memsheaf, "--version"], place)
    assert version == run([python, "-m", "memsheaf", "--version"], place), "`python -m memsheaf` says something else"
    shown = run([memsheaf, "demo"], place)
    assert not [phrase for phrase in PHRASES if phrase not in shown], shown
    for example in sorted((ROOT / "examples").glob("*.py")):
        if "__main__" in example.read_text(encoding="utf-8"):
            said = run([python, str(example)], place, code=1)
            assert re.fullmatch(r"this example needs [^\n]*pip install [^\n]*\n", said), said
    tools = place / "tools"
    run([sys.executable, "-m", "venv", str(tools)], place)
    pip = str(tools / "bin" / "pip")
    own = {"UV_PYTHON": sys.executable, "UV_CACHE_DIR": f"{place}/uv", "PIPX_HOME": f"{place}/pipx"}
    for tool, *words in (("pipx", "pipx", "run", "--spec"), ("uv", "uvx", "--from")):
        installed = subprocess.run([pip, "install", "-q", tool], capture_output=True, text=True, check=False)
        if installed.returncode:
            print(f"not tried: {tool} cannot be installed: {installed.stderr.strip()[-200:]}")
        else:
            line = [str(tools / "bin" / words[0]), *words[1:], str(wheel), "memsheaf", "--version"]
            assert run(line, place, own) == version


def run(words: list[str], place: Path, more: Mapping[str, str] | None = None, *, code: int = 0) -> str:
    """Run a program in an empty folder, with nothing of ours in its environment; what it prints, or complains of."""
    empty = place / "empty"
    empty.mkdir(exist_ok=True)
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "MEMSHEAF_", "VIRTUAL_"))
    }
    kept |= {"MEMSHEAF_HOME": str(place / "memories"), **(more or {})}
    began = time.monotonic()
    ran = subprocess.run(words, cwd=empty, env=kept, capture_output=True, text=True, check=False, timeout=PATIENCE)
    print(f"{time.monotonic() - began:5.1f} s  {' '.join(words).replace(str(place), '.').replace(str(ROOT), '.')}")
    assert ran.returncode == code, f"exit code {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
    assert not list(empty.iterdir()), f"left behind: {list(empty.iterdir())}"
    return ran.stdout if code == 0 else ran.stderr


def main() -> int:
    """Check what is in the folder that the line names, and give the exit code."""
    folder = Path(sys.argv[1])
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    for path, limit in ((wheel, WHEEL_BYTES), (sdist, SDIST_BYTES)):
        print(f"{path.stat().st_size:>10,} bytes of at most {limit:,}  {path.name}")
    problems = [*wheel_problems(wheel), *sdist_problems(sdist)]
    if not problems:
        with tempfile.TemporaryDirectory(prefix="memsheaf-dist-") as place:
            try_wheel(wheel.resolve(), Path(place))
    print("\n".join(problems) or "sdist and wheel are sound")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
