"""LangGraph's own tests of its SQLite store, run against ours.

They are in the source distribution of langgraph-checkpoint-sqlite, which pip fetches; nothing of it is copied here.
As a pytest plugin this file stands in for `langgraph.store.sqlite` before those tests import it; as a program it
prints what came of them: python tests/adapters/conformance/langgraph_store.py [test_store.py]
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

VERSION = "3.1.2"
SHA256 = "4e3f376fa6f192d6ad2a1a4643b039986f1593552ef870e9e45281575de6fbf2"
SDIST = f"langgraph_checkpoint_sqlite-{VERSION}.tar.gz"
FILES = ("test_store.py", "test_async_store.py")
CACHE = Path(__file__).resolve().parents[3] / ".cache" / "sdists"
OUTCOMES = "MEMSHEAF_CONFORMANCE_OUTCOMES"


class Unreachable(Exception):
    """No package index answers."""


def fetch(cache: Path = CACHE) -> Path:
    """The source distribution, from the cache or by pip; it must be the one that is known here.

    Raises:
        Unreachable: it is not in the cache, and pip reaches no index.
    """
    found = cache / SDIST
    if not found.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as fresh:
            package = f"langgraph-checkpoint-sqlite=={VERSION}"
            command = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--no-deps",
                "--no-binary",
                ":all:",
                "-d",
                fresh,
                package,
            ]
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
            if ran.returncode and "onnection" in ran.stderr + ran.stdout:
                raise Unreachable(ran.stderr)
            assert ran.returncode == 0, ran.stderr
            os.replace(Path(fresh) / SDIST, found)
    digest = hashlib.sha256(found.read_bytes()).hexdigest()
    assert digest == SHA256, f"{found} is another file than expected: {digest}"
    return found


def run(folder: Path, files: Sequence[str] = FILES) -> dict[str, set[str]]:
    """Run the tests in an empty folder; gives how each function of theirs came out, in all its variants."""
    with tarfile.open(fetch()) as archive:
        for member in archive.getmembers():
            _, _, inside = member.name.partition("/")
            if inside.startswith("tests/") and (data := archive.extractfile(member)):
                (folder / "tests").mkdir(exist_ok=True)
                (folder / "tests" / Path(inside).name).write_bytes(data.read())
    (folder / "pytest.ini").write_text("[pytest]\nanyio_mode = auto\nmarkers =\n  flaky\n  asyncio\n")
    outcomes = folder / "outcomes.json"
    command = [sys.executable, "-m", "pytest", "-q", "-p", Path(__file__).stem, "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [*command, "-k", "not file", *(f"tests/{name}" for name in files)],  # to us, a file and memory are one
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent), OUTCOMES: str(outcomes), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    (folder / "report.txt").write_text(ran.stdout)
    return {name: set(found) for name, found in json.loads(outcomes.read_text()).items()}


def stand_in() -> None:
    """Be `langgraph.store.sqlite`, as far as the tests import it."""
    from memsheaf import Settings, Sheaf
    from memsheaf.adapters.langgraph import MemsheafStore

    class Store(MemsheafStore):
        def setup(self) -> None: ...

        @classmethod
        @contextmanager
        def from_conn_string(cls, _: str, *, index: object = None, ttl: object = None) -> Iterator[MemsheafStore]:
            with tempfile.TemporaryDirectory() as home:
                settings = Settings(f"{home}/home", f"{home}/cache", state=f"{home}/state", embedder="auto")
                with Sheaf.open("agent/conformance", settings=settings) as sheaf:
                    yield cls(sheaf)

    class AsyncStore(Store):
        async def setup(self) -> None: ...  # type: ignore[override]

        @classmethod
        @asynccontextmanager
        async def from_conn_string(cls, *given: Any, **options: Any) -> AsyncIterator[MemsheafStore]:  # type: ignore[override]
            with super().from_conn_string(*given, **options) as store:
                yield store

    package, base, aio = (ModuleType(f"langgraph.store.sqlite{name}") for name in ("", ".base", ".aio"))
    package.__dict__.update(SqliteStore=Store, AsyncSqliteStore=AsyncStore, __path__=[])
    aio.__dict__.update(AsyncSqliteStore=AsyncStore)
    base.__dict__.update(SqliteIndexConfig=dict)
    # what is SQLite's own affair is not here, and its tests fail
    private = ("NS_MATCH_FUNCTION", "BaseSqliteStore", "_escape_glob_literal", "_namespace_match_pattern")
    base.__dict__.update(dict.fromkeys(private))
    sys.modules.update({module.__name__: module for module in (package, base, aio)})


_outcomes: dict[str, set[str]] = {}


def pytest_configure() -> None:
    stand_in()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or not report.passed:
        name = report.nodeid.removeprefix("tests/").partition("[")[0]
        _outcomes.setdefault(name, set()).add(report.outcome)


def pytest_sessionfinish() -> None:
    Path(os.environ[OUTCOMES]).write_text(json.dumps({name: sorted(found) for name, found in _outcomes.items()}))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        results = run(Path(made), sys.argv[1:] or FILES)
        print((Path(made) / "report.txt").read_text())
    failed = [name for name, found in results.items() if found != {"passed"}]
    print(f"{len(results) - len(failed)} of {len(results)} passed; not: {', '.join(failed) or 'none'}")
