"""Which encoder there is, by its name and by what is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cases import each_case
from memsheaf.encode import find_encoder
from memsheaf.encode.api import PROVIDERS
from memsheaf.errors import ModelFailed


def describe(name: str, missing: str) -> str:
    """The class that `find_encoder` gives where a module cannot be imported, or why there is none."""
    code = f"""
import sys
sys.modules[{missing!r}] = None
from memsheaf.encode import find_encoder
from memsheaf.errors import ModelFailed
try:
    print(type(find_encoder({name!r})).__name__)
except ModelFailed as error:
    print(error, error.hint)
"""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@each_case(
    "name, missing, answer",
    [
        *((name, "-", "BuiltInEncoder") for name in ("", "static")),  # that one of an old config.toml
        ("none", "numpy", "NoneType"),
        ("ollama:m", "onnxruntime", "ServedEncoder"),
        ("ollama:m", "numpy", "'ollama:m' needs numpy `pip install"),
        *(("auto", library, "`pip install --force") for library in ("numpy", "tokenizers")),
    ],
)
def test_the_encoder_of_a_name_is_found_and_what_is_missing_is_named(name: str, missing: str, answer: str) -> None:
    assert answer in describe(name, missing)


@each_case("name", ["word2vec", "MiniLM", "cohere:embed", "semantic:x", "auto "])
def test_an_encoder_nobody_knows_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(ModelFailed) as caught:
        find_encoder(name)
    for known in ("auto", "none", *PROVIDERS):
        assert known in str(caught.value)


def test_nothing_large_is_loaded_before_it_is_needed_and_no_provider_unless_it_is_named() -> None:
    code = """
import sys
from memsheaf.encode import find_encoder
def loaded(*names):
    return sorted(set(names) & set(sys.modules))
find_encoder("none", url="https://host.example/v1", key="K")
print(loaded("numpy", "onnxruntime", "tokenizers", "memsheaf.encode.api"))
find_encoder("openai:text-embedding-3-small").identity
print(loaded("numpy", "onnxruntime", "http", "urllib.request", "ssl", "socket", "memsheaf.encode.api"))
del sys.modules["memsheaf.encode.api"]
find_encoder("auto", url="https://host.example/v1", key="K")
print(loaded("memsheaf.encode.api"))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout == "[]\n['memsheaf.encode.api']\n[]\n"


# telemetry


def test_encoding_a_text_writes_no_file_and_sends_nothing(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}  # and no sign of CI
    program = "from memsheaf.encode import built_in; built_in().encode(['hello'])"

    subprocess.run([sys.executable, "-P", "-c", program], env=environment, check=True)

    assert list(tmp_path.rglob("*")) == []
