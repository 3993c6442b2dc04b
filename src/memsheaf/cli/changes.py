"""Commands that save, change and forget memories."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from textwrap import indent
from typing import Any

from memsheaf.cli.call import Call, insisting, pick, plural
from memsheaf.cli.command import ALLOW_SECRET, ANYWAY, DRY_RUN, FILE, Argument, Usage, takes, text
from memsheaf.cli.output import Note, Part, Styled, Table
from memsheaf.errors import (
    Changed,
    Duplicate,
    Exists,
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
from memsheaf.memory import KINDS, Allow, Memory, clean_field, parse
from memsheaf.open_scope import new_group
from memsheaf.recall.inject import CONTEXT, NOTES
from memsheaf.sheaf import Saved, Sheaf, find_memory, forget_together
from memsheaf.store import ABSENT
from memsheaf.text.neutralize import one_line
from memsheaf.text.requests import asks_to_forget
from memsheaf.text.sentences import current_part, find_sentences, is_question
from memsheaf.text.tokenizer import CUT_INTO_PAIRS

_PIN = Argument("--pin", "keep it in the catalog however many memories there are")
_CITE = Argument(
    "--cite", "a place that shows it to be true, such as src/app.py:12; may be repeated", "PLACE", repeated=True
)
_EXPIRES = Argument("--expires", "the last day on which it is true, such as 2026-12-31", "DATE")


@takes(
    Argument("text", "the fact, in a sentence; - reads standard input", "TEXT", repeated=True),
    Argument("--type", "what it is about, if the rules find another", "TYPE", choices=KINDS),
    Argument("--name", "a short title, instead of one made from the text", "NAME"),
    Argument("--description", "one line that tells when this matters", "LINE"),
    _PIN,
    _CITE,
    _EXPIRES,
    ALLOW_SECRET,
    ANYWAY,
)
def remember(call: Call) -> int:
    """Save a fact as you would say it.

    Each sentence is stored as you typed it; a relative date gets the day in brackets behind it. Several facts become
    several memories; a sentence that leans on the one before ("It ...") stays with it. What is about you is known in
    every project, everything else in this one. A clear correction ("the port is 9090 now") takes the place of the
    memory that it corrects. The answer shows what was saved, where, and how to move it or take it back. Text from
    standard input, or with a --name of its own, becomes one memory.

    examples:
      memsheaf remember "I prefer pnpm"
      memsheaf remember We deploy on Fridays, after the standup
      git log -1 --format=%B | memsheaf remember - --type project
    """
    options = call.options
    text = call.given_text(" ".join(options.text) or None).strip()
    is_one_memory = options.name or options.description or options.text == ["-"]
    facts = [text] if is_one_memory else split_facts(text)
    more = _header_options(call) | pick(options, ("name", "description", "type"))
    if len(facts) > 1:
        more["also"] = new_group()
    saved: list[Saved] = []
    refused: list[tuple[str, MemsheafError]] = []
    with call.memory() as layers:
        if not options.allow_secret:
            _refuse_torn_secret(text, facts)
        for fact in facts:
            try:
                with insisting():
                    saved.append(layers.remember(fact, **more))
            except (Duplicate, NotWorth, SecretFound) as error:
                for hit in layers.search(fact, limit=1) if asks_to_forget(fact) else ():
                    file = layers.label(hit.ref)
                    deletes = f"`memsheaf forget {file}` deletes '{one_line(hit.memory.body, 200)}'."
                    error.hint = f"{deletes} --anyway stores the request as it is."
                if len(facts) < 2:
                    raise
                refused.append((without_secrets(fact), error))
    value = {"memories": [_saved_json(call, fact) for fact in saved], "refused": [fact for fact, _ in refused]}
    notes = []
    for fact, problem in refused:
        reason = str(problem).removesuffix("; nothing was stored")
        notes.append(Note(f"Not saved: {fact}\n  {reason}. {problem.hint}", "yellow"))
    sentences = (text[start:end] for start, end in find_sentences(text))
    for each in filter(is_question, sentences):
        if not any(each in fact or fact in each for fact in facts):
            notes.append(Note(f"Not saved, since it is a question: {each}"))
    parts = [part for fact in saved for part in _describe_saved(call, fact)]
    changed = [fact.memory.ref for fact in saved if fact.memory is not fact.replaced]
    call.answer(value, parts, call.undo_hint(changed[-1]) if changed else None, notes)
    return 1 if refused else 0


def _header_options(call: Call) -> dict[str, Any]:
    options = call.options
    return {
        "citations": options.cite or (),
        "pinned": options.pin,
        "expires": options.expires or "",
        "allow": call.allow(),
    }


def _refuse_torn_secret(text: str, facts: Sequence[str]) -> None:
    """Raise SecretFound for a secret that only the whole text shows: it goes on, or is named, in the next fact."""
    masked = "\n".join(map(without_secrets, facts))
    for secret in find_secrets(text):
        value = text[secret.start : secret.end]
        if value in masked or all(value not in fact for fact in facts):
            with insisting():
                raise SecretFound(secret.kind, "the text")


def _saved_json(call: Call, fact: Saved) -> dict[str, object]:
    fields = pick(fact.memory, ("scope", "name", "description", "body", "version"))
    replaced = fact.replaced.body if fact.replaced else None
    return {"path": call.label(fact.memory.ref), **fields, "type": fact.memory.type, "replaced": replaced}


def _describe_saved(call: Call, fact: Saved) -> Iterator[Part]:
    """Yield what was saved and where, what stood there before, and how to move it or take it back."""
    _, memory, old, linked = fact
    scope = memory.scope
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
    known = {"user": "for you, in every project", "project": "for this project"}.get(scope, f"in {scope}")
    other = {"user": "project", "project": "user"}.get(scope)
    move = f"; `memsheaf edit {file} --move {other}` moves it" if other and not old else ""
    yield f"Remembered {known}{move}."
    for memory in linked:
        deletes = f"If it is, `memsheaf forget {call.label(memory.ref)}` deletes it; if not, remember it again."
        yield Note(f"This may be outdated: {one_line(memory.body, 200)}\n{deletes}", "yellow")
    yield from _warn_of_end(memory)
    if is_question(body):
        yield Note("That is a question, kept as it is; `memsheaf recall` answers one.")


@takes(
    Argument("name", "a short title, such as 'Prefers tabs'", "NAME", required=True),
    Argument("text", "the fact; - reads it from standard input, which is also the way when it is left out", "TEXT"),
    Argument("--description", "one line that tells when this matters", "LINE", required=True),
    Argument("--type", "what it is about", "TYPE", required=True, choices=KINDS),
    Argument("--file", "the file to keep it in; made from type and name when left out", "FILE"),
    _PIN,
    _CITE,
    _EXPIRES,
    Argument("--replace", "take the place of the memory that has this name or file, and show what it said"),
    Argument("--expect", "with --replace, only if it is still at this version, as `show --json` has it", "VERSION"),
    ALLOW_SECRET,
    ANYWAY,
)
def add(call: Call) -> int:
    """Save one fact as a memory.

    Description and type are asked for because they decide when an agent reads the memory: `user` is about
    the person, `feedback` a correction or confirmation, `project` about the work, `reference` where to look.
    Without --scope it goes where it belongs: what is about the person, and feedback that holds in all projects
    ("always", "everywhere"), to the user, all else to the project. With --replace the text that was there is printed,
    and `memsheaf undo` undoes it; with --expect nothing is replaced that somebody changed since you read it.

    examples:
      memsheaf add "Prefers tabs" "Use tabs, not spaces." --description "Indentation of code" --type user
      git log -1 --format=%B | memsheaf add "Why we left X" - --description "Choice of database" --type project
      memsheaf add "Release day" "Fridays." --description "When releases go out" --type project --replace
    """
    options = call.options
    fields = (options.name, options.description, options.type, call.given_text(options.text))
    more = _header_options(call)
    was = None
    with call.memory() as layers, insisting():
        try:
            file = options.file or ""
            memory = layers.write(*fields, path=file, expect=options.expect, **more)
        except Exists as error:
            if not options.replace:
                raise
            was = layers.read(error.ref)
            expect = options.expect or was.version
            memory = layers.write(*fields, path=file or was.ref, replace=True, expect=expect, **more)
    if not was:
        return _changed(call, "Saved", memory)
    return call.answer(
        {"path": call.label(memory.ref), "version": memory.version, "replaced": was.body},
        f"Replaced {call.label(memory.ref)}, which said:",
        [Styled(f"  - {line}", "red") for line in was.body.strip().split("\n")],
        call.undo_hint(memory.ref),
    )


@takes(
    FILE,
    Argument("--old", "the exact text that is to change", "TEXT", required=True, convert=text),
    Argument("--new", "what shall stand there instead", "TEXT", required=True, convert=text),
    Argument("--count", "how often the old text occurs; all of them change (1)", "N", default=1),
    ALLOW_SECRET,
    ANYWAY,
)
def update(call: Call) -> int:
    """Replace a piece of a memory's text.

    The old text must occur exactly --count times; otherwise nothing changes and the lines are named.

    examples:
      memsheaf update project_release-day.md --old Fridays --new Mondays
    """
    options = call.options
    with call.memory() as layers, insisting():
        ref = find_memory(layers, options.file)
        memory = layers.revise(ref, options.old, options.new, count=options.count, allow=call.allow())
    return _changed(call, "Updated", memory)


@takes(
    FILE._replace(required=False),
    Argument("--all", "delete every memory, or with --type and --matching those that fit"),
    Argument("--type", "only memories of this type, with --all", "TYPE", choices=KINDS),
    Argument("--matching", "only memories that have all these words, with --all", "WORDS"),
    Argument("--why", "a reason, for the log", "TEXT"),
    DRY_RUN,
    Argument("--yes", "with --all, do not ask"),
)
def forget(call: Call) -> int:
    """Delete a memory, or many; `memsheaf undo` undoes it while the journal keeps the texts.

    With --all it shows what would go and asks; one `memsheaf undo` undoes all of it. To remove a memory and
    all its versions for good, use `memsheaf erase`.

    examples:
      memsheaf forget project_release-day.md --why "no releases any more"
      memsheaf forget "release day"
      memsheaf forget --all --type user --matching "old laptop" --dry-run
    """
    options = call.options
    if bool(options.file) == options.all or ((options.type or options.matching) and not options.all):
        raise Usage("name one memory, or give --all, which may go with --type and --matching")
    with call.memory() as layers:
        if options.all:
            return _forget_all(call, layers)
        ref = find_memory(layers, options.file)
        file = layers.label(ref)
        if options.dry_run:
            return call.answer({"path": file, "commit": None}, f"Would forget {file}")
        commit = layers.forget(ref, why=options.why or "")
    (gone,) = commit.revisions
    value = {"path": file, "commit": commit.id}
    return call.answer(
        value,
        f"Forgot {file}",
        [Styled(f"  - {line}", "red") for line in parse(gone.path, gone.old or b"").body.strip().split("\n")],
        call.undo_hint(ref),
    )


def _forget_all(call: Call, layers: Sheaf) -> int:
    """Forget every memory that fits, after showing them and asking."""
    options, lasting = call.options, layers.only(*layers.scopes(lasting=True))
    rows = [row for row in lasting.list(type=options.type or "") if row.state == "ok"]
    for word in (options.matching or "").split():
        rows = [row for row in rows if has_word(f"{row.path}\n{lasting.read(row.ref).text}", word)]
    count, paths = plural(len(rows), "memory", "memories"), [layers.label(row.ref) for row in rows]
    if not rows:
        return call.answer({"paths": [], "commits": []}, Note("no memory fits; nothing was forgotten", ""))
    table = Table([(layers.label(row.ref), row.description) for row in rows], ("bold",))
    if options.dry_run:
        return call.answer({"paths": paths, "commits": []}, table, Note(f"{count} would be forgotten"))
    if call.console.interactive and not options.yes:
        call.answer({"paths": paths}, table)
    scopes = Counter(row.scope for row in rows)
    parts = " and ".join(f"{number:,} of {scope}" for scope, number in scopes.items())
    if not call.confirm(f"Forget {count} ({parts})?", without=f"this forgets {count}", left="Nothing was forgotten."):
        return 1
    commits = forget_together(lasting, [(row.ref, row.version) for row in rows], why=options.why or "")
    value = {"paths": paths, "commits": [commit.id for commit in commits]}
    return call.answer(value, f"Forgot {count}. {call.undo_hint()}")


def has_word(text: str, word: str) -> bool:
    """Return True if a text has this word whole, in any case; in scripts without spaces a part of the text is enough.

    >>> [has_word(text, "port") for text in ("Port 80", "the_port", "importer", "ports")]
    [True, True, False, False]
    """
    spaced = rf"[^\W_{CUT_INTO_PAIRS}]"
    pattern = rf"(?<!{spaced}(?={spaced})){re.escape(word)}(?!(?<={spaced}){spaced})"
    return re.search(pattern, text, re.IGNORECASE) is not None


@takes(
    FILE,
    Argument("--rename", "give it this name instead; its file keeps its own", "NAME"),
    Argument("--pin", "keep it in the catalog however many memories there are"),
    Argument("--unpin", "no longer keep it there"),
    Argument("--move", "move it to this scope", "SCOPE"),
    ALLOW_SECRET,
)
def edit(call: Call) -> int:
    """Open a memory in your editor and store it when the editor ends; rename, pin or move it.

    The editor is $VISUAL or $EDITOR. The text is checked before it is stored. When it is refused, the editor can be
    opened again with your text; else, or when the memory changed meanwhile, nothing is stored and your text stays in
    a file that is named, without the password or key that it was refused for. CONTEXT.md and NOTES.md need not exist
    yet. One `memsheaf undo` undoes a move in both scopes.

    examples:
      memsheaf edit user_prefers-tabs.md
      memsheaf edit user_prefers-tabs.md --rename "Tabs, not spaces" --pin
      EDITOR="code --wait" memsheaf edit CONTEXT.md --agent researcher
    """
    options = call.options
    if options.rename or options.pin or options.unpin or options.move:
        return _edit_header(call)
    with call.open_file(call.options.file) as (sheaf, path):
        sheaf.own.require_writable()
        memory = sheaf.own.find(path)
        if memory is None and path not in (CONTEXT, NOTES):  # these stand in every prompt, and need not be there yet
            raise NotFound(sheaf.own.ref(path))
        memory = memory or parse(path, b" ")._replace(data=b"")
        name = memory.path.rpartition("/")[2]
        draft = _draft(name, memory.data, call.environment)
        allow = Allow(call.options.allow_secret, anyway=True)
        while True:
            try:
                _run_editor(call.environment, draft)
                data = _read(draft)
                if data != memory.data:
                    with insisting():
                        _store(sheaf, memory, data, allow=allow)
            except MemsheafError as error:
                data = _read(draft) if os.path.exists(draft) else memory.data
                again = "Edit it again? (no leaves the memory as it was)"
                if call.console.interactive and data != memory.data and not isinstance(error, Changed):
                    call.console.note(f"memsheaf: {error}\n{error.hint}", style="red")
                    if call.console.confirm(again):
                        continue
                if isinstance(error, SecretFound):
                    text = data.decode("utf-8", "replace")
                    data = remove_secrets(text, new_secrets(text, memory.text)).encode()
                if data != memory.data:
                    kept = _draft(name, data, call.environment)
                    error.add_note(f"Nothing was changed. Your text is kept in {kept}")
                _discard(draft)
                raise
            break
        _discard(draft)  # not when interrupted: then the text may be in no other place
        version = sheaf.read(memory.path).version if data or memory.data else ABSENT
        file = call.label(sheaf.own.ref(memory.path))
    said = f"Updated {file}" if data != memory.data else f"{file} is unchanged"
    return call.answer({"path": file, "version": version, "changed": data != memory.data}, said)


def _edit_header(call: Call) -> int:
    """Rename, pin and move a memory, as the options of `edit` say."""
    options = call.options
    if options.pin and options.unpin:
        raise Usage("--pin and --unpin contradict each other")
    with call.memory() as layers, insisting():
        ref = find_memory(layers, options.file)
        if options.rename:
            was = layers.read(ref)
            name = clean_field("name", options.rename)
            text = edit_text(was.text, fields={"name": name, "updated": layers.today})
            layers.put(ref, text, expect=was.version, allow=Allow(options.allow_secret))
        if options.pin or options.unpin:
            layers.open_scope(ref.scope).pin([(ref.path, "")], options.pin)
        if options.move:
            added, _ = layers.open_scope(ref.scope).move([(ref.path, "")], layers.open_scope(options.move))
            ref = Ref(added.scope, added.revisions[0].path)
        return _changed(call, "Moved" if options.move else "Updated", layers.read(ref))


def _changed(call: Call, verb: str, memory: Memory) -> int:
    file = call.label(memory.ref)
    value = {"path": file, "version": memory.version}
    return call.answer(value, f"{verb} {file}. {call.undo_hint(memory.ref)}", _warn_of_end(memory))


def _warn_of_end(memory: Memory) -> Iterator[Note]:
    """Yield a warning if the last day on which a memory is true is over."""
    if ended := memory.describe_end(date.today().isoformat()):
        yield Note(f"It {ended}, so it is never recalled.", "yellow")


def edited_text(environment: Mapping[str, str], name: str, text: str) -> str:
    """What a person makes of a text in the editor. Raises TextRefused when nothing is left of it."""
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
    from tempfile import mkdtemp

    chosen = environment.get("TMPDIR", "")
    folder = mkdtemp(prefix="memsheaf-", dir=chosen if os.path.isdir(chosen) else None)
    draft = os.path.join(folder, name)
    with open(draft, "xb") as file:
        file.write(data)
    return draft


def _run_editor(environment: Mapping[str, str], draft: str) -> None:
    import shlex
    import subprocess

    usual = "notepad" if sys.platform == "win32" else "vi"
    editor = environment.get("VISUAL") or environment.get("EDITOR") or usual
    try:
        words = shlex.split(editor, posix=sys.platform != "win32")
        code = subprocess.run([*words, draft], env=dict(environment), check=False).returncode
    except (OSError, ValueError) as error:
        raise MemsheafError(
            f"the editor {editor!r} cannot be run: {error}",
            hint="Name another in $EDITOR, such as `export EDITOR=nano`.",
        ) from None
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
    free = memory.state == "free" or not memory.data
    expect = memory.version if memory.data or memory.state != "free" else ABSENT
    sheaf.put(memory.path, text, expect=expect, free=free, allow=allow)


def _discard(draft: str) -> None:
    """Remove the copy, and the backups that editors leave beside it."""
    import shutil

    shutil.rmtree(os.path.dirname(draft), ignore_errors=True)
