"""The protocol's own conformance suite against the server over HTTP, in both eras.

The suite is written for an example server with tools, prompts and resources of its own. A scenario that asks for
those fails here, and has to be named below with what it wants; one that is not named has to pass.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parent / "suite"
RUNS = {
    "2025-11-25": ["--suite", "all", "--spec-version", "2025-11-25"],
    "2026-07-28": ["--requirements", "2026-07-28"],
}
WANTS = {
    "a tool of the example server": [
        "tools-call-image", "tools-call-audio", "tools-call-embedded-resource", "tools-call-mixed-content",
        "tools-call-with-progress", "tools-call-elicitation", "json-schema-2020-12", "elicitation-sep1034-defaults",
        "elicitation-sep1330-enums", "server-sse-polling", "http-custom-header-server-validation",
        "input-required-result-basic-elicitation", "input-required-result-request-state",
        "input-required-result-multiple-input-requests", "input-required-result-multi-round",
        "input-required-result-result-type", "input-required-result-tampered-state",
    ],
    "a prompt of the example server": [
        "prompts-get-simple", "prompts-get-with-args", "prompts-get-embedded-resource", "prompts-get-with-image",
        "input-required-result-non-tool-request",
    ],
    "a resource of the example server": ["resources-read-text", "resources-read-binary", "resources-templates-read"],
    "logging, sampling or roots, which the protocol gave up": [
        "logging-set-level", "tools-call-with-logging", "tools-call-sampling", "input-required-result-basic-sampling",
        "input-required-result-basic-list-roots", "input-required-result-capability-check",
    ],
    "tasks, an extension": [
        "tasks-lifecycle", "tasks-capability-negotiation", "tasks-wire-fields", "tasks-request-state-removal",
        "tasks-mrtr-input", "tasks-request-headers", "tasks-dispatch-and-envelope", "tasks-required-task-error",
        "tasks-mrtr-composition",
    ],
}  # fmt: skip
NOT_OURS = {scenario for scenarios in WANTS.values() for scenario in scenarios}
CHECKS_NOT_OURS = {  # these two want the example's tool `test_missing_capability`; the other checks have to pass
    ("server-stateless", "sep-2575-server-rejects-undeclared-capability"),
    ("server-stateless", "sep-2575-missing-capability-http-400"),
}
OURS = {
    "2025-11-25": {
        "server-initialize", "server-session-lifecycle", "ping", "completion-complete", "tools-list",
        "tools-call-simple-text", "tools-call-error", "server-sse-multiple-streams", "resources-list",
        "resources-subscribe", "resources-unsubscribe", "prompts-list", "dns-rebinding-protection",
    },
    "2026-07-28": {
        "server-stateless", "completion-complete", "tools-list", "tools-call-simple-text", "tools-call-error",
        "server-sse-multiple-streams", "resources-list", "sep-2164-resource-not-found", "prompts-list",
        "dns-rebinding-protection", "caching", "http-header-validation",
        "input-required-result-missing-input-response", "input-required-result-unsupported-methods",
        "input-required-result-ignore-extra-params", "input-required-result-validate-input",
        "tasks-status-notifications",
    },
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("revision", RUNS)
def test_what_is_not_about_the_example_server_passes(
    revision: str,
    npm: Callable[[Path], Path],
    serving: Callable[[Mapping[str, str]], AbstractContextManager[Any]],
    tmp_path: Path,
) -> None:
    environment = {f"MEMSHEAF_{name.upper()}": str(tmp_path / name) for name in ("home", "cache", "state")}
    environment |= {"MEMSHEAF_EMBEDDER": "none", "PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    place = npm(FOLDER)
    node = next(place.glob("node_modules/node-linux-*/bin/node"), "node")  # the suite wants 22 or later
    with serving(environment) as served:
        words = [str(node), "--import", "./bearer.mjs", "node_modules/.bin/conformance", "server"]
        subprocess.run(
            [*words, "--url", served.url, *RUNS[revision], "-o", str(tmp_path / "out")],
            env=environment | {"URL": served.url, "TOKEN": served.token},
            cwd=place,
            capture_output=True,
            timeout=300,
            check=False,  # it ends with 1 when any scenario failed; what failed is in the files
        )
    found = outcomes(tmp_path / "out")
    failed = {(scenario, check) for scenario, checks in found.items() for check in checks} - CHECKS_NOT_OURS
    assert {scenario for scenario, _ in failed} - NOT_OURS == set(), failed
    assert set(found) - {scenario for scenario, _ in failed} == OURS[revision]


def outcomes(folder: Path) -> dict[str, set[str]]:
    """For each scenario that ran, the checks that failed."""
    found: dict[str, set[str]] = {}
    for file in folder.glob("server-*/checks.json"):
        scenario = re.sub(r"-\d{4}-\d\d-\d\dT.*", "", file.parent.name.removeprefix("server-"))  # without its time
        checks = json.loads(file.read_text(encoding="utf-8"))
        found[scenario] = {check["id"] for check in checks if check["status"] == "FAILURE"}
    return found
