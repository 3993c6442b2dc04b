"""The facts of a machine that numbers depend on, and none that tell whose it is."""

from __future__ import annotations

import os
import platform
import sqlite3
from hashlib import sha256

import memsheaf

IN_MEMORY = ("tmpfs", "ramfs")


def facts(folder: str) -> dict[str, str]:
    """Describe the machine and the file system of a folder."""
    return {
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}, {platform.machine()}",
        "processors": str(os.cpu_count()),
        "load": f"{os.getloadavg()[0]:.1f}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "file system": file_system(folder),
    }


def file_system(folder: str) -> str:
    """The type of file system a folder is on, "unknown" where the system does not say."""
    folder = os.path.realpath(folder)
    found, longest = "unknown", -1
    try:
        with open("/proc/mounts", encoding="utf-8") as mounts:
            for line in mounts:
                place, kind = line.split()[1:3]
                inside = folder == place or folder.startswith(place.rstrip("/") + "/")
                if inside and len(place) >= longest:  # a later mount on the same place hides the earlier
                    found, longest = kind, len(place)
    except OSError:
        pass
    return found


def code() -> str:
    """Name the code of memsheaf as it is on disk now: numbers of two different names are of two programs."""
    digest = sha256()
    package = os.path.dirname(memsheaf.__file__)
    for folder, folders, names in os.walk(package):
        folders.sort()
        for name in sorted(names):
            if name.endswith((".py", ".onnx", ".npz")):
                with open(os.path.join(folder, name), "rb") as file:
                    digest.update(os.path.relpath(file.name, package).encode() + b"\0" + file.read() + b"\0")
    return digest.hexdigest()[:12]
