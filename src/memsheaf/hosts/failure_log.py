"""The log of what went wrong in hooks, which `memsheaf doctor` shows."""

from __future__ import annotations

import os
import time

PROBE = "MEMSHEAF_HOOK_PROBE"  # the variable with which `memsheaf doctor` tries a hook: it answers, and notes nothing
INSIDE = "MEMSHEAF_INSIDE"
SILENT = (INSIDE, "MEMSHEAF_OFF")  # with one of these set, hooks do nothing: in our own model, or memory is off

LOG = "hooks.log"
LOG_BYTES = 64 << 10


def note_failure(host: str, event: str, said: str) -> None:
    """Add a line to the log that `memsheaf doctor` shows; the oldest half goes when it is long."""
    try:
        from memsheaf.config import state_folder
        from memsheaf.guard.secrets import without_secrets

        folder = state_folder()
        os.makedirs(folder, 0o700, exist_ok=True)
        path = os.path.join(folder, LOG)
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = " ".join(without_secrets(f"{at} {host} {event}: {said}").split())[:500]
        if os.path.exists(path) and os.path.getsize(path) > LOG_BYTES:
            with open(path, "rb") as file:
                kept = file.read()[-LOG_BYTES // 2 :].partition(b"\n")[2]
            with open(f"{path}.new", "wb") as file:
                file.write(kept)
            os.replace(f"{path}.new", path)
        with open(path, "ab") as file:
            file.write(f"{line}\n".encode("utf-8", "replace"))
    except BaseException:  # noqa: BLE001  a full disk, no permission: there is nobody to tell
        pass
