"""Memories, conversations, proposals, tasks and settings whose every text tries to run a script or to call home."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from memsheaf import Settings
from memsheaf.chat.conversations import Conversations
from memsheaf.errors import MemsheafError
from memsheaf.guard.citations import make
from memsheaf.limits import Caps
from memsheaf.llm.model import Said
from memsheaf.llm.spend import Ledger, Spent
from memsheaf.memory import Allow
from memsheaf.recall.turns import Proposal
from memsheaf.sheaf import Sheaf
from memsheaf.work import sessions, tasks
from memsheaf.work.facts import Fact, Facts
from memsheaf.work.notes import BLOCKERS, OBJECTIVE, PHASE, set_notes
from memsheaf.worktree import WorkingTree

ELSEWHERE = "http://elsewhere.example"
RUN = "window.__xss=1"
ANYWAY = Allow(secrets=True, anyway=True)
IMAGE = f"<img src=x onerror={RUN}>"
HERE = f'work {IMAGE}" onfocus="{RUN}'
"""The name of the project's folder."""
PAYLOADS = [
    f"<script>{RUN}</script>",
    IMAGE,
    f"<svg onload={RUN}>",
    f'"><svg/onload={RUN}>',
    f"' onmouseover='{RUN}' autofocus onfocus='{RUN}",
    f'" autofocus onfocus="{RUN}" x="',
    f"javascript:{RUN}",
    f"</textarea><script>{RUN}</script>",
    f"</title><script>{RUN}</script>",
    f"</script><script>{RUN}</script>",
    f"--><script>{RUN}</script>",
    f"]]><script>{RUN}</script>",
    f"<iframe srcdoc='<script>parent.{RUN}</script>'></iframe>",
    f"<iframe src='javascript:parent.{RUN}'></iframe>",
    f"<iframe src='{ELSEWHERE}/frame'></iframe>",
    f"<object data='{ELSEWHERE}/o'></object><embed src='{ELSEWHERE}/e'>",
    f"<link rel=stylesheet href={ELSEWHERE}/s.css><style>@import url({ELSEWHERE}/i.css);</style>",
    f"<meta http-equiv=refresh content='0;url={ELSEWHERE}/refresh'>",
    f"<base href={ELSEWHERE}/>",
    f"<form action={ELSEWHERE}/form method=post><input name=csrf><button autofocus>Save</button></form>",
    f"<button formaction={ELSEWHERE}/formaction>Save</button>",
    f"<a href='{ELSEWHERE}' ping='{ELSEWHERE}/ping'>click</a>",
    f"<div style='background:url({ELSEWHERE}/css.png)'>x</div>",
    f"<video poster={ELSEWHERE}/poster.png></video><audio src={ELSEWHERE}/a.mp3 autoplay>",
    f"<picture><source srcset={ELSEWHERE}/set.png><img src={ELSEWHERE}/img.png></picture>",
    f"<table background={ELSEWHERE}/table.png><td>x</table>",
    f"<details open ontoggle={RUN}>x</details>",
    f"<input autofocus onfocus={RUN}>",
    f"<marquee onstart={RUN}>x</marquee>",
    f"<noscript><p title='</noscript><img src=x onerror={RUN}>'></noscript>",
    f"<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror={RUN}&gt;'>",
    f"<svg><a xlink:href='javascript:{RUN}'><text y=20>x</text></a></svg>",
    f"<svg><animate onbegin={RUN} attributeName=x dur=1s></svg>",
    f"<template><script>{RUN}</script></template>",
    f"<img name=body><form id=csrf><input name=action></form><a id=page href='javascript:{RUN}'>",
    f"&lt;script&gt;{RUN}&lt;/script&gt;",
    f"\\u003cscript\\u003e{RUN}\\u003c/script\\u003e",
    "{{ 7 * 7 }}{% for x in ().__class__.__base__.__subclasses__() %}{{ x }}{% endfor %}",
    f"${{{RUN}}} <%= {RUN} %> #{{{RUN}}}",
    f"[click](javascript:{RUN})",
    f"[click](JaVaScRiPt:{RUN}) [x](&#106;avascript:{RUN}) [y](jav\tascript:{RUN}) <javascript:{RUN}>",
    f"[click](data:text/html,<script>{RUN}</script>)",
    f"[click](vbscript:{RUN}) [click](file:///etc/passwd)",
    f"![pixel]({ELSEWHERE}/beacon.png)",
    f"![pixel](x.png\"onerror=\"{RUN})",
    f"[a]: javascript:{RUN}\n\n[a] ![a]",
    f"```html\"><script>{RUN}</script>\n<script>{RUN}</script>\n```",
    f"`</code><script>{RUN}</script>`",
    f"<a href=\"java\nscript:{RUN}\">x</a>",
    f"<x onclick={RUN} style=animation-name:x onanimationstart={RUN}>x</x>",
    "‮txt.exe‬ ⁦invisible⁩ \U000e0041\U000e0042",
    "\x1b]8;;http://elsewhere.example\x07link\x1b]8;;\x07 \x00 \x08",
]  # fmt: skip
HEADERS = ("name", "description", "type", "source", "trust", "conversation", "reason", "expires", "created", "weird")


def bodies() -> Iterator[str]:
    """Payloads of our own, and of the injection corpus."""
    corpus = json.loads((Path(__file__).parent.parent / "corpora" / "injection.json").read_text("utf-8"))
    yield from PAYLOADS
    for case in corpus["cases"]:
        yield case["payload"] if isinstance(case["payload"], str) else json.dumps(case["payload"])


