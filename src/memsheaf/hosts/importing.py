"""Import from another tool: its memories checked by the gates of ours, and saved where they belong.

`plan_import` decides and writes nothing; `carry_out` makes one commit a scope, and one undo takes them back together.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from memsheaf.encode.judge import judge_sentence
from memsheaf.errors import Duplicate, PathRefused, Ref, SecretFound, TextRefused
from memsheaf.frontmatter import edit_text
from memsheaf.gates import LAYER_FILES, WrittenFile, place_memory, refuse_duplicate, require_no_secret
from memsheaf.guard.paths import check_path, file_name, fold, is_fact
from memsheaf.guard.secrets import without_secrets
from memsheaf.hosts.importers import ForeignMemory, LeftOut, day_of
from memsheaf.memory import KINDS, STRICT, Allow, Memory, check, compose, first_line, parse
from memsheaf.open_scope import TOGETHER, OpenScope, choose_scope, refuse_known
from memsheaf.recall.inject import CONTEXT, NOTES
from memsheaf.sheaf import Sheaf
from memsheaf.store import Commit
from memsheaf.text.neutralize import one_line
from memsheaf.text.sentences import make_description, make_name
from memsheaf.text.similarity import fact

READ = 600  # characters by which a type is guessed
_SPECIAL = {fold(os.path.basename(name)) for name in (CONTEXT, NOTES, *LAYER_FILES)}  # these stand in prompts
_POINTS = r"`[^`\s]*[/.][^`\s]*`|\[[^\]]*\]\(|https?://"  # a text that begins so says where something is


class ImportPlan(NamedTuple):
    """The memories that an import would save, each with its scope, and those that it leaves out."""

    what: str
    memories: tuple[tuple[str, Memory], ...]
    left_out: tuple[LeftOut, ...]


def plan_import(
    layers: Sheaf, what: str, found: Iterable[ForeignMemory | LeftOut], *, allow: Allow = STRICT
) -> ImportPlan:
    """Decide what becomes of each thing that a reader found; nothing is written.

    Raises:
        Refused: the source is not what that tool writes.
    """
    planner, left_out = _Planner(layers, f"import:{what}", allow), list[LeftOut]()
    for one in found:
        where = one_line(one.where, 100)
        if isinstance(one, LeftOut):
            left_out.append(LeftOut(without_secrets(where), one_line(one.why, 300)))
            continue
        try:
            planner.add(one._replace(where=where))
        except TextRefused as error:
            left_out.append(LeftOut(without_secrets(where) if isinstance(error, SecretFound) else where, str(error)))
    return ImportPlan(what, tuple(planner.memories), tuple(left_out))


def carry_out(layers: Sheaf, plan: ImportPlan, *, allow: Allow = STRICT) -> Sequence[Commit]:
    """Save what was planned: one commit a scope, which one undo takes back together.

    Raises:
        Changed, Exists: somebody saved a file of that name meanwhile; nothing is saved in that scope.
    """
    made: list[Commit] = []
    for scope in dict.fromkeys(scope for scope, _ in plan.memories):
        files = [WrittenFile(memory.path, memory) for each, memory in plan.memories if each == scope]
        why = f"import from {plan.what}" + (f"{TOGETHER}{made[0].id}" if made else "")
        were_looked_at = Allow(secrets=allow.secrets, anyway=True)
        made.append(layers.open_scope(scope).change_many(files, why, by=f"import:{plan.what}", allow=were_looked_at))
    return made


class _Planner:
    """Collects what one import saves, with what was planned before in sight."""

    def __init__(self, layers: Sheaf, source: str, allow: Allow) -> None:
        self.memories: list[tuple[str, Memory]] = []
        self._layers, self._source, self._allow = layers, source, allow
        self._taken: dict[str, set[str]] = {}  # the folded paths of a scope
        self._facts: dict[str, Ref] = {}

    def add(self, one: ForeignMemory) -> None:
        """Plan to save one, or raise what it is refused with."""
        layers = self._layers
        memory = _to_memory(one, self._source, layers.today)
        scopes = layers.scopes()
        scope = one.scope
        if scope not in scopes:
            scope = choose_scope(memory.type, memory.body, scopes, layers.home)
        opened = layers.open_scope(scope)
        if not self._allow.secrets:
            require_no_secret(memory)
        self._refuse_known(memory, opened)
        if any(each.doubts(memory) for each in layers.open_scopes()):
            memory = parse("", edit_text(memory.text, fields={"trust": "unconfirmed"}).encode())
        memory = place_memory(memory, self._free_path(one, memory, opened))
        self._taken[scope].add(fold(memory.path))
        self._facts[str(fact(memory))] = Ref(scope, memory.path)
        self.memories.append((scope, memory))

    def _refuse_known(self, memory: Memory, opened: OpenScope) -> None:
        """Raise Duplicate for what is said already, here or in this import, TextRefused for what was rejected."""
        known = opened.find_name(memory.type, memory.name)
        if known and known.body.strip() == memory.body.strip():
            raise Duplicate(known.ref, 1.0)
        if self._allow.anyway:
            return
        opened.check_gates(memory, refuse_duplicate)
        refuse_known(memory, opened.name, self._layers.open_scopes())
        if same := self._facts.get(str(fact(memory))):
            raise Duplicate(same, 1.0)
        if stone := opened.buried(memory):
            how = "rejected" if stone.why == "rejected" else "forgotten"
            raise TextRefused(f"it was {how} on {stone.at[:10]}; --anyway brings it back")

    def _free_path(self, one: ForeignMemory, memory: Memory, opened: OpenScope) -> str:
        """The file that it goes to: of the name that it had, where that is allowed, or made of type and name."""
        scope = opened.name
        if scope not in self._taken:
            self._taken[scope] = {fold(row.path) for row in opened.list()}
        taken = self._taken[scope]
        is_special = is_fact(one.path) or fold(os.path.basename(one.path)) in _SPECIAL
        with suppress(PathRefused):  # a name that we do not store
            if one.path and not is_special and fold(path := check_path(one.path)) not in taken:
                return path
        return file_name(memory.type, memory.name, lambda path: fold(path) in taken)


def _to_memory(one: ForeignMemory, source: str, today: str) -> Memory:
    """The memory, without a path yet. Raises TextRefused when it may not be stored."""
    was = parse(os.path.basename(one.path), one.text.encode()) if one.text else None
    trust = "unconfirmed" if one.is_shared else ""
    if was and was.state not in ("ok", "free"):
        raise TextRefused(was.problem)
    body = was.body if was else one.body
    kind = _kind_of(one, was, body)
    page = was.page if was else None
    name = one_line(page.get("name") or page.get("title") if page else one.name, 50)
    name = name or one_line(was.name.replace("-", " ") if was else make_name(body), 50)
    given = was.page.get("description") if was else one.description
    topic = f"{one.heading}: {body}" if one.heading else body
    below = (line for line in body.split("\n") if line.strip() and not line.startswith("#"))  # the headings
    description = given or (first_line(next(below, body)) if was else make_description(topic))
    description = one_line(description, 150)
    changed = was.page.get_nested("metadata", "modified") if was else ""  # as Claude Code has it
    day = day_of(changed) or one.day or today
    if was is None or was.state == "free":
        return compose(
            name=name, description=description, kind=kind, body=body, created=day, updated=day,
            source=source, trust=trust, conversation=one.conversation, reason=f"in {one.where}",
        )  # fmt: skip
    fields: dict[str, str | Sequence[str] | None] = {"source": source}
    fields |= {"name": name} if not was.page.get("name") else {}
    fields |= {"description": description} if not was.page.get("description") else {}
    if was.type != kind:
        fields |= {"type": kind, "note_type": was.page.get("type") or None}
    fields |= {"updated": day} if not was.updated else {}
    if was.trust == "confirmed":
        fields["trust"] = trust or None
    return check("", edit_text(was.text, fields=fields))


def _kind_of(one: ForeignMemory, was: Memory | None, body: str) -> str:
    """The type that it has, or that its text probably is; nothing that came with a repository is about the user."""
    kind = one.kind or (was.type if was and was.type in KINDS else "")
    kind = kind or ("reference" if re.match(_POINTS, body.lstrip()) else judge_sentence(one_line(body, READ)).kind)
    return "feedback" if one.is_shared and kind == "user" else kind
