"""Who gets in at `memsheaf mcp --http`, and who does not: every rule of the door, with raw requests."""

from __future__ import annotations

import datetime
import http.client
import ipaddress
import json
import os
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from cases import each_case
from memsheaf.errors import Refused
from memsheaf.mcp.http_bind import TOKEN_FILE, VARIABLE, Endpoint, load_token
from memsheaf.mcp.protocol import MAX_MESSAGE_BYTES
from memsheaf.tools import READING

sys.path.append(str(Path(__file__).parent))
from mcp_server.mcp_peer import PATIENCE, Place, envelope
from mcp_server.mcp_site import ACCEPTED, JSON, Heard, Site, site

PING = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("door"))


@pytest.fixture(scope="module")
def server(place: Place) -> Iterator[Site]:
    """One server for all: nothing that is refused may change it."""
    place.save("Secret plan", "The plan is to plant a plum tree.")
    with site(place, quiet=False) as started:
        yield started
        assert started.greet().status == 200  # it went on, whatever was sent
    told = started.log.read_text("utf-8")
    assert started.token not in told
    assert "Traceback" not in told


def refused(heard: Heard) -> int:
    """The status of an answer that gives nothing away."""
    assert not [key for key in heard.headers if key.startswith("access-control")]
    assert b"plum" not in heard.body
    return heard.status


# host


@each_case(
    "host",
    [
        "evil.example", "127.0.0.1", "localhost", "127.0.0.1:1", "localhost.evil.example:{port}", "[::1]",
        "127.0.0.1:{port}.evil.example", "evil.example:{port}", "127.0.0.1:0{port}", "0.0.0.0:{port}", "127.1:{port}",
        "user@127.0.0.1:{port}", "127.0.0.1:{port}/", "127.0.0.1 :{port}", "",
    ],
)  # fmt: skip
@each_case("path", ["/mcp", "/health"])
def test_another_host_is_misdirected_even_with_the_token(server: Site, host: str, path: str) -> None:
    named = host.format(port=server.netloc.rpartition(":")[2])
    heard = server.ask("GET", path, [server.bearer], host=[named])
    assert refused(heard) in (400, 421)  # 400 for what is no host at all


def test_two_hosts_or_none_are_refused(server: Site) -> None:
    assert refused(server.ask("GET", "/health", host=[server.netloc, "evil.example"])) == 400
    assert refused(server.ask("GET", "/health", host=["evil.example", server.netloc])) == 400
    assert refused(server.ask("GET", "/health", host=[])) == 400
    with socket.create_connection(("127.0.0.1", int(server.netloc.rpartition(":")[2])), PATIENCE) as raw:
        raw.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        assert raw.recv(100).split()[1] == b"421"


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_loopback_is_known_under_its_names(server: Site, name: str) -> None:
    port = server.netloc.rpartition(":")[2]
    assert server.ask("GET", "/health", host=[f"{name}:{port}"]).status == 200


# pages in a browser


@each_case(
    "origin",
    [
        "http://evil.example", "null", "", "http://127.0.0.1", "http://127.0.0.1:1", "http://localhost", "{netloc}",
        "file://", "http://{netloc}.evil.example", "http://evil.example@{netloc}", "chrome-extension://{netloc}",
    ],
)  # fmt: skip
def test_a_page_of_another_site_is_refused_even_with_the_token(server: Site, origin: str) -> None:
    headers = [server.bearer, ACCEPTED, JSON, ("Origin", origin.format(netloc=server.netloc))]
    assert refused(server.ask(headers=headers, body=PING)) == 403
    assert refused(server.ask("GET", "/health", headers)) == 403


@each_case("where", ["cross-site", "same-site", "anything", ""])
def test_a_browser_that_tells_of_another_site_is_refused(server: Site, where: str) -> None:
    headers = [server.bearer, ACCEPTED, JSON, ("Sec-Fetch-Site", where)]
    assert refused(server.ask(headers=headers, body=PING)) == 403


def test_a_page_of_this_host_and_a_person_at_the_address_bar_may_see_its_health(server: Site) -> None:
    own = [("Origin", f"http://{server.netloc}"), ("Sec-Fetch-Site", "same-origin")]
    assert server.ask("GET", "/health", own).status == 200
    assert server.ask("GET", "/health", [("Sec-Fetch-Site", "none")]).status == 200


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "PATCH", "TRACE", "CONNECT", "FOO"])
def test_other_methods_are_refused_and_nothing_is_shared_with_pages(server: Site, method: str) -> None:
    headers = [("Origin", f"http://{server.netloc}"), ("Access-Control-Request-Method", "POST")]
    assert refused(server.ask(method, headers=headers)) == 405
    assert refused(server.ask(method, headers=[*headers, server.bearer])) == 405


