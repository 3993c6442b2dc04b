"""Commands that save, change and forget memories."""

import os
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from tempfile import mkdtemp
from textwrap import indent
from typing import Any

from memsheaf.cli.call import Call, Result, here, insisting, pick, plural
from memsheaf.cli.output import Note, Part, Styled, Table
from memsheaf.cli.parser import AnyText, Kind, OnOff, Usage, Words
from memsheaf.errors import (
    Changed,
    Duplicate,
    MemsheafError,
    NotFound,
    NotWorth,
    Ref,
    SecretFound,
    TextRefused,
)
from memsheaf.frontmatter import edit_text
from memsheaf.guard.secrets import find_secrets, new_secrets, remove_secrets, without_secrets
from memsheaf.learn.sentences import split_facts
from memsheaf.memory import Allow, Memory, clean_field, parse
from memsheaf.open_scope import new_group
from memsheaf.recall.inject import CONTEXT, NOTES
from memsheaf.sheaf import Saved, Sheaf, find_memory, forget_together
from memsheaf.store import ABSENT
from memsheaf.text.neutralize import one_line
from memsheaf.text.requests import asks_to_forget
from memsheaf.text.sentences import current_part, find_sentences, is_question
from memsheaf.work.facts import Fact, Facts


def remember(
    call: Call,
    text: Words = (),
    *,
    type: Kind = "",
    name: str = "",
    description: str = "",
    cite: Words = (),
    reason: str = "",
    replaces: str = "",
    allow_secret: bool = False,
    anyway: bool = False,
) -> Result:
    """Save a fact as you would say it.

    Each sentence is stored as you typed it; a relative date gets the day in brackets behind it. Several facts become
    several memories; a sentence that leans on the one before ("It ...") stays with it. What is about you is known in
    every project, everything else in this one. A clear correction ("the port is 9090 now") takes the place of the
    memory that it corrects. The answer shows what was saved, where, and how to move it or take it back. Text from
    standard input, or with a --name or --description of its own, becomes one memory.

    With --reason it is a fact of the repository: a sentence that can be false, with a --name, a --type and at least
    one place with a line or a symbol that shows it. Such a fact is never edited: one that has become wrong is
    retired by the one that --replaces it.

    arguments:
      TEXT: the fact, in a sentence; - reads standard input
      -t, --type TYPE: what it is about, if the rules find another
      --name NAME: a short title, instead of one made from the text
      --description LINE: one line that tells when this matters
      --cite PLACE: a place that shows it to be true, such as src/app.py:12; may be repeated
      --reason TEXT: why a fact of the repository is worth keeping
      --replaces MEMORY: the memory that it takes the place of
      --allow-secret: store it even if a password, a key or a token is in it, in plain text
      --anyway: store it even if another memory says it already

    examples:
      memsheaf remember "I prefer pnpm"
      memsheaf remember We deploy on Fridays, after the standup
      git log -1 --format=%B | memsheaf remember - -t project --name "Why we left X"
      memsheaf remember "Tests run with make test." --name Tests -t project --cite Makefile:3 --reason "asked often"
    """
    said = call.given_text(" ".join(text)).strip()
    allow = Allow(allow_secret, anyway)
    fields: dict[str, Any] = {"citations": cite, "allow": allow}
    is_one_memory = name or description or reason or replaces or text == ["-"]
    facts = [said] if is_one_memory else split_facts(said)
    if len(facts) > 1:
        fields["also"] = new_group()
    saved: list[Saved] = []
    refused: list[tuple[str, MemsheafError]] = []
    with call.memory() as layers:
        if not allow_secret:
            _refuse_torn_secret(said, facts)
        for sentence in facts:
            try:
                with insisting():
                    if reason:
                        fact = Fact(name, sentence, tuple(cite), reason, type)
                        saved.append(_save_fact(call, layers, fact, replaces, allow))
                    elif name and description and type:
                        saved.append(_write(layers, (name, description, type, sentence), replaces, fields))
                    else:
                        old = find_memory(layers, replaces) if replaces else None
                        given: dict[str, Any] = {"name": name, "description": description, "type": type}
                        saved.append(layers.remember(sentence, corrects=old, **given, **fields))
            except (Duplicate, NotWorth, SecretFound) as error:
                for hit in layers.search(sentence, limit=1) if asks_to_forget(sentence) else ():
                    file = layers.label(hit.ref)
                    deletes = f"`memsheaf forget {file}` deletes '{one_line(hit.memory.body, 200)}'."
                    error.hint = f"{deletes} --anyway stores the request as it is."
                if len(facts) < 2:
                    raise
                refused.append((without_secrets(sentence), error))
    changed = [one.memory.ref for one in saved if one.memory is not one.replaced]
    notes = []
    for sentence, problem in refused:
        why = str(problem).removesuffix("; nothing was stored")
        notes.append(Note(f"Not saved: {sentence}\n  {why}. {problem.hint}", "yellow"))
    for start, end in find_sentences(said):
        sentence = said[start:end]
        if is_question(sentence) and not any(sentence in fact or fact in sentence for fact in facts):
            notes.append(Note(f"Not saved, since it is a question: {sentence}"))
    return Result(
        {"memories": [_saved_json(call, one) for one in saved], "refused": [sentence for sentence, _ in refused]},
        [part for one in saved for part in _describe_saved(call, one)],
        call.undo_hint(changed[-1]) if changed else None,
        notes,
        code=1 if refused else 0,
    )


