"""Commits on their way to a hub and from it: what may be pushed, in which portions, and what of a pull is sound."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256

from memsheaf.guard.paths import CATALOG, is_memory_path
from memsheaf.hub import HubCommit, HubSettings, Pulled
from memsheaf.state.trust import TrustLedger, list_versions
from memsheaf.store import Commit, Revision, Version, version_of
from memsheaf.store.history import HUB, OTHERS, is_commit_id

WHY_LIMIT = 8_000  # bytes of a commit's reason that are pushed
_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z"
_UNKNOWN = "1970-01-01T00:00:00.000Z"
PORTION, PORTION_BYTES = 2_000, 1 << 20  # most revisions and bytes of one commit of many that are pushed
LARGEST = 20_000  # revisions of one commit that a hub takes


def portions(steps: Sequence[Revision]) -> Iterator[tuple[Revision, ...]]:
    """Split revisions into commits of limited size, for slow networks: a first sync may push a whole folder."""
    taken: list[Revision] = []
    size = 0
    for step in steps:
        if taken and (len(taken) == PORTION or size + len(step.new or b"") > PORTION_BYTES):
            yield tuple(taken)
            taken, size = [], 0
        taken.append(step)
        size += len(step.new or b"")
    if taken:
        yield tuple(taken)


def may_push(commit: Commit) -> bool:
    """Return True if a commit may go as it is: not too large, and without new secrets."""
    return len(commit.revisions) <= LARGEST and not any(find_secret(one.new, one.old) for one in commit.revisions)


def for_hub(commit: Commit) -> Commit:
    """A commit as it is pushed, without generated files."""
    why = commit.why.replace("\0", "").encode("utf-8", "replace")[:WHY_LIMIT].decode("utf-8", "ignore")
    return commit._replace(why=why, revisions=tuple(step for step in commit.revisions if step.path != CATALOG))


def attribute(pulled: Pulled, ledger: TrustLedger | None, settings: HubSettings) -> Pulled:
    """Pulled commits with their authors; what this member wrote on another machine is recorded as their own.

    In git anybody can name any author, so everything that is pulled counts as written by others.
    """
    if ledger is None:
        return pulled
    if settings.is_postgres:
        ledger.add(list_versions(one.commit for one in pulled.commits if one.own and one.commit.by == "user"))
        return pulled
    return pulled._replace(
        commits=[one._replace(own=False, member=one.member or "somebody") for one in pulled.commits]
    )


def as_local(one: HubCommit) -> Commit:
    """A pulled commit as the journal records it: with the name of the other member."""
    return one.commit._replace(by=f"{OTHERS}{one.member}") if one.member and not one.own else one.commit


def find_secret(new: bytes | None, old: bytes | None) -> str:
    """The kind of a secret that is new in a text, "" when there is none."""
    from memsheaf.guard.secrets import new_secrets

    if not new:
        return ""
    found = new_secrets(new.decode("utf-8", "replace"), (old or b"").decode("utf-8", "replace"))
    return f"it holds {found[0].kind}" if found else ""


def last_steps(pulled: Pulled) -> dict[str, Revision]:
    """The last revision of each path in a pull."""
    return {step.path: step for one in pulled.commits for step in one.commit.revisions}


def without_unsound(pulled: Pulled) -> Pulled:
    """Return what was pulled, without unsafe paths, wrong hashes and texts past retention: a hub is not trusted."""
    commits = []
    for one in pulled.commits:
        commit = one.commit
        name = commit.id if is_commit_id(commit.id) else sha256(commit.id.encode()).hexdigest()[:12]
        at = commit.at if re.fullmatch(_TIME, commit.at) else _UNKNOWN
        steps = tuple(filter(is_sound, commit.revisions))
        commits.append(one._replace(commit=commit._replace(id=name, at=at, revisions=steps)))
    return pulled._replace(commits=commits)


def authors_of(pulled: Pulled) -> dict[str, str]:
    """The member who wrote the pulled text of each path."""
    found: dict[str, str] = {}
    for one in pulled.commits:
        by = as_local(one).by
        found.update((step.path, by if by.startswith(OTHERS) else HUB) for step in one.commit.revisions)
    return found


def versions_made(waiting: Sequence[Commit]) -> set[tuple[str, Version]]:
    """The versions that commits made, with their paths."""
    return {(step.path, step.after) for one in waiting for step in one.revisions}


def first_steps(waiting: Sequence[Commit]) -> dict[str, Revision]:
    """The first pending revision of each path: its `before` is the version that the hub had."""
    found: dict[str, Revision] = {}
    for one in waiting:
        for step in one.revisions:
            found.setdefault(step.path, step)
    found.pop(CATALOG, None)
    return found


def is_sound(step: Revision) -> bool:
    """Return True if a pulled revision may be written: an allowed path, and a text with the hash that it claims."""
    return is_memory_path(step.path) and version_of(step.new) == step.after
