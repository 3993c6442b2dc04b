from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

Run = Callable[..., tuple[int, str, str]]


class Served(BaseHTTPRequestHandler):
    """An embedder of two dimensions, as servers offer them."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = asked["input"] if isinstance(asked["input"], list) else [asked["input"]]
        data = [{"index": number, "embedding": [1.0, 0.0]} for number in range(len(texts))]
        answer = json.dumps({"data": data, "model": "toy", "embeddings": [[1.0, 0.0]] * len(texts)}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def served(environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """An embedder that a server on this machine runs, named in the environment."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Served) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        environment |= {"MEMSHEAF_EMBEDDER": "ollama:toy", "MEMSHEAF_EMBEDDER_URL": url}
        yield environment
        server.shutdown()


def test_without_an_embedder_it_says_that_search_goes_by_words(run: Run, tabs: str) -> None:
    code, out, err = run("index")

    assert (code, err) == (0, "")
    assert "memories  1\n" in out
    assert "embedder  none: search goes by words\n" in out
    assert "vectors" not in out


def test_it_embeds_what_waits_and_says_where_it_is(run: Run, tabs: str, served: dict[str, str]) -> None:
    before = json.loads(run("index", "--status", "--json")[1])
    assert (before["done"], before["total"]) == (0, 1)

    code, out, err = run("index")

    assert (code, err) == (0, "")
    assert "vectors   1 of 1 memories\n" in out
    after = json.loads(run("index", "--status", "--json")[1])
    assert (after["memories"], after["done"], after["running"], after["problem"]) == (1, 1, False, "")
    assert all(Path(file["path"]).stat().st_size == file["bytes"] for file in after["files"])


def test_a_terminal_shows_how_far_it_is(run: Run, tabs: str, served: dict[str, str]) -> None:
    assert run("index", screen=True)[2] == "\rEmbedding: 1 of 1\n"
    assert run("index", screen=True)[2] == ""


def test_rebuild_makes_everything_anew(run: Run, tabs: str, served: dict[str, str]) -> None:
    run("index")
    (file,) = Path(served["MEMSHEAF_CACHE"]).glob("*.sqlite")
    old = file.stat().st_ino, file.read_bytes()

    assert run("index", "--rebuild", screen=True)[2] == "\rEmbedding: 1 of 1\n"
    assert (file.stat().st_ino, file.read_bytes()) != old


def test_an_embedder_that_cannot_be_reached_is_told_of(run: Run, tabs: str, served: dict[str, str]) -> None:
    served["MEMSHEAF_EMBEDDER_URL"] = "http://127.0.0.1:1"

    code, out, _ = run("index")

    assert code == 1
    assert "problem " in out
    assert run("search", "tabs")[0] == 0


def test_what_is_imported_is_embedded_at_once(run: Run, environment: dict[str, str], tmp_path: Path) -> None:
    environment["MEMSHEAF_EMBEDDER"] = "static"
    folder = tmp_path / "others"
    folder.mkdir()
    for number in range(30):
        text = (
            f"---\nname: Ship {number}\ndescription: How releases go out\ntype: project\n---\nOne image a commit.\n"
        )
        (folder / f"project_ship-{number}.md").write_text(text)
    code, out, err = run("import", str(folder))

    assert (code, err) == (0, "")
    assert "30 added" in out
    _, out, _ = run("index", "--status", "--json")
    assert (json.loads(out)["done"], json.loads(out)["total"]) == (30, 30)
