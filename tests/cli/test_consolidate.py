"""`memsheaf consolidate` and `compact`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]
Tree = Callable[[], dict[str, bytes]]
FRIDAY = "We never deploy on Fridays after 15:00, because the on-call engineer is alone then."


def add(run: Run, name: str, text: str, *options: str) -> None:
    about = ("--name", name, "--description", "When we deploy", "--type", "project", "--anyway")
    code, _, err = run("remember", text, *about, *options)
    assert code == 0, err


def by_agent(environment: dict[str, str], *names: str) -> None:
    """Let memories be an agent's: what a person wrote is not consolidated."""
    (root,) = Path(environment["MEMSHEAF_HOME"], "projects").iterdir()
    for name in names:
        path = root / name
        path.write_text(path.read_text().replace("source: user", "source: agent"))


@pytest.fixture
def fridays(run: Run, environment: dict[str, str]) -> None:
    add(run, "Fridays", FRIDAY)
    add(run, "No Fridays", f"{FRIDAY} Ask Maria.")
    by_agent(environment, "project_fridays.md", "project_no-fridays.md")


def test_the_plan_is_shown_and_applied_as_one_commit_that_can_be_taken_back(
    run: Run, fridays: None, tree: Tree
) -> None:
    run("list")
    before = tree()

    code, out, err = run("consolidate")

    assert (code, err) == (0, "")
    assert out.startswith("merge: they say the same\n  keeps project_no-fridays.md, retires project_fridays.md\n")
    assert "  +supersedes:\n  +  - project_fridays.md\n" in out
    assert out.endswith("Nothing was changed. With --apply, 1 memory would be retired.\n")

    value = json.loads(run("consolidate", "--json")[1])
    (group,) = value.pop("groups")
    assert value == {"applied": False, "done": False, "commit": "", "retired": 1, "dropped": [], "notes": []}
    assert group.pop("diff").startswith("--- project_no-fridays.md  now\n")
    assert group == {
        "action": "merge",
        "why": "they say the same",
        "files": ["project_no-fridays.md", "project_fridays.md"],
        "keeper": "project_no-fridays.md",
        "retired": ["project_fridays.md"],
    }
    assert tree() == before

    done = run("consolidate", "--apply")[1].splitlines()[-1]
    assert done.startswith("Done: 1 memory retired. Undo with `memsheaf undo ")
    assert run("show", "project_fridays.md")[0] == 1
    assert "consolidate: 1 merged" in run("log")[1]
    assert run("consolidate", "--apply") == (0, "There is nothing to consolidate.\n", "")
    assert run("undo", done.split("`")[1].split()[-1])[0] == 0
    assert run("show", "project_fridays.md")[0] == 0


def test_questions_are_stored_shown_and_dropped(run: Run, fridays: None) -> None:
    code, out, err = run("consolidate", "project_fridays.md", "--expect", "when do we deploy?")
    assert (code, err) == (0, "")
    assert out == "project_fridays.md  when do we deploy?\n"

    code, out, err = run("consolidate", "project_fridays.md", "--expect", "unicorn")
    assert code == 0
    assert "it counts once it does" in err
    assert len(json.loads(run("consolidate", "--if-due", "--json")[1])["expected"]) == 2

    assert run("consolidate", "--expect", "unicorn")[1] == "project_fridays.md  when do we deploy?\n"


KEY = "AKIAZFAKE" + "FAKEFAKE234"


def turns(steps: int = 60) -> list[dict[str, object]]:
    """API messages, with calls and answers, as a host has them."""
    said: list[dict[str, object]] = []
    for step in range(steps):
        call = f"call-{step}"
        said += [
            {"role": "user", "content": f"Do step {step}. Never skip step {step}."},
            {"role": "assistant", "content": [{"type": "tool_use", "id": call, "name": "bash", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": "row\n" * 2_000}]},
            {"role": "assistant", "content": f"Step {step} is done."},
        ]
    return said


@pytest.fixture
def conversation(environment: dict[str, str]) -> str:
    path = Path("conversation.jsonl")
    path.write_text("".join(json.dumps(one) + "\n" for one in turns()))
    return str(path)
