"""The tasks of a project: begin one, find the one that is meant, list them.

>>> with Layers.open(by="user") as layers:                                       # doctest: +SKIP
...     task = start(layers, "Feature X", goal="Users can log in", phases=6)
...     task.verify("login", "One can log in")
...     print("\\n".join(task.lines()))
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from typing import NamedTuple
from uuid import uuid4

from memsheaf.errors import Exists, MemsheafError, NotFound, ScopeRefused, TextRefused, hinted
from memsheaf.memory import clean_field
from memsheaf.scope import check_label
from memsheaf.text_edits import dated
from memsheaf.work.commit_retry import Look, commit, refuse_secrets_in
from memsheaf.work.notes import Notes
from memsheaf.work.notes_text import phase_of
from memsheaf.work.scopes import OpenScopes
from memsheaf.work.task import Task, checked_phase
from memsheaf.work.task_files import ACTIVE, DONE, TASK, TaskState, new_task, read_task

__all__ = ["ListedTask", "Task", "active_tasks", "every_task", "of", "record_phase_in_notes", "slug_of", "start"]

SLUG_LIMIT = 60
_LETTERS = str.maketrans({"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d"})  # that no decomposition makes ASCII

# A phase that NOTES.md may have from a task: a number, or the end of another.
_PLAIN = re.compile(r"(?:[0-9]+(?: of [0-9]+)?|DONE [0-9]{4}-[0-9]{2}-[0-9]{2}: [a-z0-9-]+(?: was dropped)?)?")


class ListedTask(NamedTuple):
    """A task among others; when its TASK.md cannot be read there is no state, and the problem says why."""

    slug: str
    state: TaskState | None
    problem: str = ""


def start(layers: OpenScopes, title: str, *, goal: str = "", phases: int = 0, slug: str = "") -> Task:
    """Begin a task; its slug is made from the title unless one is given.

    Raises:
        Exists: there is a task of that slug.
        ScopeRefused, TextRefused, SecretFound: the title, the slug or the goal may not be stored.
    """
    refuse_secrets_in(f"{title}\n{slug}", "the title")
    try:
        title = clean_field("name", title)
        name = check_label(slug.rstrip("-"), "task") if slug else slug_of(title)
    except TextRefused as error:
        raise hinted(error, "The title is one short line; --goal TEXT says more.") from None
    except ScopeRefused as error:
        raise hinted(error, "--slug NAME chooses the name: letters, digits and hyphens.") from None
    sheaf = layers.sheaf(f"task/{name}")
    text = new_task(
        title,
        dated(goal, sheaf.today),
        phases=checked_phase(phases) if phases else 0,
        trace_id=str(uuid4()),
        today=sheaf.today,
        by=sheaf.by,
    )

    def plan(look: Look) -> Mapping[str, str]:
        if look(TASK) is not None:
            shown = f"`memsheaf task status --task {name}` shows it"
            raise hinted(Exists(str(sheaf.scope)), f"{shown}; --slug NAME chooses another name for a new one.")
        return {TASK: text}

    made = commit(sheaf, plan, "start the task")
    task = Task(sheaf)
    task.commit = made.id if made else ""
    return task


def of(layers: OpenScopes, slug: str = "") -> Task:
    """The task that is meant: the one named, the one chosen at the start, or the only active one.

    Raises:
        NotFound: there is none.
        ScopeRefused: several could be meant.
        BadHeader: its TASK.md is not understood.
    """
    name, why = "", "there is no active task"
    advice = "`memsheaf task list` shows which there are, `memsheaf task start TITLE` begins one."
    try:
        with suppress(NotFound):
            name = layers.chosen("task", slug)
            why = f"there is no task {name!r}"
            if name in layers.names("task"):  # to look at a task that is not there makes nothing
                return Task(layers.sheaf(f"task/{name}"))
    except ScopeRefused as error:
        raise hinted(error, advice) from None
    raise hinted(NotFound(f"task/{name}", why), advice)


def record_phase_in_notes(layers: OpenScopes, task: Task) -> str:
    """Say in NOTES.md how far a task is, where its phase is said there; gives the line, "" when nothing is changed.

    NOTES.md is not begun for it, and a phase in somebody's own words, or of other work, is left alone.

    Raises:
        TextRefused: the notes would be out of order.
    """
    notes = Notes(layers.project)
    was = phase_of(text) if (text := notes.text).strip() else "none"
    is_ours = re.search(rf"(?<![\w-]){re.escape(task.slug)}(?![\w-])", was)
    if not is_ours and (not _PLAIN.fullmatch(was) or set(active_tasks(layers)) - {task.slug}):
        return ""
    of = f" of {task.phases}" if task.phases else ""
    over = "" if task.status == DONE else f" was {task.status}"
    ended = f"DONE {task.sheaf.today}: {task.slug}{over}"
    line = f"{task.phase}{of} ({task.slug})" if task.status == ACTIVE else ended
    notes.set(phase=line)
    return line


def every_task(layers: OpenScopes) -> list[ListedTask]:
    """The tasks of the project, in the order of their slugs, those that cannot be read among them."""
    found = []
    for slug in layers.names("task"):
        try:
            text = layers.sheaf(f"task/{slug}").read(TASK).text
            found.append(ListedTask(slug, read_task(text, f"task/{slug}/{TASK}")))
        except NotFound:
            continue  # a scope that somebody keeps memories in, and no task
        except MemsheafError as error:
            found.append(ListedTask(slug, None, str(error)))
    return found


def active_tasks(layers: OpenScopes) -> list[str]:
    """The slugs of tasks that have not ended, unreadable ones included, so that none is mistaken for another."""
    return layers.going("task")


def slug_of(title: str) -> str:
    """A title as the name of a task's folder.

    >>> slug_of("Feature X: log in, log out!"), slug_of("登录")
    ('feature-x-log-in-log-out', 'task-1e2df9')

    Raises:
        ScopeRefused: it would be a name that Windows keeps for a device.
    """
    plain = unicodedata.normalize("NFKD", title.casefold().translate(_LETTERS)).encode("ascii", "ignore").decode()
    words = re.findall("[a-z0-9]+", plain.lower())
    while len(words) > 1 and len("-".join(words)) > SLUG_LIMIT:
        words.pop()
    if not any(word.strip("0123456789") for word in words):
        digest = sha256(title.encode("utf-8", "surrogatepass")).hexdigest()
        return f"task-{digest[:6]}"
    return check_label("-".join(words)[:SLUG_LIMIT], "task")
