"""The protocol's own conformance suite against the server over HTTP, in both eras.

The suite is written for an example server. A proxy (`suite/proxy.mjs`) adds the token and maps the tools, prompts and
resources of the example to ours, as far as ours do the like. What is left wants something that this server does not
have, and is named below with the reason; all else has to pass, with at least one check that could fail.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from mcp_server.mcp_peer import Place
from mcp_server.mcp_site import site

FOLDER = Path(__file__).resolve().parent / "suite"
RUNS = {
    "2025-11-25": ["--suite", "all", "--spec-version", "2025-11-25"],
    "2026-07-28": ["--requirements", "2026-07-28"],
}
NOT_OURS = {
    "images, sound or embedded resources, of which memory has none": {
        "tools-call-image", "tools-call-audio", "tools-call-embedded-resource", "tools-call-mixed-content",
        "prompts-get-embedded-resource", "prompts-get-with-image", "resources-read-binary",
    },
    "questions to the user, and completion of arguments": {
        "elicitation-sep1034-defaults", "elicitation-sep1330-enums", "input-required-result-multiple-input-requests",
        "input-required-result-multi-round", "input-required-result-non-tool-request", "completion-complete",
        "tools-call-elicitation", "input-required-result-basic-elicitation", "input-required-result-request-state",
        "input-required-result-tampered-state", "input-required-result-result-type",
        "input-required-result-missing-input-response", "input-required-result-validate-input",
    },
    "a tool with JSON Schema 2020-12 keywords, or headers for its arguments": {
        "json-schema-2020-12", "http-custom-header-server-validation",
    },
    "a stream that the server closes and the client resumes": {"server-sse-polling"},
    "subscriptions to one resource": {"resources-subscribe", "resources-unsubscribe"},
    "logging, sampling or roots, which the protocol gave up": {
        "logging-set-level", "tools-call-with-logging", "tools-call-sampling", "input-required-result-basic-sampling",
        "input-required-result-basic-list-roots", "input-required-result-capability-check",
    },
    "tasks, an extension": {
        "tasks-lifecycle", "tasks-capability-negotiation", "tasks-wire-fields", "tasks-request-state-removal",
        "tasks-mrtr-input", "tasks-request-headers", "tasks-dispatch-and-envelope", "tasks-required-task-error",
        "tasks-mrtr-composition", "tasks-status-notifications",
    },
}  # fmt: skip
"""What a scenario wants that this server does not have."""
CHECKS_NOT_OURS = {
    # a tool that cannot do without sampling
    ("server-stateless", "sep-2575-server-rejects-undeclared-capability"),
    ("server-stateless", "sep-2575-missing-capability-http-400"),
}
OURS = {
    "2025-11-25": {
        "server-initialize", "server-session-lifecycle", "ping", "tools-list",
        "tools-call-simple-text", "tools-call-error", "tools-call-with-progress",
        "server-sse-multiple-streams", "resources-list", "resources-read-text", "resources-templates-read",
        "prompts-list", "prompts-get-simple", "prompts-get-with-args",
        "dns-rebinding-protection",
    },
    "2026-07-28": {
        "server-stateless", "tools-list", "tools-call-simple-text", "tools-call-error",
        "tools-call-with-progress", "server-sse-multiple-streams", "resources-list", "resources-read-text",
        "resources-templates-read", "sep-2164-resource-not-found", "prompts-list", "prompts-get-simple",
        "prompts-get-with-args", "dns-rebinding-protection", "caching", "http-header-validation",
        "input-required-result-ignore-extra-params", "input-required-result-unsupported-methods",
    },
}  # fmt: skip
HEADER = "---\nname: Number 123\ndescription: About 123\ntype: user\n---\n"


@contextmanager
def proxied(node: str, environment: Mapping[str, str], **told: str) -> Iterator[str]:
    """The address of a proxy before the server, as long as it is needed."""
    words = [node, str(FOLDER / "proxy.mjs")]
    with subprocess.Popen(words, env={**environment, **told}, stdout=subprocess.PIPE) as proxy:
        assert proxy.stdout is not None
        yield f"http://127.0.0.1:{int(proxy.stdout.readline())}/mcp"
        proxy.terminate()


@pytest.mark.long
@pytest.mark.parametrize("revision", RUNS)
def test_what_is_not_about_the_example_server_passes(
    revision: str, npm: Callable[[Path], Path], tmp_path: Path
) -> None:
    memories = Place(tmp_path)
    environment = memories.environment | {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    memories.root.mkdir(parents=True)
    (memories.root / "user_123.md").write_text(f"{HEADER}It is number 123.\n", "utf-8")
    place = npm(FOLDER)
    node = str(next(place.glob("node_modules/node-linux-*/bin/node"), "node"))  # the suite wants 22 or later
    with (
        site(memories, quiet=False) as served,
        proxied(node, environment, URL=served.url, TOKEN=served.token, ROOT=str(memories.root)) as url,
    ):
        subprocess.run(
            [node, "node_modules/.bin/conformance", "server", "--url", url, *RUNS[revision], "-o", tmp_path / "out"],
            env=environment,
            cwd=place,
            capture_output=True,
            timeout=300,
            check=False,  # it ends with 1 when any scenario failed; what failed is in the files
        )
    passed, failed = outcomes(tmp_path / "out")
    failed -= CHECKS_NOT_OURS
    unnamed = {scenario for scenario, _ in failed} - set().union(*NOT_OURS.values())
    assert unnamed == set(), failed
    assert passed - {scenario for scenario, _ in failed} == OURS[revision]


def outcomes(folder: Path) -> tuple[set[str], set[tuple[str, str]]]:
    """The scenarios in which a check passed, and every check that failed or gave a warning."""
    passed, failed = set(), set()
    for file in folder.glob("server-*/checks.json"):
        scenario = re.sub(r"-\d{4}-\d\d-\d\dT.*", "", file.parent.name.removeprefix("server-"))  # without its time
        for check in json.loads(file.read_text(encoding="utf-8")):
            if check["status"] == "SUCCESS":
                passed.add(scenario)
            elif check["status"] in ("FAILURE", "WARNING"):
                failed.add((scenario, check["id"]))
    return passed, failed
