"""Write a memory: a new one, or a change of one against the version that was shown, with a preview."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import date

from starlette.responses import Response

from memsheaf.errors import Changed, Duplicate, Exists, MemsheafError, NotFound, NotWorth, SecretFound
from memsheaf.frontmatter import edit_text
from memsheaf.memory import KINDS, Allow, Memory, compose, first_line, parse
from memsheaf.store import ABSENT
from memsheaf.web.markdown import memory_link, render_markdown
from memsheaf.web.page import PageRequest
from memsheaf.web.text_changes import compare_texts

_FIELDS = ("name", "description", "kind", "body", "expires", "pinned", "text", "version", "to")


def show_new(page: PageRequest) -> Response:
    """Show the form for a new memory."""
    return _show_form(page, {"to": page.query["scope"], "kind": "project"})


def save_new(page: PageRequest) -> Response:
    """Save a new memory, or show its preview."""
    given = _given(page)
    if page.form["do"] == "preview":
        return _show_form(page, given)
    key = given["to"] or page.scopes.choose(given["kind"], given["body"])
    try:
        memory = page.open(key).write(
            given["name"],
            given["description"].strip() or first_line(given["body"]),
            given["kind"],
            given["body"],
            expires=given["expires"],
            pinned=bool(given["pinned"]),
            allow=_allow(page),
        )
    except MemsheafError as error:
        return _show_form(page, given, error)
    commit = next(iter(page.open(key).log(memory.path, limit=1)), None)
    return page.go(memory_link(key, memory.path), "Saved.", commit=commit, key=key)


def show_preview(page: PageRequest) -> Response:
    """Show the preview of a form, for the script."""
    return _show_form(page, _given(page))


def show_edit(page: PageRequest) -> Response:
    """Show the form for a memory, or for one of the files in every prompt."""
    memory = page.sheaf.own.find(page.path)
    if memory is None:
        raise NotFound(page.path)
    return _show_form(page, _fields_of(memory), memory=memory)


def save_edit(page: PageRequest) -> Response:
    """Save a change; if the memory was changed meanwhile, show both texts."""
    given, sheaf = _given(page), page.sheaf
    present = sheaf.own.find(page.path)
    if page.form["do"] == "preview":
        return _show_form(page, given, memory=present)
    if present is None or present.version != given["version"]:
        return _show_conflict(page, given, present)
    try:
        text = _text_of(given, present, sheaf.today)
        if text == present.text:
            return page.go(memory_link(page.key, present.path), "Nothing was changed.")
        free = present.state != "ok" and not text.lstrip().startswith("---")
        saved = sheaf.put(present.path, text, expect=present.version, free=free, allow=_allow(page))
    except Changed:
        return _show_conflict(page, given, sheaf.own.find(page.path))
    except MemsheafError as error:
        return _show_form(page, given, error, memory=present)
    commit = next(iter(sheaf.log(saved.path, limit=1)), None)
    return page.go(memory_link(page.key, saved.path), "Saved.", commit=commit)


def _given(page: PageRequest) -> dict[str, str]:
    given = {name: page.form[name] for name in _FIELDS}
    return given | {name: given[name].replace("\r\n", "\n") for name in ("body", "text")}


def _fields_of(memory: Memory) -> dict[str, str]:
    """Return the fields of a memory for the form, or its whole text if its header is invalid."""
    values = {"version": memory.version, "to": ""}
    if memory.state != "ok":
        return values | dict.fromkeys(_FIELDS[:6], "") | {"text": memory.text}
    values |= {"name": memory.name, "description": memory.description, "kind": memory.type, "text": ""}
    return values | {"body": memory.body, "expires": memory.expires, "pinned": "1" if memory.pinned else ""}


def _text_of(given: Mapping[str, str], was: Memory, today: str) -> str:
    """Return the whole text from a form; unchanged fields stay byte for byte. Raises TextRefused."""
    ends = "\r\n" if "\r\n" in was.text else "\n"
    if was.state != "ok":
        return given["text"].replace("\n", ends)
    shown = _fields_of(was)
    changed = {name for name in _FIELDS[:6] if given[name].strip() != shown[name].replace("\r\n", "\n").strip()}
    typed = {
        "name": given["name"].strip(),
        "description": given["description"].strip() or first_line(given["body"]),
        "kind": given["kind"],
        "expires": given["expires"].strip() or None,
        "pinned": "true" if given["pinned"] else None,
    }
    fields = {"type" if name == "kind" else name: value for name, value in typed.items() if name in changed}
    body = given["body"] if given["body"].endswith("\n") else given["body"] + "\n"
    if changed - {"pinned"}:
        fields["updated"] = today
    return edit_text(was.text, fields=fields, body=body.replace("\n", ends) if "body" in changed else None)


def _allow(page: PageRequest) -> Allow:
    return Allow(secrets=page.form["allow"] == "secrets", anyway=page.form["allow"] in ("anyway", "secrets"))


def _show_form(
    page: PageRequest, given: Mapping[str, str], error: MemsheafError | None = None, memory: Memory | None = None
) -> Response:
    """Show the form, with a preview of its text, and the reason if it was refused."""
    page.require_writable()
    given = dict.fromkeys(_FIELDS, "") | dict(given)
    insist = ""
    if isinstance(error, SecretFound):
        insist = "secrets"
    elif isinstance(error, Duplicate | NotWorth):
        insist = "anyway"
    other = error.ref.path if isinstance(error, Exists | Duplicate) else ""
    key = page.key or given["to"] or page.scopes.choose(given["kind"], given["body"])
    return page.show(
        "edit.html",
        422 if error else 200,
        given=given,
        memory=memory,
        raw=memory is not None and memory.state != "ok",
        kinds=KINDS if given["kind"] in ("", *KINDS) else (*KINDS, given["kind"]),
        preview=render_markdown(given["body"] or given["text"], lambda path: memory_link(key, path)),
        problem=str(error) if error else "",
        hint=error.hint if error else "",
        insist=insist,
        other=memory_link(key, other) if other else "",
    )


def _join_fields(fields: Mapping[str, str]) -> str:
    """Return everything that a person typed, as one text."""
    head = "\n".join(filter(None, (fields["name"], fields["description"], fields["kind"], fields["expires"])))
    return fields["text"] or f"{head}\n\n{fields['body'].strip()}".replace("\r\n", "\n")


def _fit_form(given: Mapping[str, str], present: Memory | None, path: str) -> dict[str, str]:
    """Fit the typed values to the form of the present file: fields, or the whole text if its header is invalid."""
    is_whole = present is not None and present.state != "ok"
    if is_whole == bool(given["text"]):
        return dict(given)
    if is_whole:
        made = {name: given[name] for name in ("name", "description", "kind", "body", "expires")}
        day = date.today().isoformat()
        with suppress(MemsheafError):
            composed = compose(**made, created=day, updated=day, source="user", pinned=bool(given["pinned"]))
            return {**given, "text": composed.text}
        return {**given, "text": _join_fields(given)}
    typed = parse(path, given["text"].encode("utf-8", "replace"))
    if typed.state == "ok":
        return {**given, **_fields_of(typed)}
    shown = _fields_of(present) if present else {"name": path.removesuffix(".md"), "kind": "project"}
    return {**given, **shown, "body": given["text"], "text": ""}


def _show_conflict(page: PageRequest, given: Mapping[str, str], present: Memory | None) -> Response:
    """Show the present text and the typed text side by side."""
    old, new = compare_texts(_join_fields(_fields_of(present)) if present else "", _join_fields(given))
    shown = _fit_form(given, present, page.path) | {"version": present.version if present else ABSENT}
    return page.show("conflict.html", 409, given=shown, present=present, old=old, new=new)
