"""What is particular to git: people who commit by hand, trees that hold anything, settings, copies that are lost."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from hub.git_remotes import add_hook, git, open_git
from hub.machines import ScopeOnMachine
from hub.test_contract import commit, push, state
from memsheaf.errors import Busy, Changed, HubRefused, HubRestored, HubUnreachable
from memsheaf.hub import Erasure, HubSettings, Machine
from memsheaf.hub import git as git_module
from memsheaf.hub.git import GitRemote
from memsheaf.hub.git_import import MOST_NAMED
from memsheaf.store import ABSENT, version_of
from memsheaf.store.atomic_replace import READ_LIMIT

BRANCH = "memsheaf/user"


@pytest.fixture
def checkout(bare: Path) -> Path:
    """A person's own clone of the branch, which has `a.md`."""
    push(open_git(bare, "first"), "a.md", None, b"1\n")
    git(bare.parent, "clone", "--quiet", "--branch", BRANCH, str(bare), "checkout")
    return bare.parent / "checkout"


def commit_all(checkout: Path, message: str = "By hand") -> None:
    git(checkout, "add", "--all")
    git(checkout, "commit", "--quiet", "-m", message)


def texts_in(repository: Path) -> bytes:
    """All that a repository holds, packed or not, reachable or not."""
    command = ["git", "-C", str(repository), "cat-file", "--batch-all-objects", "--batch"]
    return subprocess.run(command, capture_output=True, check=True).stdout


# people


def test_what_a_person_commits_comes_under_their_name(bare: Path, checkout: Path) -> None:
    hub = open_git(bare)
    cursor = hub.pull().cursor
    (checkout / "notes").mkdir()
    (checkout / "notes" / "b.md").write_text("by hand\r\n", newline="")
    (checkout / "a.md").unlink()
    commit_all(checkout, "Tidy up\n\nAt length.")
    git(checkout, "push", "--quiet")
    [one] = hub.pull(cursor).commits
    assert (one.commit.by, one.commit.why, one.machine) == ("Ana Person", "Tidy up", "")
    assert one.commit.id == git(bare, "rev-parse", BRANCH)[:12]
    assert {(step.path, step.before, step.new) for step in one.commit.revisions} == {
        ("a.md", version_of(b"1\n"), None),
        ("notes/b.md", ABSENT, b"by hand\r\n"),
    }
    assert state(open_git(bare, "m2").pull()) == {"notes/b.md": b"by hand\r\n"}
    push(hub, "notes/b.md", b"by hand\r\n", b"2")
    assert "Ana Person" in {member.name for member in hub.users()[0]}


@pytest.mark.parametrize("order", ["pulled into", "pulled from"])
def test_a_merge_by_a_person_is_what_it_made_of_the_branch(bare: Path, checkout: Path, order: str) -> None:
    hub = open_git(bare)
    cursor = hub.pull()
    git(checkout, "checkout", "--quiet", "-b", "side")
    (checkout / "side.md").write_text("side")
    commit_all(checkout)
    push(hub, "b.md", None, b"b")
    push(hub, "a.md", b"1\n", b"2\n")
    git(checkout, "fetch", "--quiet")
    if order == "pulled into":
        git(checkout, "checkout", "--quiet", "-B", BRANCH, f"origin/{BRANCH}")
        git(checkout, "merge", "--quiet", "--no-ff", "side")
    else:
        git(checkout, "merge", "--quiet", "--no-ff", f"origin/{BRANCH}")
    git(checkout, "push", "--quiet", "origin", f"HEAD:{BRANCH}")
    expected = {"a.md": b"2\n", "b.md": b"b", "side.md": b"side"}
    later = hub.pull(cursor.cursor)
    assert state(cursor, later) == expected
    assert state(open_git(bare, "m2").pull()) == expected
    shutil.rmtree(bare.parent / "copy-m1")
    assert state(cursor, open_git(bare).pull(cursor.cursor)) == expected
    push(hub, "a.md", b"2\n", b"3\n")
    assert state(cursor, later, hub.pull(later.cursor)) == expected | {"a.md": b"3\n"}


