"""Encoders behind an OpenAI-compatible `POST {url}/embeddings`.

Texts leave the process here, and nowhere else for the sake of meaning. So it is strict: https, but for this machine;
no redirect is followed; the key is read when it is needed, sent to one address, and shown to nobody; an answer is
used only if it is whole and sound.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from memsheaf.errors import ModelFailed
from memsheaf.llm.http import VARIABLE_NAME, HttpAnswer, error_message, exchange, parse_address, read_key
from memsheaf.scope import parse_json
from memsheaf.text.neutralize import cut_bytes, one_line

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

FORMAT = "api-1"  # version of how texts are prepared; change it when the vectors of a model would change
MAX_TEXT_BYTES = 8_000  # many servers refuse a text that is longer than their model reads
MAX_BATCH_TEXTS = 64
MAX_BATCH_BYTES = 100_000
MAX_MESSAGE_CHARS = 200

_HINT = "`memsheaf config` shows the settings of the embedder; without one, memories are found by their words."


class EmbeddingProvider(NamedTuple):
    """The address of a provider, the variable that holds its key, and the encoding that it must be asked for."""

    url: str
    key: str = ""
    encoding: str = "float"


PROVIDERS: Mapping[str, EmbeddingProvider] = {
    "openai": EmbeddingProvider("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "ollama": EmbeddingProvider("http://127.0.0.1:11434/v1"),
    "gemini": EmbeddingProvider("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "mistral": EmbeddingProvider("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    # Voyage refuses the encoding "float", which is what it does anyway; Jina calls it by another name.
    "voyage": EmbeddingProvider("https://api.voyageai.com/v1", "VOYAGE_API_KEY", encoding=""),
    "jina": EmbeddingProvider("https://api.jina.ai/v1", "JINA_API_KEY", encoding=""),
    "openai-compatible": EmbeddingProvider(""),
}


class ServedEncoder:
    """Texts as vectors, by a server. Nothing is sent before the first text comes; threads may share it.

    `name` is "provider:model". `url` is another address than the provider's own, and `key` the environment variable
    with the key for it. `timeout` is how many seconds one request may take.
    """

    remote = True

    def __init__(
        self,
        name: str,
        *,
        url: str = "",
        key: str = "",
        timeout: float = 10.0,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        kind, _, self._model = name.partition(":")
        if kind not in PROVIDERS or not self._model or not self._model.isprintable():
            others = f"auto, none, and provider:model with one of {', '.join(PROVIDERS)}"
            hint = "`memsheaf config embedder.name auto` takes the built-in one."
            raise ModelFailed(f"there is no encoder {name!r}, only {others}", hint=hint)
        self._provider = PROVIDERS[kind]
        if not (url or self._provider.url):
            raise ModelFailed(f"the encoder {name!r} needs an address", hint="Set its url, such as https://host/v1.")
        if key and not VARIABLE_NAME.fullmatch(key):
            raise ModelFailed("the key of an encoder is given as the name of an environment variable", hint=_HINT)
        try:
            self._place = parse_address(url or self._provider.url)
        except ValueError as error:
            raise ModelFailed(f"the encoder {name!r} has no address that can be used: {error}", hint=_HINT) from None
        # A provider's own key is for its own address; whoever gives another one says which key goes there.
        self._variable = key or ("" if url else self._provider.key)
        self._name = f"{name} at {self._place}"
        self._dimensions = 0
        self._timeout = timeout
        self._environment = environment

    @property
    def identity(self) -> str:
        """Return the model and the address, so that no question is needed."""
        return f"{self._model} {self._place} own {FORMAT}"

    @property
    def dimensions(self) -> int:
        """Return how many numbers a vector has; the first answer tells. Raises ModelFailed."""
        if not self._dimensions:
            self.encode(["."])
        return self._dimensions

    def encode(self, texts: Sequence[str]) -> NDArray[float32]:
        """Return one row of length 1 for each text.

        Raises:
            ModelFailed: there is no key, no answer in time, or none that can be used.
        """
        import numpy

        parts = [numpy.empty((0, self._dimensions), numpy.float32)]
        for batch in _batches(texts):
            question: dict[str, object] = {"model": self._model, "input": batch}
            if self._provider.encoding:
                question["encoding_format"] = self._provider.encoding
            data = self._ask(json.dumps(question, ensure_ascii=False).encode())
            try:
                rows = _vectors(data, len(batch))
                if self._dimensions and rows.shape[1] != self._dimensions:
                    raise ValueError(f"{rows.shape[1]} numbers a vector, where {self._dimensions} were expected")
            except ValueError as error:
                raise self._fail(f"gave an answer that cannot be used: {error}") from None
            self._dimensions = rows.shape[1]
            parts.append(rows)
        return numpy.concatenate([part for part in parts if len(part)] or parts)

    def _ask(self, body: bytes) -> bytes:
        """Return the answer to a question. Raises ModelFailed."""
        key = read_key(self._name, self._variable, self._environment)
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "memsheaf"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        try:
            answer = exchange(self._place, "/embeddings", body, headers, self._timeout)
        except (ConnectionResetError, ConnectionAbortedError, BrokenPipeError):
            raise self._fail("closed the connection before its answer was complete") from None
        except (OSError, UnicodeError) as error:
            raise self._explain_outage(error) from None
        if answer.status != 200:
            raise self._explain_refusal(answer, key)
        return answer.data

    def _explain_refusal(self, answer: HttpAnswer, key: str) -> ModelFailed:
        """Return what the server said instead of an answer, without the key that it may repeat."""
        if 300 <= answer.status < 400:
            return self._fail(f"answered {answer.status}, a redirect, which is not followed")
        message = error_message(parse_json(answer.data) or answer.data.decode("utf-8", "replace"))
        if key:
            message = message.replace(key, "…")
        problem = f"answered {answer.status}: {one_line(message, MAX_MESSAGE_CHARS)}".removesuffix(": ")
        if self._variable and 400 <= answer.status < 404:
            problem += f" (the key is in the environment variable {self._variable})"
        return self._fail(problem)

    def _explain_outage(self, error: Exception) -> ModelFailed:
        if isinstance(error, TimeoutError):
            return self._fail(f"gave no answer within {self._timeout:g} seconds")
        if isinstance(error, ConnectionRefusedError):
            return self._fail("cannot be reached: nothing listens there")
        reason = getattr(error, "verify_message", "") or getattr(error, "strerror", "") or str(error)
        return self._fail(f"cannot be reached: {one_line(reason, MAX_MESSAGE_CHARS)}")

    def _fail(self, problem: str) -> ModelFailed:
        return ModelFailed(f"{self._name} {problem}", hint=_HINT)


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield the texts in their order, as many at once as one request may hold.

    Each is cut, and is what any server takes: sound UTF-8, and not blank, which most refuse.
    """
    batch: list[str] = []
    size = 0
    for given in texts:
        text = cut_bytes(given.strip().encode("utf-8", "replace").decode(), MAX_TEXT_BYTES) or "."
        length = len(text.encode())
        if batch and (len(batch) == MAX_BATCH_TEXTS or size + length > MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += length
    if batch:
        yield batch


def _vectors(data: bytes, count: int) -> NDArray[float32]:
    """Return the rows of an answer, of length 1, in the order of their texts. Raises ValueError: it is not sound."""
    import numpy

    rows: dict[int, object] = {}
    match parse_json(data):
        case {"data": [*items]}:
            for place, item in enumerate(items):
                match item:
                    case {"embedding": list(row), "index": int(number)}:
                        rows[number] = row
                    case {"embedding": list(row)} if item.get("index") is None:
                        rows[place] = row  # Gemini leaves out the number 0
        case _:
            raise ValueError("it has no list 'data'")
    if rows.keys() != set(range(count)):
        raise ValueError(f"its vectors are not numbered from 0 to {count - 1}, each once")
    try:
        vectors = numpy.array([rows[number] for number in range(count)])
    except ValueError:
        raise ValueError("its vectors are not of one length") from None
    if vectors.ndim != 2 or vectors.dtype.kind not in "iuf":
        raise ValueError("a vector is no list of numbers")
    vectors = vectors.astype(numpy.float64)
    if not numpy.isfinite(vectors).all():
        raise ValueError("a vector has numbers that are not finite")
    largest = numpy.abs(vectors).max(axis=1, keepdims=True, initial=0)
    if not largest.all():
        raise ValueError("a vector is all zeros")
    vectors /= largest  # first, so that no square is too large or too small
    vectors /= numpy.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(numpy.float32)