def build_hostile(place: Path) -> Path:
    """Write all of it into a new folder; gives the folder of the project."""
    home, here = place / "home", place / HERE
    home.mkdir(parents=True)
    (here / ".git").mkdir(parents=True)
    tree_file = f"app{IMAGE}.py"
    (here / "app.py").write_text(f"# {PAYLOADS[0]}\nHOLD = 15\n# {IMAGE}\n", "utf-8")
    (here / tree_file).write_text(f"{IMAGE}\n", "utf-8")
    settings = Settings(str(home), str(home / "cache"), state=str(home / "state"), embedder="none")
    with Sheaf.open(settings=settings, cwd=str(here), by="agent") as layers:
        _write_files(Path(layers.only("project").root))
        _write_files(Path(layers.only("user").root), few=True)
        _use_library(layers, here)
    return here


def _write_files(root: Path, *, few: bool = False) -> None:
    """Files as somebody else may leave them: nothing of ours has looked at them."""
    root.mkdir(parents=True, exist_ok=True)
    for number, payload in enumerate(bodies()):
        if few and number > 10:
            break
        header = {"name": payload, "description": payload, "type": "project"}
        _write_file(root / f"project_payload-{number}.md", header, f"{payload}\n\n> {payload}\n\n- {payload}\n")
    for number, field in enumerate(HEADERS):
        header = {"name": f"Header {field}", "description": "x", "type": "user", field: PAYLOADS[number % 6]}
        _write_file(root / f"user_header-{field}.md", header, "Hello.")
    for number, name in enumerate(
        (IMAGE, f'" onfocus="{RUN}', f"javascript:{RUN}", f"%3Cscript%3E{RUN}", "..%2f..%2fx")
    ):
        header = {"name": f"File {number}", "description": "x", "type": "reference"}
        _write_file(root / f"{name}.md", header, f"Body {number} [[{name}.md]]")
    lists = {"citations": [f"app.py:1 {IMAGE}", f"{IMAGE}.py:1", "app.py:2@00000000"], "supersedes": [f"{IMAGE}.md"]}
    _write_file(root / "project_lists.md", {"name": "Lists", "description": "x", "type": "project"}, "x", lists)
    (root / "project_no-header.md").write_text(f"---\nname: {IMAGE}\nbroken\n{IMAGE}", "utf-8")


def _write_file(path: Path, header: dict[str, str], body: str, lists: dict[str, list[str]] | None = None) -> None:
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in header.items()]
    for key, values in (lists or {}).items():
        lines += [f"{key}:", *(f"  - {json.dumps(value)}" for value in values)]
    path.write_text("\n".join(["---", *lines, "---", body, ""]), "utf-8", "surrogatepass")


def _use_library(layers: Sheaf, here: Path) -> None:
    """What reaches memory through our own door: the gates let text pass that is only hostile to a page."""
    project, state = layers.only("project"), layers.only("project").own.state
    with WorkingTree(str(here)) as tree:
        cited = str(make(tree, "app.py:1-3"))
        Facts(project).add(Fact(f"Fact {IMAGE}", f"It is {IMAGE}.", ("app.py:2",), IMAGE, "project"), tree=tree)
    (here / "app.py").write_text(f"# {PAYLOADS[1]} changed\nHOLD = 20\n", "utf-8")
    conversations = []
    for payload in PAYLOADS:
        with Conversations(state).begin(model=payload[:60], scope=payload[:60]) as one:
            one.add(Said("user", payload), Said("assistant", payload), Said("user", f"Remember {payload}"))
            conversations.append(one.id)
    for number, payload in enumerate(PAYLOADS):
        with suppress(MemsheafError):
            project.write(
                f"{number} {payload}"[:150], payload[:200], "feedback", f"{payload}\n\n**Why:** {payload}",
                citations=[cited], conversation=conversations[number], reason=payload[:200], allow=ANYWAY,
            )  # fmt: skip
        doubted = Proposal(
            f"P{number} {payload}", payload, "project", payload, conversation=payload, why=payload, doubt=payload
        )
        if number < 12:
            layers.learning.queue.put(doubted, at="2026-11-01T08:00:00Z", why=payload)
    project.forget("user_header-weird.md", why=f"forget {IMAGE}")
    layers.recall(f"what about {IMAGE} and HOLD?")
    task = tasks.start_task(layers, f"Task {IMAGE}", goal=PAYLOADS[3], slug="hostile")
    for step in (
        lambda: task.verify(f"item {IMAGE}", PAYLOADS[4]),
        lambda: task.report(f"{PAYLOADS[0]}\n\n{PAYLOADS[39]}"),
        lambda: task.note(IMAGE),
        lambda: task.revise(IMAGE, PAYLOADS[2]),
        lambda: set_notes(project, {OBJECTIVE: f"Objective {IMAGE}", PHASE: "1"}),
        lambda: set_notes(project, {BLOCKERS: f"Blocked {PAYLOADS[3]}"}),
        lambda: sessions.start_session(layers, f"Session {IMAGE}", id="hostile").note(PAYLOADS[0]),
    ):
        with suppress(MemsheafError):
            step()
    ledger = Ledger.of(layers.settings.state)
    cost = Spent("", IMAGE, f'gpt" onfocus="{RUN}', input=10, output=10)
    ledger.settle(ledger.reserve(Caps(), cost._replace(seconds=5.0)), cost)
    mapped = f"{json.dumps(str(here) + IMAGE)} = {json.dumps('/srv/' + IMAGE)}"
    config = f'[model]\nname = "openai:{IMAGE}"\n[projects]\n{mapped}\n'
    Path(layers.settings.home, "config.toml").write_text(config, "utf-8")
