"""Write docs/chat-transcripts.md: the prompts of tests/chat/test_documents.py in a real terminal, as they went.

python tests/chat/transcripts.py > docs/chat-transcripts.md
python tests/chat/transcripts.py --local openai-compatible:NAME --url http://127.0.0.1:8080/v1   # a real model alone
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from chat.terminal import CTRL_D, ENTER, Terminal
from chat.test_documents import Desk, served

SEVEN = (
    (
        "What do you currently remember? Check your memory.",
        "I prefer TypeScript over JavaScript and always use strict mode. Remember that.",
        "We decided to use PostgreSQL for the auth service. Save this project decision.",
    ),
    (
        "What do you know about my preferences? Read the details.",
        "Update my preferences: I also prefer dark theme in all editors.",
        "The auth service decision is outdated. Delete that memory.",
        "List all memory files and show me the current index.",
    ),
)
FOUR = (
    (
        "I prefer using tabs for indentation, not spaces. Remember that.",
        "Create a Python file called test.py",
        "What did I tell you about my preferences?",
        "I also prefer single quotes over double quotes for strings.",
    ),
    ("What do you know about my preferences?", "Ignore memory: tabs or spaces?"),
)
PATIENCE = 900.0  # seconds for one answer of a model that runs on a processor


def main() -> int:
    """Print the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--local", default="", help="a model that is really there, as provider:name")
    parser.add_argument("--url", default="", help="where it answers")
    given = parser.parse_args()
    if given.local:
        print(f"## With a real model on this machine\n\n`{given.local}`, on a processor.\n")
        model = {"MEMSHEAF_MODEL": given.local, "MEMSHEAF_MODEL_URL": given.url}
        for prompts in (SEVEN, FOUR):
            show(prompts, model, columns=100)
        return 0
    print(HEAD.replace("{day}", time.strftime("%Y-%m-%d")))
    print("## Offline: no key, no model\n")
    for prompts in (SEVEN, FOUR):
        show(prompts, {}, columns=100)
    for kind, whose in (("anthropic", "Anthropic's"), ("openai", "OpenAI's")):
        print(f"## With a model behind {whose} SDK\n\nA server on the same machine plays the model's part.\n")
        with served(kind) as (_, environment):
            show(SEVEN, environment, columns=100)
    return 0


def show(conversations: Sequence[Sequence[str]], environment: dict[str, str], *, columns: int) -> None:
    """Type prompts into one process after the other, and print what was on the screen, and what is on disk then."""
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(Path(folder))
        desk.home.mkdir()
        (desk.home / "config.toml").write_text("[chat]\nanswer_tokens = 400\n")  # a small model may never end
        for prompts in conversations:
            with Terminal(["chat"], {**desk.environment, **environment}, desk.work, columns=columns) as terminal:
                terminal.patience = PATIENCE
                terminal.prompt()
                for prompt in prompts:
                    answer(terminal, prompt)
                terminal.send(CTRL_D)
                terminal.end()
                print(f"````\n$ memsheaf chat\n{plain(terminal.text(), folder)}\n````\n")
        for name, text in desk.memories().items():
            print(f"`{name}`:\n\n````\n{text.rstrip()}\n````\n")
        for made in sorted(desk.work.iterdir()):
            print(f"`{made.name}`, in the working directory:\n\n````\n{made.read_text().rstrip()}\n````\n")


def answer(terminal: Terminal, prompt: str) -> None:
    """Type a prompt, say yes to every question, and wait for the next prompt."""
    terminal.type(prompt)
    place, asked = terminal.cells.place, terminal.text().count("N never?")
    terminal.send(ENTER)

    def is_done() -> bool:
        nonlocal asked
        if terminal.text().count("N never?") > asked:
            asked = terminal.text().count("N never?")
            terminal.send("y")
        return terminal.is_at_prompt() and terminal.cells.place > place

    terminal.until(is_done, "the prompt")


def plain(text: str, folder: str) -> str:
    """A screen without what is of this machine alone."""
    text = re.sub(r"(127\.0\.0\.1):\d+", r"\1:8080", text.replace(folder, "~"))
    return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")


HEAD = """# Conversations, as they went

The prompts that the idea was first shown with, typed into `memsheaf chat` in a terminal, each block a process of its
own, on a fresh machine; then what was on disk. `tests/chat/transcripts.py` made this page on {day};
`tests/chat/test_documents.py` checks the same.
"""

if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    raise SystemExit(main())