def test_no_answer_is_shared_with_pages(server: Site) -> None:
    heard = server.greet()
    assert heard.status == 200
    assert refused(heard) == 200
    assert refused(server.ask("GET", "/health", [("Origin", f"http://{server.netloc}")])) == 200


# token


@each_case(
    "given",
    [
        [], ["Bearer"], ["Bearer "], ["Bearer wrong"], ["Bearer {token}x"], ["Bearer {short}"], ["Basic {token}"],
        ["{token}"], ["Bearer {token}", "Bearer wrong"], ["Bearer {token}", "Bearer {token}"], ["Bearer \xfc\xff"],
        ["Bearer {token} {token}"], ["Bearer null"], ["bearer{token}"],
    ],
)  # fmt: skip
@each_case("method, path", [("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp"), ("GET", "/nothing")])
def test_without_the_token_there_is_nothing(server: Site, given: list[str], method: str, path: str) -> None:
    token = server.token
    shown = [("Authorization", one.format(token=token, short=token[:-1])) for one in given]
    heard = server.ask(method, path, [*shown, ACCEPTED, JSON], PING if method == "POST" else b"")
    assert refused(heard) == 401
    assert heard.headers["www-authenticate"] in ("Bearer", 'Bearer error="invalid_token"')
    assert token.encode() not in heard.body


@each_case("query", ["token={token}", "access_token={token}", "authorization=Bearer%20{token}"])
def test_a_token_in_the_address_counts_for_nothing(server: Site, query: str) -> None:
    path = f"/mcp?{query.format(token=server.token)}"
    assert refused(server.ask(path=path, headers=[ACCEPTED, JSON], body=PING)) == 401


def test_the_host_is_looked_at_before_the_page_and_the_page_before_the_token(server: Site) -> None:
    page = ("Origin", "http://evil.example")
    assert refused(server.ask(headers=[page], body=PING, host=["evil.example"])) == 421
    assert refused(server.ask(headers=[page], body=PING)) == 403
    assert refused(server.ask(headers=[], body=PING)) == 401
    assert refused(server.ask(headers=[server.bearer], body=PING)) == 415


def test_the_scheme_may_be_written_in_any_case(server: Site) -> None:
    heard = server.ask("GET", "/nothing", [("Authorization", f"bEARER {server.token}")])
    assert heard.status == 404


# health


def test_health_says_that_it_runs_and_which_version_and_no_more(server: Site) -> None:
    from memsheaf import __version__

    heard = server.ask("GET", "/health")
    assert heard.status == 200
    assert json.loads(heard.body) == {"status": "ok", "version": __version__}
    assert refused(server.ask("POST", "/health", body=b"{}")) == 401


# what is sent


@each_case(
    "kind",
    [
        None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "json",
        "application/json-patch+json", "application/jsonp", "text/json", "text/plain; application/json",
        "text/plain, application/json", "application/json, text/plain",
    ],
)  # fmt: skip
def test_only_json_is_taken(server: Site, kind: str | None) -> None:
    headers = [server.bearer, ACCEPTED, *([("Content-Type", kind)] if kind is not None else [])]
    assert refused(server.ask(headers=headers, body=PING)) == 415


def test_json_may_name_its_characters(server: Site) -> None:
    headers = [server.bearer, ACCEPTED, ("Content-Type", "application/json; charset=utf-8")]
    assert server.ask(headers=headers, body=b"{").status == 400  # it was read, and is no JSON


def test_a_body_that_is_too_large_is_refused(server: Site) -> None:
    headers = [server.bearer, ACCEPTED, JSON]
    body = b"[" + b" " * MAX_MESSAGE_BYTES
    assert refused(server.ask(headers=headers, body=body)) == 413
    assert server.ask(headers=headers, body=body[:-1]).status == 400
    announced = [*headers, ("Content-Length", str(10**15))]
    assert refused(server.ask("DELETE", headers=announced)) == 413


def test_a_body_that_grows_too_large_is_cut_off(server: Site) -> None:
    head = f"POST /mcp HTTP/1.1\r\nHost: {server.netloc}\r\nAuthorization: Bearer {server.token}\r\n"
    head += "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
    with socket.create_connection(("127.0.0.1", int(server.netloc.rpartition(":")[2])), PATIENCE) as raw:
        raw.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        try:
            for _ in range(200):
                raw.sendall(chunk)
        except OSError:
            pass  # it hung up, as it may
        else:
            assert raw.recv(100).split()[1] == b"413"