def _save_fact(call: Call, layers: Sheaf, fact: Fact, replaces: str, allow: Allow) -> Saved:
    """Store a fact of the repository, which retires the one that it replaces and takes over what it does not say."""
    project = layers.only("project")
    facts = Facts(project)
    with call.tree(project.root) as tree:
        places = tuple(tree.spell_from_root(place, here()) for place in fact.citations)
        if not replaces or fact.subject:
            memory = facts.add(fact._replace(citations=places), supersedes=replaces, tree=tree, allow=allow)
        else:
            memory = facts.supersede(
                replaces, fact.fact, reason=fact.reason, citations=places, tree=tree, allow=allow
            )
    return Saved(memory.ref, memory, None, [])


def _write(layers: Sheaf, given: tuple[str, str, str, str], replaces: str, fields: dict[str, Any]) -> Saved:
    """Store a memory whose name, description and type the line gives, in the place of another if it names one."""
    if not replaces:
        memory = layers.write(*given, **fields)
        return Saved(memory.ref, memory, None, [])
    old = layers.read(find_memory(layers, replaces))
    memory = layers.write(*given, path=old.ref, replace=True, expect=old.version, **fields)
    return Saved(memory.ref, memory, old, [])


def _refuse_torn_secret(text: str, facts: Sequence[str]) -> None:
    """Raise SecretFound for a secret that only the whole text shows: it goes on, or is named, in the next fact."""
    masked = "\n".join(map(without_secrets, facts))
    for secret in find_secrets(text):
        value = text[secret.start : secret.end]
        if value in masked or all(value not in fact for fact in facts):
            with insisting():
                raise SecretFound(secret.kind, "the text")


def _saved_json(call: Call, saved: Saved) -> dict[str, object]:
    fields = ("scope", "name", "type", "description", "body", "version", "supersedes")
    replaced = saved.replaced.body if saved.replaced else None
    return {"path": call.label(saved.memory.ref), **pick(saved.memory, fields), "replaced": replaced}


def _describe_saved(call: Call, saved: Saved) -> Iterator[Part]:
    """Yield what was saved and where, what stood there before, and how to move it or take it back."""
    _, memory, old, linked = saved
    file = call.label(memory.ref)
    if memory is old:
        yield f"{file} says that already; {'it is no longer doubted' if linked else 'nothing was changed'}."
        return
    yield f"{'Updated' if old else 'Saved'} {file}"
    body = current_part(memory.body)
    if old:
        yield Styled(indent(old.body.strip(), "  - "), "red")
    yield Styled(indent(body, "  + " if old else "  "), "green")
    if body != memory.body.strip():
        yield f"The older text stays below, since a part may still hold; `memsheaf edit {file}` removes it."
    known = {"user": "for you, in every project", "project": "for this project"}
    place = known.get(memory.scope, f"in {memory.scope}")
    other = {"user": "project", "project": "user"}.get(memory.scope)
    move = f"; `memsheaf edit {file} --move {other}` moves it" if other and not old else ""
    yield f"Remembered {place}{move}."
    if memory.reason and memory.supersedes:
        yield f"It supersedes {', '.join(memory.supersedes)}."
    for memory in linked:
        deletes = f"If it is, `memsheaf forget {call.label(memory.ref)}` deletes it; if not, remember it again."
        yield Note(f"This may be outdated: {one_line(memory.body, 200)}\n{deletes}", "yellow")
    if is_question(body):
        yield Note("That is a question, kept as it is; `memsheaf recall` answers one.")


