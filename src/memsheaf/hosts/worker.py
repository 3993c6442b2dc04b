"""The worker: what a conversation left is learned later, by one process at a time, apart from the host.

It reads the transcripts of turns that ended into the inbox, makes memories of them within the caps of the settings,
consolidates when that is due, and makes missing vectors. It is niced and has a time limit.
"""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress

from memsheaf import config
from memsheaf.errors import Busy, MemsheafError
from memsheaf.hosts.answer import NEWS, WAITING, own_file
from memsheaf.hosts.conversation import conversations, load, open_conversation, prune, save, size_of
from memsheaf.hosts.failure_log import note_failure
from memsheaf.hosts.switch import is_off
from memsheaf.hub.upkeep import sync_once
from memsheaf.learn.transcripts import read_transcript
from memsheaf.scope import open_plain, with_hub
from memsheaf.sheaf import Sheaf
from memsheaf.worktree import record_tree

SECONDS = 600  # after which the system ends it
LEARNING = 300.0  # of them, that learning may take
EMBEDDING = 120.0
STALE = 3_600.0  # seconds after which the last turn of a conversation counts as ended, though nobody said so
CHUNK = 32 << 20  # bytes of a transcript at once


def work(cwd: str = "") -> int:
    """Process the pending work of the project around a folder; nothing when another worker holds the lock."""
    with suppress(AttributeError, OSError):
        os.nice(10)
    with suppress(AttributeError):
        signal.alarm(SECONDS)
    settings = config.load(warn=lambda said: None)
    try:
        with Sheaf.open(settings=settings, cwd=cwd or os.getcwd(), by="extraction") as layers:
            waiting = own_file(settings.state, layers.root, WAITING)
            with layers.own.state.lock("hook-worker"):
                record_tree(settings.places(cwd or os.getcwd()))
                while not is_off(settings.state, layers.root):
                    with suppress(FileNotFoundError):
                        os.unlink(waiting)
                    _work(layers, settings, cwd)
                    if not os.path.exists(waiting):
                        break
    except Busy:
        return 0
    except (MemsheafError, OSError) as error:
        note_failure("worker", "", f"{type(error).__name__}: {error}")
    return 0


def _work(layers: Sheaf, settings: config.Settings, cwd: str) -> None:
    prune(settings.state, time.time())
    for name, found in conversations(settings.state).items():
        if found.text("root") == layers.root:
            read_conversation(layers, name)
    done = layers.distil(deadline=LEARNING)
    if done.problem:
        note_failure("worker", "learn", done.problem)
    news = own_file(settings.state, layers.root, NEWS)
    learned = len(done.of("saved")) + (load(news).get("learned") or 0)
    review = len(layers.learning.queue.all())
    if learned or review:
        save(news, json.dumps({"learned": learned, "review": review}).encode())
    for scope in layers.open_scopes():
        scope.index.embed_all(seconds=EMBEDDING)
    sync_once(settings, cwd, with_hub(settings.layers(cwd), settings.places(cwd)))


def read_conversation(layers: Sheaf, name: str) -> None:
    """Put the turns that ended since the last time into the inbox; each message once, whatever was interrupted."""
    found = conversations(layers.settings.state)[name]
    transcript, cursor, captured = found.text("transcript"), found.number("cursor"), found.number("captured")
    size = size_of(transcript)
    captured = size if time.time() - found.number("at") > STALE else min(captured, size)
    reach = found.text("privacy")
    if size < cursor:  # it was written anew; what was read is recognised
        cursor, reach = 0, ""
    if cursor >= captured:
        return
    folders = [scope.root for scope in layers.open_scopes()]
    cursor = _next_line(transcript, cursor)
    is_private = found.data.get("private") is not False  # whether the turn that was read last is off the record
    begin, end = found.number("off_from"), found.number("off_to")
    while cursor < captured:
        if begin <= cursor < end:  # memory was off
            cursor = min(end, captured)
            continue
        if not (data := _read_turns(transcript, cursor, min(captured, begin) if cursor < begin else captured)):
            break
        lines = [line for line in data.decode("utf-8", "replace").split("\n") if line.startswith("{")]
        for turn in read_transcript(lines, conversation=found.text("id"), folders=folders) if lines else ():
            if any(message.role == "user" for message in turn.messages):  # else it is the rest of that turn
                is_private, reach = turn.follow_privacy(reach)
            if not is_private:
                layers.learn(turn)
        cursor += len(data)
    with open_conversation(layers.settings.state, name, durably=True) as found:
        if found.text("transcript") == transcript:
            found.data |= {"cursor": cursor, "private": is_private, "privacy": reach}


def _next_line(transcript: str, cursor: int) -> int:
    """Return where the first line begins that is not before the cursor."""
    try:
        with open_plain(transcript) as file:
            file.seek(max(0, cursor - 1))
            return cursor - 1 + len(file.readline(CHUNK)) if cursor else 0
    except OSError:
        return cursor


def _read_turns(transcript: str, cursor: int, captured: int) -> bytes:
    """Whole lines from the cursor to what was captured, and what the agent said until the user speaks again."""
    try:
        with open_plain(transcript) as file:
            file.seek(cursor)
            data = file.read(min(captured - cursor, CHUNK))
            data += file.readline(CHUNK) if not data.endswith(b"\n") else b""
            while len(data) < CHUNK and (line := file.readline(CHUNK)):
                is_said = b'"role":"user"' in line.replace(b'": "', b'":"') and b"tool_result" not in line
                if is_said or not line.endswith(b"\n"):
                    break
                data += line
            whole = data[: data.rfind(b"\n") + 1]
            return whole or (data if len(data) > CHUNK else b"")  # a line without end is passed over in pieces
    except OSError:
        return b""
