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
    """Add a line to the log that `memsheaf doctor` shows; a long one begins anew."""
    try:
        from memsheaf.config import state_folder
        from memsheaf.guard.secrets import without_secrets

        folder = state_folder()
        os.makedirs(folder, 0o700, exist_ok=True)
        path = os.path.join(folder, LOG)
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = " ".join(without_secrets(f"{at} {host} {event}: {said}").split())[:500]
        with open(path, "ab") as file:
            if file.tell() > LOG_BYTES:
                file.truncate(0)
            file.write(f"{line}\n".encode("utf-8", "replace"))
    except BaseException:  # noqa: BLE001  a full disk, no permission: there is nobody to tell
        pass