def forget(call: Call, memory: str = "", *, all: bool = False, type: Kind = "") -> Result:
    """Delete a memory, or many; `memsheaf undo` undoes it while the journal keeps the texts.

    With --all it shows what would go and asks; one `memsheaf undo` undoes all of it. To remove a memory and
    all its versions for good, use `memsheaf erase`.

    arguments:
      MEMORY: which memory: its file, its name, or a part of either
      --all: delete every memory, or with --type all of that type
      -t, --type TYPE: only memories of this type, with --all

    examples:
      memsheaf forget project_release-day.md
      memsheaf forget "release day"
      memsheaf forget --all -t user
    """
    if bool(memory) == all or (type and not all):
        raise Usage("name one memory, or give --all, which may go with --type")
    with call.memory() as layers:
        if all:
            return _forget_all(call, layers, type)
        ref = find_memory(layers, memory)
        file = layers.label(ref)
        commit = layers.forget(ref)
    (gone,) = commit.revisions
    lines = parse(gone.path, gone.old or b"").body.strip().split("\n")
    return Result(
        {"path": file, "commit": commit.id},
        f"Forgot {file}",
        [Styled(f"  - {line}", "red") for line in lines],
        call.undo_hint(ref),
    )


def _forget_all(call: Call, layers: Sheaf, type: str) -> Result:
    """Forget every memory that fits, after showing them and asking."""
    lasting = layers.only(*layers.scopes(lasting=True))
    rows = [row for row in lasting.list(type=type) if row.state == "ok"]
    count, paths = plural(len(rows), "memory", "memories"), [layers.label(row.ref) for row in rows]
    if not rows:
        return Result({"paths": [], "commits": []}, Note("no memory fits; nothing was forgotten", ""))
    table = Table([(layers.label(row.ref), row.description) for row in rows], ("bold",))
    if call.console.interactive and not call.yes:
        call.console.show(table)
    scopes = Counter(row.scope for row in rows)
    parts = " and ".join(f"{number:,} of {scope}" for scope, number in scopes.items())
    call.confirm(f"Forget {count} ({parts})?", without=f"this forgets {count}", left="Nothing was forgotten.")
    commits = forget_together(lasting, [(row.ref, row.version) for row in rows])
    value = {"paths": paths, "commits": [commit.id for commit in commits]}
    return Result(value, f"Forgot {count}. {call.undo_hint()}")


def edit(
    call: Call,
    memory: str,
    *,
    old: AnyText = None,
    new: AnyText = None,
    rename: str = "",
    pin: OnOff = "",
    move: str = "",
    allow_secret: bool = False,
) -> Result:
    """Open a memory in your editor and store it when the editor ends; or replace a piece, rename, pin or move it.

    The editor is $VISUAL or $EDITOR. The text is checked before it is stored. When it is refused, the editor can be
    opened again with your text; else, or when the memory changed meanwhile, nothing is stored and your text stays in
    a file that is named, without the password or key that it was refused for. CONTEXT.md and NOTES.md need not exist
    yet. The --old text must occur exactly once. One `memsheaf undo` undoes a move in both scopes.

    arguments:
      MEMORY: which memory: its file, its name, or a part of either
      --old TEXT: the exact text that is to change
      --new TEXT: what shall stand there instead
      --rename NAME: give it this name; its file keeps its own
      --pin on|off: keep it in the catalog however many memories there are, or no longer
      --move SCOPE: move it to this scope
      --allow-secret: store it even if a password, a key or a token is in it, in plain text

    examples:
      memsheaf edit user_prefers-tabs.md
      memsheaf edit project_release-day.md --old Fridays --new Mondays
      memsheaf edit user_prefers-tabs.md --rename "Tabs, not spaces" --pin on
      EDITOR="code --wait" memsheaf edit CONTEXT.md -s agent/researcher
    """
    allow = Allow(allow_secret, anyway=True)
    if (old is None) != (new is None):
        raise Usage("--old and --new go together")
    if old is None and not (rename or pin or move):
        return _edit_in_editor(call, memory, allow)
    with call.memory() as layers, insisting():
        ref = find_memory(layers, memory)
        if old is not None and new is not None:
            layers.revise(ref, old, new, allow=allow)
        if rename:
            was = layers.read(ref)
            fields = {"name": clean_field("name", rename), "updated": layers.today}
            layers.put(ref, edit_text(was.text, fields=fields), expect=was.version, allow=Allow(allow_secret))
        if pin:
            layers.open_scope(ref.scope).pin([(ref.path, "")], pin == "on")
        if move:
            added, _ = layers.open_scope(ref.scope).move([(ref.path, "")], layers.open_scope(move))
            ref = Ref(added.scope, added.revisions[0].path)
        changed = layers.read(ref)
    file = call.label(ref)
    ended = changed.describe_end(date.today().isoformat())
    return Result(
        {"path": file, "version": changed.version},
        f"{'Moved' if move else 'Updated'} {file}. {call.undo_hint(ref)}",
        Note(f"It {ended}, so it is never recalled.", "yellow") if ended else None,
    )


