"""Record a home as the code of an earlier commit writes it.

    python tests/earlier/record_home.py WORKTREE > tests/earlier/home.json

WORKTREE is a checkout of that commit. The roots are named by hashes of their paths, so the file has marks for the
paths and the hashes, which `conftest.py` replaces.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

DRIVER = """
import json, os, sys, time
from pathlib import Path
from memsheaf import config
from memsheaf.learn.consolidate import expect
from memsheaf.limits import Caps
from memsheaf.llm import Answer, Question
from memsheaf.llm.scripted import Scripted
from memsheaf.llm.spend import Ledger, Metered
from memsheaf.recall.turns import Message, Proposal, Turn
from memsheaf.sheaf import Sheaf

settings = config.load()
ledger = Ledger.of(settings.state)
Metered(Scripted([Answer({"ok": 1}, 812, 97)]), ledger, Caps(), "extract").ask(
    Question("s", "t", {}, max_tokens=100), deadline=30)
with Sheaf.open("project", settings=settings, cwd=os.getcwd()) as sheaf:
    asked = Message("user", "Remember that the kestrel runs at night.")
    sheaf.learn(Turn("talk-1", (asked, Message("assistant", "Yes."))))
    sheaf.learn(Turn("talk-2", (Message("user", "We deploy on Thursdays."), Message("assistant", "Noted."))))
    sheaf.learn(Turn("talk-3", (Message("user", "Do not store anything of this conversation."),)))
    for number in range(3):
        name = f"The build number {number} is green"
        sheaf.learning.propose(Proposal(name, name, "project", f"{name} since May.", quote=name), "policy suggest")
    waiting = sheaf.learning.queue.all()
    sheaf.learning.approve(waiting[0].id)
    sheaf.learning.reject(waiting[1].id, reason="it is not")
    expect(sheaf.state, "Which day do we deploy?", "project_shop-deployed-fridays.md")
"""

LATER = """
import os
from memsheaf import config
from memsheaf.recall.turns import Message, Turn
from memsheaf.sheaf import Sheaf

with Sheaf.open("project", settings=config.load(), cwd=os.getcwd()) as sheaf:
    sheaf.learn(Turn("talk-4", (Message("user", "Remember that I live in Oslo."), Message("assistant", "Yes."))))
"""


def main(tree: str) -> None:
    base = Path(tempfile.mkdtemp(prefix="earlier-"))
    project, repository = base / "project", base / "repository"
    project.mkdir()
    repository.mkdir()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(base / "user"),
        "MEMSHEAF_HOME": str(base / "home"),
        "PYTHONPATH": f"{tree}/src",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@example.org",
    }
    (base / "user" / ".claude").mkdir(parents=True)
    transcript = base / "talk.jsonl"

    def run(*words: str, cwd: Path = project, stdin: str = "") -> str:
        done = subprocess.run(
            words, cwd=cwd, env=environment, input=stdin, text=True, capture_output=True, check=False
        )
        if done.returncode:
            sys.exit(f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def memsheaf(*words: str, cwd: Path = project, stdin: str = "") -> str:
        return run(sys.executable, "-m", "memsheaf", *words, cwd=cwd, stdin=stdin)

    def hook(event: str, **more: str) -> None:
        known = {
            "session_id": "talk",
            "cwd": str(project),
            "hook_event_name": event,
            "transcript_path": str(transcript),
        }
        memsheaf("hook", "claude-code", event, stdin=json.dumps(known | more))

    memsheaf("remember", "The shop is deployed on Fridays")
    memsheaf("remember", "I prefer pnpm over npm", "--scope", "user")
    memsheaf("remember", "I live in Bergen", "--scope", "user")
    memsheaf("forget", "user_live-bergen.md", "--scope", "user")
    run(sys.executable, "-c", DRIVER)
    memsheaf("recall", "When is the shop deployed?")
    memsheaf("consolidate", "--apply")
    hook("SessionStart", source="startup")
    hook("UserPromptSubmit", prompt="When is the shop deployed?")
    said = {
        "type": "user",
        "message": {"role": "user", "content": "Remember that the heron sleeps."},
        "uuid": "u" * 36,
    }
    transcript.write_text(json.dumps(said | {"sessionId": "talk"}) + "\n")
    hook("Stop")
    memsheaf("off")
    memsheaf("install", "claude-code", "--yes")
    run(sys.executable, "-c", LATER)
    run("git", "init", "-q", cwd=repository)
    memsheaf("init", cwd=repository)
    memsheaf("remember", "The API answers in JSON", cwd=repository)
    (repository / ".memory" / "project_foreign.md").write_text(
        "---\nname: Foreign\ndescription: Somebody else wrote it\ntype: project\n---\nIt came with a pull.\n"
    )
    run("git", "add", "-A", "-f", cwd=repository)
    run("git", "commit", "-qm", "a", cwd=repository)

    program = str(Path(sys.executable).with_name("memsheaf"))
    marks = {str(base): "@BASE@", sys.executable: "@PYTHON@", program: "/opt/memsheaf/bin/memsheaf"}
    roots = {"user": base / "home" / "user", "repository": repository / ".memory"}
    roots["project"] = next((base / "home" / "projects").iterdir())
    for name, root in roots.items():
        digest = sha256(os.fsencode(root)).hexdigest()
        marks |= {digest[:24]: f"@HASH:{name}@", digest[:16]: f"@SHORT:{name}@"}
    marks[roots["project"].name] = "@PROJECT@"

    def mark(text: str) -> str:
        for known, sign in sorted(marks.items(), key=lambda pair: -len(pair[0])):
            text = text.replace(known, sign)
        return text

    files = {}
    for place in sorted(base.rglob("*")):
        name = place.relative_to(base).as_posix()
        is_other = "/cache/" in name or (".git/" in name and "memsheaf" not in name) or name.endswith(".lock")
        if place.is_file() and not is_other:
            files[mark(name)] = mark(place.read_text())
            if name.startswith("user/"):
                marks[sha256(place.read_bytes()).hexdigest()] = f"@SHA256:{name}@"
    files = {name: mark(text) for name, text in files.items()}
    print(json.dumps(files, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main(sys.argv[1])