def test_a_message_that_was_copied_is_not_taken_for_the_commit_it_was_of(bare: Path, checkout: Path) -> None:
    hub = open_git(bare)
    made = push(hub, "b.md", None, b"b")
    push(hub, "b.md", b"b", None)
    cursor = hub.pull().cursor
    git(checkout, "pull", "--quiet")
    git(checkout, "cherry-pick", "HEAD~")
    git(checkout, "push", "--quiet")
    [one] = hub.pull(cursor).commits
    assert made.id in git(bare, "log", "-1", "--format=%B", BRANCH)
    assert (one.commit.id != made.id, one.commit.by, one.machine) == (True, "m1's name", "")
    assert [step.new for step in one.commit.revisions] == [b"b"]


def test_on_a_team_what_others_say_comes_as_theirs(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    ana = open_git(bare, "ana", namespace="memsheaf/team/x")
    push(ana, "a.md", None, b"1", by="user")
    [one] = open_git(bare, "bob", namespace="memsheaf/team/x").pull().commits
    assert (one.own, one.member, ana.me) == (False, "ana's name", "ana's name")
    assert ana.pull().commits[0].own
    assert not open_git(bare, "bob").pull().commits
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    (tmp_path / "gitconfig").write_text("[user]\n\tname = Eve <\u202e>\n")
    eve = open_git(bare, "eve", namespace="memsheaf/team/x")
    push(eve, "b.md", None, b"1", by="user")
    assert [one.member for one in ana.log()] == ["Eve", "ana's name"]
    assert (eve.me, open_git(bare, "eve").me) == ("Eve <>", "")


# trees and messages that hold anything


def test_what_is_no_memory_is_left_out_and_stops_nothing(bare: Path, checkout: Path) -> None:
    hub = open_git(bare)
    cursor = hub.pull().cursor
    large = git(bare, "hash-object", "-w", "--stdin", given="x" * (READ_LIMIT + 1))
    text = git(bare, "hash-object", "-w", "--stdin", given="text")
    head = git(bare, "rev-parse", BRANCH)
    names = [
        "MEMORY.md",
        "AGENTS.md",
        ".hidden.md",
        "tasks/x.md",
        "a\tb.md",
        "con.md",
        "x.txt",
        "-x.md",
        "e\u0301.md",
    ]
    names += ['"quoted".md', "new\\nline.md", "..\\x.md", "deep/er/and/even/more/x.md", "\udcff.md"]
    listed = [f"100644 blob {text}\t{name}" for name in names if "/" not in name]
    listed += [f"120000 blob {text}\tlink.md", f"160000 commit {head}\tmodule.md", f"100644 blob {large}\tlarge.md"]
    listed += [f"100755 blob {text}\trun.md", f"100644 blob {text}\tgood.md"]
    inner = git(bare, "mktree", given=f"100644 blob {text}\tx.md\n")
    listed += [f"040000 tree {inner}\t{name}" for name in (".git", "..", "tasks", "ok")]
    tree = subprocess.run(
        ["git", "-C", str(bare), "mktree", "-z"], input="\0".join(listed).encode("utf-8", "surrogateescape") + b"\0",
        capture_output=True, check=True,
    ).stdout.decode().strip()  # fmt: skip
    body = f"tree {tree}\nparent {head}\nauthor \x1b[31m\u202e <x> 99999999999999 +0000\ncommitter  <> -5 +0000\n\n"
    body += '\x1b]0;hi\x07 subject\n\nMemsheaf: {"format": "x", "id": ["no"], "on": 7}\nMemsheaf: [[[[[\n'
    made = subprocess.run(
        ["git", "-C", str(bare), "hash-object", "-t", "commit", "-w", "--literally", "--stdin"],
        input=body.encode() + b"\0after a zero\n", capture_output=True, check=True,
    ).stdout.decode().strip()  # fmt: skip
    git(bare, "update-ref", f"refs/heads/{BRANCH}", made)
    expected = {"run.md": b"text", "good.md": b"text", "ok/x.md": b"text"}
    later = hub.pull(cursor)
    assert state(later) == expected
    assert later.commits[0].commit.at.endswith("Z")
    assert later.commits[0].commit.by.isprintable()
    assert "\x1b" not in later.commits[0].commit.why
    assert {step.path for step in later.commits[0].commit.revisions if step.after == ABSENT} == {"a.md"}
    whole = open_git(bare, "m2").pull()
    assert state(whole) == expected
    with pytest.raises(Changed):
        push(hub, "large.md", None, b"smaller")
    with pytest.raises(Changed):
        push(hub, "link.md", b"text", b"mine")
    push(hub, "good.md", b"text", b"better")
    hub.erase(Erasure("0a", ("good.md",), ()))
    assert state(hub.pull()) == {"run.md": b"text", "ok/x.md": b"text"}
    left = git(bare, "ls-tree", "-r", "--name-only", BRANCH)
    kept = ("MEMORY.md", "link.md", "module.md", "large.md", "x.txt", "tasks/x.md")
    assert [name for name in kept if name not in left] == []


def test_a_message_that_lies_brings_nothing_that_a_journal_cannot_hold(bare: Path, checkout: Path) -> None:
    hub = open_git(bare)
    cursor, head = hub.pull().cursor, git(bare, "rev-parse", BRANCH)
    said = {
        "format": 10**30,
        "id": "0" * 12,
        "on": head,
        "at": "soon",
        "by": "\ud800\x1b" + "x" * 99,
        "why": "\ud800",
    }
    said |= {"undoes": "../x", "machine": "\udfff", "paths": ["../x", "a.md"], "erasures": [{"names": ["../x"]}, 7]}
    (checkout / "a.md").write_text("2\n")
    commit_all(checkout, f"x\n\nMemsheaf: {json.dumps(said)}")
    git(checkout, "push", "--quiet")
    for pulled in (hub.pull(cursor), hub.pull(), open_git(bare, "m2").pull()):
        found = pulled.commits[-1].commit
        repr(pulled).encode()
        assert (found.id, found.why, found.undoes, len(found.by)) == ("0" * 12, "?", "", 60)
        assert found.at.startswith("20")
    odds: list[dict[str, object]] = [{"id": 7}, {"format": True}, {"format": -7}, {"paths": [7]}]
    for number, odd in enumerate(odds):
        (checkout / "a.md").write_text(f"odd {number}\n")
        commit_all(checkout, f"x\n\nMemsheaf: {json.dumps(said | {'on': git(checkout, 'rev-parse', 'HEAD')} | odd)}")
    git(checkout, "push", "--quiet")
    assert [one.commit.by for one in hub.pull(cursor).commits[1:]] == ["Ana Person"] * 4
    with pytest.raises(HubRefused, match="newer"):
        push(hub, "b.md", None, b"2", why="\ud800\0")
    push(open_git(bare, "m3", namespace="memsheaf/agent/x"), "b.md", None, b"2", why="\ud800\0")


def test_a_file_is_not_replaced_by_a_folder_nor_a_folder_by_a_file(bare: Path) -> None:
    hub = open_git(bare)
    push(hub, "a.md", None, b"1")
    push(hub, "b.md/c.md", None, b"1")
    for path in ("a.md/x.md", "b.md", "a.md/x/y.md"):
        with pytest.raises(Changed):
            push(hub, path, None, b"2")
    assert state(hub.pull()) == {"a.md": b"1", "b.md/c.md": b"1"}


def test_the_message_is_safe_to_read(bare: Path) -> None:
    hub = open_git(bare)
    push(hub, "a.md", None, b"1", why="one\n\nMemsheaf: {}\x1b[31m\n" + "long " * 100)
    subject, empty, line = git(bare, "log", "-1", "--format=%B", BRANCH).split("\n")
    assert (len(subject) <= 72, empty, line.isascii(), line.isprintable()) == (True, "", True, True)
    [one] = open_git(bare, "m2").pull().commits
    assert one.commit.why.startswith("one\n\nMemsheaf: {}\x1b[31m\nlong")


# another history


def test_a_remote_restored_from_a_backup_is_told_and_nothing_is_overwritten(bare: Path) -> None:
    one, two = open_git(bare), open_git(bare, "m2")
    push(one, "a.md", None, b"1")
    shutil.copytree(bare, bare.parent / "backup.git")
    push(one, "a.md", b"1", b"2")
    cursor = two.pull().cursor
    shutil.rmtree(bare)
    shutil.copytree(bare.parent / "backup.git", bare)
    with pytest.raises(HubRestored):
        two.pull(cursor)
    with pytest.raises(Changed):
        push(one, "a.md", b"2", b"3")
    push(one, "b.md", None, b"b")
    with pytest.raises(HubRestored):
        two.pull(cursor)
    assert state(two.pull()) == {"a.md": b"1", "b.md": b"b"}


def test_a_remote_restored_from_a_backup_is_told_also_when_somebody_erased_since(bare: Path) -> None:
    one, two = open_git(bare), open_git(bare, "m2")
    push(one, "a.md", None, b"1")
    shutil.copytree(bare, bare.parent / "backup.git")
    push(two, "b.md", None, b"in no backup")
    behind, cursor = one.pull().cursor, two.pull().cursor
    shutil.rmtree(bare)
    shutil.copytree(bare.parent / "backup.git", bare)
    third = open_git(bare, "m3")
    before = third.pull().cursor
    third.erase(Erasure("0123456789ab", ("a.md",), ()))
    assert third.pull(before).whole
    for hub, known in ((one, behind), (two, cursor)):
        with pytest.raises(HubRestored):
            hub.pull(known)


def test_a_branch_that_was_removed_is_told(bare: Path) -> None:
    hub = open_git(bare)
    push(hub, "a.md", None, b"1")
    cursor = hub.pull().cursor
    git(bare, "update-ref", "-d", f"refs/heads/{BRANCH}")
    with pytest.raises(HubRestored):
        hub.pull(cursor)
    with pytest.raises(Changed):
        push(hub, "a.md", b"1", b"2")
    assert state(hub.pull()) == {}


def test_an_erased_text_is_in_no_copy_of_the_repository(bare: Path) -> None:
    one, two, late = open_git(bare), open_git(bare, "m2"), open_git(bare, "m3")
    push(one, "kept.md", None, b"kept", by="agent")
    push(one, "a.md", None, b"very secret")
    empty, first = open_git(bare, "m4"), late.pull().cursor
    push(one, "b.md", None, b"also secret")
    cursor = two.pull().cursor
    one.erase(Erasure("0a", ("a.md",), (version_of(b"very secret"),)))
    assert not (bare.parent / "copy-m1" / "repository.git").exists()
    two.pull(cursor)
    two.erase(Erasure("0b", ("b.md",), (version_of(b"also secret"),)))
    assert [erasure.id for erasure in two.pull(cursor).erasures] == ["0a", "0b"]
    pulled = late.pull(first)
    assert ([erasure.id for erasure in pulled.erasures], pulled.whole) == (["0a", "0b"], True)
    assert [(found.commit.by, found.machine) for found in pulled.commits] == [("agent", "m1")]
    one.pull()
    assert not empty.pull(pulled.cursor).erasures
    git(bare, "gc", "--quiet", "--prune=now")
    places = [bare, *(bare.parent / f"copy-{name}" / "repository.git" for name in ("m1", "m2", "m3", "m4"))]
    assert [place.name for place in places if b"secret" in texts_in(place)] == []


def test_an_erasure_tells_every_version_however_it_was_committed(bare: Path, checkout: Path) -> None:
    hub = open_git(bare)
    (checkout / "a.md").write_text("by hand\n")
    commit_all(checkout)
    git(checkout, "push", "--quiet")
    steps = [("a.md", b"by hand\n", b"with others"), *((f"{number}.md", None, b"x") for number in range(MOST_NAMED))]
    hub.push(commit(*steps))  # too many for its message
    push(hub, "0.md", b"x", b"other")
    hub.erase(Erasure("0a", ("a.md",), ()))
    [told] = hub.pull().erasures
    assert {*told.versions} == {version_of(text) for text in (b"1\n", b"by hand\n", b"with others")}


def test_an_erasure_that_meets_a_push_loses_neither(bare: Path) -> None:
    one, two = open_git(bare), open_git(bare, "m2")
    push(one, "a.md", None, b"secret")
    push(two, "b.md", None, b"b")
    one.erase(Erasure("0a", ("a.md",), ()))
    push(two, "c.md", None, b"c")
    assert state(one.pull()) == {"b.md": b"b", "c.md": b"c"}


def test_a_remote_that_keeps_its_history_says_so_and_keeps_the_memory(bare: Path) -> None:
    hub = open_git(bare)
    push(hub, "a.md", None, b"1")
    git(bare, "config", "receive.denyNonFastForwards", "true")
    with pytest.raises(HubRefused, match="does not let a history be replaced") as caught:
        hub.erase(Erasure("0a", ("a.md",), ()))
    assert "forced pushes" in caught.value.hint
    assert state(hub.pull()) == {"a.md": b"1"}


def test_a_remote_that_is_a_shallow_clone_is_told(bare: Path, tmp_path: Path) -> None:
    hub, shallow = open_git(bare), tmp_path / "shallow.git"
    for before, after in ((None, b"1"), (b"1", b"2")):
        push(hub, "a.md", before, after)
    git(tmp_path, "clone", "--bare", "--depth=1", "--branch=memsheaf/user", f"file://{bare}", str(shallow))
    other = open_git(shallow, "m2")
    with pytest.raises(HubRefused, match="is a shallow clone") as caught:
        other.pull()
    assert "--unshallow" in caught.value.hint
    git(shallow, "fetch", "--quiet", "--unshallow", "origin", "memsheaf/user")
    assert state(other.pull()) == {"a.md": b"2"}


def test_a_newer_format_is_read_and_not_written(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = open_git(bare)
    with monkeypatch.context() as newer:
        newer.setattr("memsheaf.hub.git_import.FORMAT", 2)
        push(open_git(bare, "new"), "a.md", None, b"1")
    assert state(hub.pull()) == {"a.md": b"1"}
    assert "update" in hub.notice
    with pytest.raises(HubRefused, match="newer"):
        push(hub, "b.md", None, b"2")
    assert not open_git(bare, "m3", namespace="memsheaf/agent/x").notice


# the copy


def test_a_copy_that_is_lost_or_damaged_is_fetched_again(bare: Path) -> None:
    hub, copy = open_git(bare), bare.parent / "copy-m1" / "repository.git"
    push(hub, "a.md", None, b"1")
    cursor = hub.pull().cursor
    made = push(open_git(bare, "m2"), "a.md", b"1", b"2")

    def damage_objects() -> None:
        for path in (copy / "objects").rglob("*"):
            if path.is_file():
                path.chmod(0o600)
                path.write_bytes(b"")

    def remove_objects() -> None:
        for path in (copy / "objects").rglob("*"):
            if path.is_file():
                path.unlink()

    damages: list[Callable[[], object]] = [
        remove_objects,
        lambda: shutil.rmtree(copy / "objects"),
        damage_objects,
        lambda: (copy / "known").write_bytes(b"\0" * 100),
        lambda: (copy / "HEAD").unlink(),
    ]
    text = b"2"
    for number, damage in enumerate(damages):
        hub.pull()
        damage()
        assert next(one.commit.id for one in hub.pull(cursor).commits) == made.id
        damage()
        push(hub, "a.md", text, text := str(number).encode())
    assert state(open_git(bare, "m3").pull()) == {"a.md": text}


HOSTILE_SETTINGS = (
    "core.autocrlf=true; core.hooksPath={0}/hooks; core.attributesFile={0}/attributes; core.quotePath=true; "
    "filter.shout.clean=tr a-z A-Z; filter.shout.smudge=tr a-z A-Z; init.templateDir={0}/template; "
    "commit.gpgSign=true; push.gpgSign=true; push.followTags=true; push.pushOption=x; push.default=nothing; "
    "tag.gpgSign=true; fetch.prune=true; fetch.fsckObjects=true; fetch.showForcedUpdates=false; log.showRoot=false; "
    "log.showSignature=true; log.date=relative; log.follow=true; diff.renames=copies; diff.noprefix=true; "
    "diff.orderFile={0}/none; diff.external=false; i18n.logOutputEncoding=latin1; i18n.commitEncoding=latin1; "
    "user.useConfigOnly=true; color.ui=always; format.pretty=oneline; safe.bareRepository=explicit; gc.auto=1"
)


def test_settings_and_variables_of_the_user_do_not_change_what_is_stored(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("pre-push", "reference-transaction", "post-gc"):
        here = f'case "$PWD" in {tmp_path}/copy-*) touch {tmp_path}/ran-{name}; exit 1 ;; esac'
        (hooks / name).write_text(f"#!/bin/sh\n{here}\n")
        (hooks / name).chmod(0o755)
    (tmp_path / "template" / "hooks").mkdir(parents=True)
    shutil.copy(hooks / "pre-push", tmp_path / "template" / "hooks" / "pre-push")
    (tmp_path / "attributes").write_text("* text eol=crlf filter=shout ident\n")
    config = tmp_path / "gitconfig"
    for setting in HOSTILE_SETTINGS.format(tmp_path).split("; "):
        name, _, value = setting.partition("=")
        git(tmp_path, "config", "--file", str(config), name, value)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(tmp_path / "objects"))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody Else")
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    monkeypatch.setenv("LANGUAGE", "de")
    hub, text = open_git(bare), "Größe $Id$\r\nzwei\n".encode()
    cursor = hub.pull().cursor
    push(hub, "ä.md", None, text, why="für später")
    push(hub, "b.md", None, text)
    hub.push(commit(("b.md", text, None), ("c.md", None, text)))
    pulled = open_git(bare, "m2").pull(cursor)
    assert [len(one.commit.revisions) for one in pulled.commits] == [1, 1, 2]
    assert state(pulled) == state(open_git(bare, "m3").pull()) == {"ä.md": text, "c.md": text}
    assert pulled.commits[0].commit.why == "für später"
    assert list(tmp_path.glob("ran-*")) == []
    mode = stat.S_IMODE((bare.parent / "copy-m1" / "repository.git").stat().st_mode)
    assert mode & 0o077 == 0


# what goes wrong


@pytest.mark.parametrize("folder", ["", "401", "pytest-403"], ids=["plain", "401", "403"])
def test_a_remote_that_is_not_there_is_told_in_one_line(tmp_path: Path, folder: str) -> None:
    with pytest.raises(HubUnreachable, match=r"none\.git' does not appear to be a git repository") as caught:
        open_git(tmp_path / folder / "none.git").pull()
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "copy-m1" / "repository.git" / "known").exists()


@pytest.mark.parametrize(
    "url",
    ["ext::touch ran% now", "-oProxyCommand=touch ran", "--upload-pack=touch ran", "ssh://-oProxyCommand=touch/x"],
)
def test_an_address_that_would_run_a_program_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    config = tmp_path / "gitconfig"
    config.write_text("[protocol]\n\tallow = always\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    with pytest.raises((HubRefused, HubUnreachable), match=r"would run a program|blocked"):
        open_git(tmp_path / "x.git", url=url).pull()
    config.write_text(f'[protocol]\n\tallow = always\n[url "ext::touch {tmp_path}/ran"]\n\tinsteadOf = safe:\n')
    with pytest.raises(HubRefused, match="'ext' not allowed"):
        open_git(tmp_path / "x.git", url="safe:x").pull()
    assert not list(tmp_path.rglob("ran*"))


def test_without_git_it_is_told_what_to_do(bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HubRefused, match="git is not installed") as caught:
        open_git(bare).pull()
    assert "Install git" in caught.value.hint
    machine = ScopeOnMachine(tmp_path / "laptop", "user", bare)
    code, said = machine.run("hub", "add", str(bare), "-s", "user", scoped=False)
    assert (code, "git is not installed" in said, "Install git" in said) == (1, True, True), said
    assert "Check the address" not in said


def test_without_ssh_it_is_told_what_to_do(bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("git", "sh"):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or "")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    machine = ScopeOnMachine(tmp_path / "laptop", "user", bare)
    code, said = machine.run("hub", "add", "git@host.invalid:me/memory.git", "-s", "user", scoped=False)
    assert (code, "ssh is not installed" in said, "Install OpenSSH" in said) == (1, True, True), said


def test_a_remote_that_declines_refuses(bare: Path) -> None:
    hook = add_hook(bare, "echo 'this branch is closed' >&2; exit 1")
    with pytest.raises(HubRefused, match=r"declined.*: this branch is closed") as caught:
        push(open_git(bare), "a.md", None, b"1")
    assert "push to the branches memsheaf/*" in caught.value.hint
    assert caught.value.is_of_commit
    hook.write_text("#!/bin/sh\necho 'You are not allowed to push code to protected branches' >&2\nexit 1\n")
    with pytest.raises(HubRefused) as caught:
        push(open_git(bare), "a.md", None, b"1")
    assert (caught.value.lacks_permission, caught.value.is_of_commit) == (True, False)
    hook.unlink()
    git(bare, "update-ref", "refs/heads/memsheaf", git(bare, "commit-tree", "-m", "x", git(bare, "mktree")))
    with pytest.raises(HubRefused, match="'refs/heads/memsheaf' exists") as caught:  # and none is faster
        push(open_git(bare), "a.md", None, b"1")
    assert not caught.value.lacks_permission
    git(bare, "update-ref", "-d", "refs/heads/memsheaf")
    push(open_git(bare), "a.md", None, b"1")


@contextmanager
def http_server(status: int) -> Iterator[tuple[int, list[str]]]:
    """A server that asks for a password and then answers with a status; gives its port, and what it was told.

    It is told also what all processes were called with while it was asked.
    """
    told: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = subprocess.run("cat /proc/[0-9]*/cmdline", shell=True, capture_output=True)
            login = self.headers.get("Authorization", "")
            told.extend((found.stdout.decode("utf-8", "replace"), login))
            self.send_response(status if login else 401)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port, told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize(
    ("login", "sent"),
    [("ana:s3cr%20t", "ana:s3cr t"), ("s3cr3ttoken", "s3cr3ttoken:"), ("s3cr3ttoken:x-basic", "s3cr3ttoken:x-basic")],
)
def test_a_password_or_token_reaches_the_remote_and_no_message_or_list_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, login: str, sent: str, status: int
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    with http_server(status) as (port, told):
        hub = open_git(tmp_path / "x.git", url=f"http://{login}@127.0.0.1:{port}/me/memory.git")
        with pytest.raises(HubRefused, match=r"403|Authentication failed") as caught:
            hub.pull()
    assert "s3cr" not in str(caught.value) + caught.value.hint
    assert f"Basic {b64encode(sent.encode()).decode()}" in told
    programs = "".join(told[::2])
    assert f"git-remote-http\0memsheaf-hub\0http://127.0.0.1:{port}" in programs
    assert "s3cr" not in programs


def test_nobody_is_asked_for_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    with http_server(403) as (port, _), pytest.raises(HubRefused, match="could not read Username"):
        open_git(tmp_path / "y.git", url=f"http://127.0.0.1:{port}/me/memory.git").pull()


@pytest.mark.parametrize("login", ["", "ana@"])
def test_a_credential_helper_of_the_user_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, login: str
) -> None:
    config = tmp_path / "gitconfig"
    helper = "!grep -q username=ana || echo username=ben; echo password=kept; :"
    config.write_text(f'[credential]\n\thelper = "{helper}"\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    with http_server(404) as (port, told), pytest.raises(HubUnreachable, match="not found"):
        open_git(tmp_path / "x.git", url=f"http://{login}127.0.0.1:{port}/me/memory.git").pull()
    assert f"Basic {b64encode(b'ana:kept' if login else b'ben:kept').decode()}" in told


# several at once


def test_a_lock_that_nobody_gave_back_ends(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = open_git(bare), open_git(bare, "m2")
    lock = one.lock("work")
    lock.__enter__()
    with pytest.raises(Busy, match="m1's name"), two.lock("work"):
        raise AssertionError
    monkeypatch.setattr(git_module, "LOCK_SECONDS", -1.0)
    with one.lock("other"):
        pass
    monkeypatch.setattr(git_module, "LOCK_SECONDS", 60.0)
    held = one.lock("short")
    with monkeypatch.context() as expired:
        expired.setattr(git_module, "LOCK_SECONDS", -1.0)
        held.__enter__()
    with two.lock("short"):
        held.__exit__(None, None, None)  # it is no longer the first one's to give back
        with pytest.raises(Busy), open_git(bare, "m3").lock("short"):
            raise AssertionError


WRITER = """
import os, sys
from pathlib import Path
from hub.git_remotes import open_git
from memsheaf.store import Commit, Revision, version_of
bare, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
hub = open_git(bare, sys.argv[4])
for number in range(count):
    step = Revision(f"{name}-{number}.md", "", version_of(b"text"), None, b"text")
    made = Commit(os.urandom(6).hex(), "2026-11-17T10:00:00Z", "user", "", (step,))
    hub.push(made)
    print(made.id, flush=True)
"""


def start_writer(bare: Path, name: str, count: int, machine: str = "") -> subprocess.Popen[str]:
    here = str(Path(__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([here, *sys.path])}
    command = [sys.executable, "-c", WRITER, str(bare), name, str(count), machine or name]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def check_ids(bare: Path, acknowledged: list[str]) -> list[str]:
    """All acknowledged commits are on the branch, and none is there twice; gives all that are."""
    ids = [one.commit.id for one in open_git(bare, "reader").log(100_000)]
    assert len(ids) == len(set(ids))
    assert set(acknowledged) <= set(ids)
    return ids


@pytest.mark.parametrize(
    ("writers", "count"), [(3, 4), pytest.param(4, 25, marks=pytest.mark.long)], ids=["short", "long"]
)
def test_many_processes_push_to_one_branch(bare: Path, writers: int, count: int) -> None:
    # the last two are one machine: they share a copy
    machines = [f"w{min(number, writers - 2)}" for number in range(writers)]
    running = [start_writer(bare, f"p{number}", count, machine) for number, machine in enumerate(machines)]
    with ThreadPoolExecutor(writers) as pool:
        said = [answer for answer, _ in pool.map(lambda one: one.communicate(), running)]
    assert [one.returncode for one in running] == [0] * writers
    ids = check_ids(bare, [one for each in said for one in each.split()])
    assert len(ids) == writers * count


def test_settings_have_no_say_in_where_the_copy_is(tmp_path: Path) -> None:
    hub = GitRemote(HubSettings("file:///nowhere", BRANCH, "m", "M"), folder=os.path.relpath(tmp_path / "c"))
    with pytest.raises(HubUnreachable):
        hub.pull()
    assert (tmp_path / "c" / "repository.git" / "HEAD").is_file()


def test_a_host_that_takes_only_branches_does_all_but_locks_and_machines(bare: Path) -> None:
    add_hook(bare, 'case "$1" in refs/heads/*) ;; *) echo "no such refs here" >&2; exit 1 ;; esac', "update")
    hub = open_git(bare)
    with hub.lock("work"):
        push(hub, "a.md", None, b"1")
    hub.report(Machine("m1", "laptop", "", ""))
    assert (hub.users()[1], state(hub.pull())) == ([], {"a.md": b"1"})
