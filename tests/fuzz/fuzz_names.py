"""The name policy: what it lets through stays inside the root, and means the same on every file system.

python tests/fuzz/fuzz_names.py -runs=100000
"""

from __future__ import annotations

import os
import unicodedata

from memsheaf.errors import PathRefused, ScopeRefused
from memsheaf.guard import paths
from memsheaf.guard.paths import check_path, file_name, fold, listable, shown, slug
from memsheaf.scope import check_label

ROOT = "/somewhere/root"
WORDS = [
    b"..", b"../", b"/", b"//", b"\\", b".md", b"a.md", b"MEMORY.md", b"memory.MD", b"CLAUDE.md", b"tasks/",
    b"Sessions/", b".history/", b".", b" ", b"con", b"CON.md", b"aux.", b"com1", b"~$", b"-rf", b"\0", b"\n", b"\x7f",
    b":", b"::$DATA", b"%2e%2e%2f", b"C:", b"\xff", b"\xed\xa0\x80", b"x" * 101, b"a/" * 6,
]  # fmt: skip
# full-width and other dots and slashes, composed and not, letters that fold, marks that do not show
WORDS += [
    text.encode()
    for text in (
        "\uff0f", "\uff0e\uff0e\uff0f", "\u2024\u2024/", "\u2215", "\u2044", "e\u0301", "\u00e9", "\u212a", "\u017f",
        "\u0130", "\ufb01", "\u200d", "\u202e", "\ufe0f", "\u3000", "\U0001f600", "\u65e5\u672c\u8a9e", "\u037e",
        "\u1fef", "\u00df", "\u1e9e", "\uf900",
    )
]  # fmt: skip


def check(data: bytes) -> None:
    """Raise AssertionError when a promise is broken for this input."""
    path = data.decode("utf-8", "surrogateescape")
    _check_path(path)
    _check_path(path + ".md")
    _check_made_name(path)
    _check_label(path)
    assert shown(path).isprintable()
    shown(path).encode()
    listable(path)


def _check_path(path: str) -> None:
    try:
        stored = check_path(path)
    except PathRefused:
        return
    place = os.path.join(ROOT, stored)
    assert os.path.normpath(place) == place
    assert place.startswith(ROOT + "/")
    assert check_path(stored) == stored
    assert stored.endswith(".md")
    assert len(stored.encode()) <= 400
    assert unicodedata.normalize("NFC", path) == stored
    assert fold(stored) == fold(path) == fold(fold(path))
    for form in ("NFD", "NFKC", "NFKD"):
        other = unicodedata.normalize(form, stored)
        assert os.path.normpath(os.path.join(ROOT, other)).startswith(ROOT + "/")
        assert other.count("/") == stored.count("/")
        assert "\\" not in other
        assert ":" not in other
    for segment in stored.split("/"):
        assert segment.strip() == segment
        assert not segment.startswith((".", "~$"))
        assert len(segment.encode()) <= 255
    assert stored.casefold() != "memory.md"
    assert stored.isprintable()


def _check_made_name(name: str) -> None:
    """Whatever a memory is called, there is a file name for it, and another when that is taken."""
    assert slug(name)
    made = file_name("user", name, lambda _: False)
    assert check_path(made) == made
    assert made.startswith("user_")
    other = file_name("user", name, {made}.__contains__)
    assert check_path(other) == other
    assert fold(other) != fold(made)
    strange = file_name(name, name, lambda _: False)
    assert check_path(strange) == strange


def _check_label(label: str) -> None:
    try:
        label = check_label(label, "agent")
    except ScopeRefused:
        return
    assert label.isascii()
    assert os.path.normpath(os.path.join(ROOT, label)) == f"{ROOT}/{label}"


if __name__ == "__main__":
    from engine import fuzz

    fuzz(check, WORDS, [paths], "traversal.json")