def _edit_in_editor(call: Call, name: str, allow: Allow) -> Result:
    """Open a memory in the editor, as often as it takes, and store what comes out."""
    with call.open_file(name) as (sheaf, path):
        sheaf.own.require_writable()
        memory = sheaf.own.find(path)
        if memory is None and path not in (CONTEXT, NOTES):  # these stand in every prompt, and need not be there yet
            raise NotFound(sheaf.own.ref(path))
        memory = memory or parse(path, b" ")._replace(data=b"")
        draft_name = memory.path.rpartition("/")[2]
        draft = _draft(draft_name, memory.data, call.environment)
        while True:
            try:
                _run_editor(call.environment, draft)
                data = _read(draft)
                if data != memory.data:
                    with insisting():
                        _store(sheaf, memory, data, allow=allow)
                break
            except MemsheafError as error:
                data = _read(draft) if os.path.exists(draft) else memory.data
                if call.console.interactive and data != memory.data and not isinstance(error, Changed):
                    call.console.note(f"memsheaf: {error}\n{error.hint}", style="red")
                    if call.console.confirm("Edit it again? (no leaves the memory as it was)"):
                        continue
                if isinstance(error, SecretFound):
                    text = data.decode("utf-8", "replace")
                    data = remove_secrets(text, new_secrets(text, memory.text)).encode()
                if data != memory.data:
                    error.add_note(
                        f"Nothing was changed. Your text is kept in {_draft(draft_name, data, call.environment)}"
                    )
                _discard(draft)
                raise
        _discard(draft)  # not when interrupted: then the text may be in no other place
        version = sheaf.read(memory.path).version if data or memory.data else ABSENT
        file = call.label(sheaf.own.ref(memory.path))
    is_changed = data != memory.data
    said = f"Updated {file}" if is_changed else f"{file} is unchanged"
    return Result({"path": file, "version": version, "changed": is_changed}, said)


def edited_text(environment: Mapping[str, str], name: str, text: str) -> str:
    """Return what a person makes of a text in the editor. Raises TextRefused when nothing is left of it."""
    draft = _draft(name, text.encode(), environment)
    try:
        _run_editor(environment, draft)
        edited = _read(draft).decode("utf-8", "replace")
    finally:
        _discard(draft)
    if not edited.strip():
        raise TextRefused("the edited text is empty")
    return edited


def _draft(name: str, data: bytes, environment: Mapping[str, str]) -> str:
    """A copy for the editor, in a private folder of its own."""
    chosen = environment.get("TMPDIR", "")
    folder = mkdtemp(prefix="memsheaf-", dir=chosen if os.path.isdir(chosen) else None)
    draft = os.path.join(folder, name)
    with open(draft, "xb") as file:
        file.write(data)
    return draft


def _run_editor(environment: Mapping[str, str], draft: str) -> None:
    usual = "notepad" if sys.platform == "win32" else "vi"
    editor = environment.get("VISUAL") or environment.get("EDITOR") or usual
    try:
        words = shlex.split(editor, posix=sys.platform != "win32")
        code = subprocess.run([*words, draft], env=dict(environment), check=False).returncode
    except (OSError, ValueError) as error:
        failed = MemsheafError(f"the editor {editor!r} cannot be run: {error}")
        failed.hint = "Name another in $EDITOR, such as `export EDITOR=nano`."
        raise failed from None
    if code != 0:
        raise MemsheafError(f"the editor {editor!r} ended with status {code}")


def _read(draft: str) -> bytes:
    try:
        with open(draft, "rb") as file:
            return file.read()
    except OSError as error:
        raise MemsheafError(f"the edited text cannot be read: {error}") from None


def _store(sheaf: Sheaf, memory: Memory, data: bytes, *, allow: Allow) -> None:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise TextRefused(f"the edited text is not UTF-8 at byte {error.start}") from None
    is_new = not memory.data
    is_free = memory.state == "free"
    expect = ABSENT if is_new and not is_free else memory.version
    sheaf.put(memory.path, text, expect=expect, free=is_new or is_free, allow=allow)


def _discard(draft: str) -> None:
    """Remove the copy, and the backups that editors leave beside it."""
    shutil.rmtree(os.path.dirname(draft), ignore_errors=True)