@each_case(
    "body",
    [
        b"", b"{", b"null", b"[]", b"7", b'"text"', b"\xff\xfe", b'{"jsonrpc":"2.0"}',
        b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":{},"method":"ping"}', b'{"jsonrpc":"2.0","id":1,"method":7}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}', b"[" * 100_000, b'{"a":' * 50_000,
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"memory_view"}}', b"1" * 5_000,
        b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]',
    ],
)  # fmt: skip
@each_case("version", ["", "2025-11-25", "2026-07-28", "1999-01-01", "\xff"])
def test_what_is_no_request_is_refused_and_the_server_goes_on(server: Site, body: bytes, version: str) -> None:
    headers = [server.bearer, ACCEPTED, JSON, *([("MCP-Protocol-Version", version)] if version else [])]
    heard = server.ask(headers=headers, body=body)
    assert 400 <= refused(heard) < 500
    assert b"Traceback" not in heard.body


def test_what_is_no_http_is_refused_and_the_server_goes_on(server: Site) -> None:
    for junk in (b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"\0" * 70_000, b"GET / HTTP/9.9\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", int(server.netloc.rpartition(":")[2])), PATIENCE) as raw:
            raw.sendall(junk)
            raw.shutdown(socket.SHUT_WR)
            assert b"200" not in raw.recv(200)[:20]


# how many, and for how long


def connect(server: Site) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(server.netloc.rpartition(":")[2])), PATIENCE)


def head(server: Site, length: int, *, token: str = "") -> bytes:
    lines = [f"POST /mcp HTTP/1.1\r\nHost: {server.netloc}\r\nContent-Type: application/json"]
    lines += [f"Content-Length: {length}", f"Accept: {ACCEPTED[1]}"]
    return "\r\n".join([*lines, *[f"Authorization: Bearer {token}"] * bool(token), "", ""]).encode()


def status(raw: socket.socket) -> int:
    """The status of the next answer, 0 when there is none any more."""
    try:
        answer = http.client.HTTPResponse(raw)
        answer.begin()
        answer.read()
    except (ConnectionError, http.client.RemoteDisconnected):
        return 0
    return answer.status


@contextmanager
def limited(place: Place, descriptors: int) -> Iterator[Site]:
    """A server that may open so many files and connections; the test itself may open more."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, hard))
        try:
            server = stack.enter_context(site(place))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        yield server


def test_an_answer_does_not_wait_for_the_network_to_fill_a_packet() -> None:
    with Endpoint(port=0).listen() as listener, socket.create_connection(listener.getsockname(), PATIENCE):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.skipif(os.name == "nt", reason="there is no such limit")
def test_strangers_keep_nobody_out_and_when_all_are_known_the_next_is_turned_away(tmp_path: Path) -> None:
    with limited(Place(tmp_path), 80) as server, ExitStack() as stack:  # 16 connections
        known = [stack.enter_context(connect(server))]
        known[0].sendall(head(server, 1, token=server.token) + b"{")
        assert status(known[0]) == 400
        for number in range(60):
            idle = stack.enter_context(connect(server))
            idle.sendall(head(server, 10)[: number % 3 * 20])  # some say nothing, some begin
            if number % 20 == 0:
                assert server.ask("GET", "/health").status == 200
        assert server.greet().status == 200
        known += [stack.enter_context(connect(server)) for _ in range(15)]
        for _ in range(2):
            for raw in known:
                raw.sendall(head(server, 1, token=server.token) + b"{")
                assert status(raw) == 400
            with connect(server) as late:
                assert status(late) == 0
        known[0].close()
        until = time.monotonic() + PATIENCE
        came_in = False
        while not came_in and time.monotonic() < until:
            with suppress(ConnectionError):
                came_in = server.greet().status == 200
        assert came_in


def test_who_does_not_show_the_token_in_time_is_dropped(server: Site) -> None:
    with ExitStack() as stack:
        known, silent, slow, endless = (stack.enter_context(connect(server)) for _ in range(4))
        known.sendall(head(server, 1, token=server.token) + b"{")
        assert status(known) == 400
        slow.sendall(head(server, 10)[:40])
        endless.sendall(head(server, 10**6) + b"{")
        assert status(endless) == 401
        assert [status(raw) for raw in (silent, slow, endless)] == [0] * 3
        known.sendall(head(server, 1, token=server.token) + b"{")
        assert status(known) == 400


# where it listens


def start(place: Place, *options: str, told: dict[str, str] | None = None) -> tuple[int, str]:
    """Start a server that does not come up, and give its exit code and what it says."""
    done = subprocess.run(
        place.words("--http", *options),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=os.environ | place.environment | (told or {}),
        cwd=place.folder,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stdout == b""
    return done.returncode, done.stderr.decode()


def test_a_place_that_others_reach_is_refused_without_tls_and_nothing_is_made(tmp_path: Path) -> None:
    code, told = start(Place(tmp_path), "--host", "0.0.0.0", "--port", "0", "--allow-host", "memory.example")
    assert code == 1
    assert "other machines" in told
    for way in ("ssh -L", "--behind-proxy", "--tls-cert"):
        assert way in told
    assert list(tmp_path.iterdir()) == []  # no token either


@each_case(
    "endpoint, hint",
    [
        (Endpoint("::", 0, ("memory.example",)), "--behind-proxy"),
        (Endpoint("192.0.2.7", 0, ("memory.example",)), "--tls-cert"),
        (Endpoint("0.0.0.0", 0, proxied=True), "--allow-host NAME"),
        (Endpoint("no.such.host.invalid", 0), "a name or an IP address"),
        (Endpoint(port=0, names=("*.example.com",)), "no pattern"),
        (Endpoint(port=0, names=("http://memory.example",)), "no pattern"),
        (Endpoint(port=0, certificate="no.pem", key="no.pem"), "PEM files"),
    ],
)
def test_a_mistake_is_told_with_what_to_do(endpoint: Endpoint, hint: str) -> None:
    with pytest.raises(Refused) as caught:
        endpoint.listen()
    assert hint in caught.value.hint


def test_a_package_that_is_missing_is_told(tmp_path: Path) -> None:
    code = "import sys; sys.modules['uvicorn'] = None; from memsheaf.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "mcp", "--http", "--port", "0", "--scope", "user"],
        capture_output=True,
        env=os.environ | Place(tmp_path).environment,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 1
    assert b"pip install 'memsheaf[mcp]'" in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_port_that_is_taken_is_told(server: Site) -> None:
    with pytest.raises(Refused) as caught:
        Endpoint(port=int(server.netloc.rpartition(":")[2])).listen()
    assert "--port 0" in caught.value.hint


def test_behind_a_proxy_it_is_known_under_the_name_that_was_given_with_a_token_of_the_environment(
    tmp_path: Path,
) -> None:
    options = ("--host", "0.0.0.0", "--behind-proxy", "--allow-host", "Memory.example", "--read-only")
    told = {VARIABLE: "a-token-that-is-long-enough-for-anybody"}
    with site(Place(tmp_path), *options, told=told) as started:
        assert started.told == {"url": started.url, "token_file": ""}
        assert started.url.startswith("http://memory.example:")
        port = started.url.rpartition(":")[2].removesuffix("/mcp")
        near = started._replace(told=started.told | {"url": f"http://127.0.0.1:{port}/mcp"})
        page = ("Origin", "https://memory.example")
        assert near.ask("GET", "/health", [page], host=["memory.example"]).status == 200
        assert near.ask("GET", "/health", host=[f"MEMORY.example:{port}"]).status == 200
        for host in (f"127.0.0.1:{port}", "0.0.0.0", f"0.0.0.0:{port}", "memory.example:1", "other.example"):
            assert near.ask("GET", "/health", host=[host]).status == 421
        for token, status in ((near.token, 404), (near.token[:-1], 401)):
            bearer = near._replace(token=token).bearer
            assert near.ask("GET", "/nothing", [bearer], host=["memory.example"]).status == status
        era = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/list")]
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": envelope()}}
        headers = [near.bearer, ACCEPTED, JSON, *era]
        listed = near.ask(headers=headers, body=json.dumps(asked).encode(), host=["memory.example"])
        names = {tool["name"] for tool in json.loads(listed.body)["result"]["tools"]}
        assert names == READING
    assert not (tmp_path / "state" / TOKEN_FILE).exists()


def test_with_a_certificate_it_serves_https_and_makes_another_token_when_asked(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    old = load_token(str(tmp_path / "state"), {}).text
    with site(Place(tmp_path), "--tls-cert", str(certificate), "--tls-key", str(key), "--new-token") as started:
        assert started.url.startswith("https://127.0.0.1:")
        assert started.told["token"] == started.token != old
        trusting = ssl.create_default_context(cafile=str(certificate))
        health = started.url.removesuffix("/mcp") + "/health"
        with urllib.request.urlopen(health, context=trusting, timeout=PATIENCE) as answer:
            assert json.load(answer)["status"] == "ok"
        with pytest.raises(OSError, match=r"(?i)connection|disconnected|reset"):
            started.ask("GET", "/health")  # without TLS


def self_signed(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(alternative, critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate, secret = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    secret.write_bytes(key.private_bytes(encoding, form, plain))
    return certificate, secret
