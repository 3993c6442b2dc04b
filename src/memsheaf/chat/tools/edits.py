"""Text edits: replacement, preserved line ends, and the diff that is shown."""

from __future__ import annotations

from memsheaf.chat.tools.files import quote_path
from memsheaf.errors import Refused
from memsheaf.guard.secrets import REMOVED
from memsheaf.history import diff
from memsheaf.values import NamedTuple

BOM = "\ufeff"
_COMPARED = 4_000_000  # pairs of lines; beyond that a change is shown as one block
_AROUND = 3
_PLACES = 8  # that are quote_path or shown, of those where a text occurs


class TextDiff(NamedTuple):
    """A change as `diff -u` shows it, and how many lines it brings and takes."""

    text: str
    added: int
    taken: int


class EditedText(NamedTuple):
    """A changed text, and which of its lines are new, each stretch as its first and last line."""

    text: str
    stretches: tuple[tuple[int, int], ...]


def replace_text(text: str, old: str, new: str, *, count: int, name: str) -> EditedText:
    """The text with a piece replaced that occurs exactly `count` times. Its line ends stay as they are.

    Raises:
        Refused: the piece does not occur so often, or nothing would change.
    """
    if not old or old == new:
        raise Refused("old_text is empty; give the exact text to replace" if not old else "new_text is old_text")
    refuse_masks(new, old, name)
    ways = ((old, new), *((_with_ends(old, end), _with_ends(new, end)) for end in ("\r\n", "\n")))
    old, new = next((way for way in ways if way[0] in text), ways[0])
    if 2 * text.count("\r\n") > text.count("\n"):
        new = _with_ends(new, "\r\n")
    places = _places(text, old)
    if not places:
        raise Refused(
            f"old_text is not in {quote_path(name)}. Read it, and copy the text exactly, with spaces and line ends, "
            "but without the numbers of the lines"
        )
    if len(places) != count:
        lines = ", ".join(str(text.count("\n", 0, at) + 1) for at in places[:_PLACES])
        more = "" if len(places) <= _PLACES else " and others"
        raise Refused(
            f"old_text occurs {len(places)} times in {quote_path(name)}, at line {lines}{more}. "
            f"Give more of the text around it, or say count={len(places)} to change all"
        )
    result = text.replace(old, new)
    starts = (at + number * (len(new) - len(old)) for number, at in enumerate(places[:_PLACES]))
    return EditedText(result, tuple(_lines(result, at, at + len(new)) for at in starts))


def keep_form(content: str, was: str | None) -> str:
    """A new text in the form of the old one: with its byte order mark and its line ends, which a model does not see.

    >>> keep_form("a\\nb\\n", "x\\r\\n")
    'a\\r\\nb\\r\\n'
    """
    if was is None:
        return content
    if was.count("\r\n") == was.count("\n") > 0 and "\r" not in content:
        content = _with_ends(content, "\r\n")
    return BOM + content if was.startswith(BOM) and not content.startswith(BOM) else content


def refuse_masks(new: str, old: str, name: str) -> None:
    """Raise Refused for a text with more places where a secret was hidden: they would replace the secret."""
    if new.count(REMOVED) > old.count(REMOVED):
        raise Refused(
            f"the text holds '{REMOVED}…', which stands where a secret in {quote_path(name)} is hidden from you: "
            "it would be lost. Use edit, and leave those places as they are"
        )


def diff_texts(path: str, old: str, new: str) -> TextDiff:
    """Show how one text becomes another. What is too large to be compared line by line is shown as one block."""
    was, now = old.split("\n"), new.split("\n")
    if not old:  # a new file has no lines yet, not even an empty one
        added = now[:-1] if new.endswith("\n") else now
        return TextDiff("\n".join([f"+++ {path}  new", *(f"+{line}" for line in added)]), len(added), 0)
    text = diff(path, old, new) if len(was) * len(now) <= _COMPARED else _block(path, was, now)
    lines = text.split("\n")[2:]
    return TextDiff(text, sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines))


def _block(path: str, was: list[str], now: list[str]) -> str:
    """All between the first and the last line that differ, as one change."""
    shortest = min(len(was), len(now))
    first = next((at for at in range(shortest) if was[at] != now[at]), shortest)
    same = next((at for at in range(shortest - first) if was[-1 - at] != now[-1 - at]), shortest - first)
    begin = max(0, first - _AROUND)
    behind = now[len(now) - same :][:_AROUND]
    taken, added = was[first : len(was) - same], now[first : len(now) - same]
    beside = first - begin + len(behind)
    head = f"@@ -{begin + 1},{len(taken) + beside} +{begin + 1},{len(added) + beside} @@"
    lines = [f"--- {path}  before", f"+++ {path}  after", head, *(f" {line}" for line in was[begin:first])]
    lines += [*(f"-{line}" for line in taken), *(f"+{line}" for line in added), *(f" {line}" for line in behind)]
    return "\n".join(lines)


def _with_ends(text: str, end: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", end)


def _places(text: str, piece: str) -> list[int]:
    """Where a piece occurs, as `str.replace` finds it."""
    found, at = [], text.find(piece)
    while at >= 0:
        found.append(at)
        at = text.find(piece, at + len(piece))
    return found


def _lines(text: str, start: int, end: int) -> tuple[int, int]:
    first = text.count("\n", 0, start)
    return first, first + text.count("\n", start, end)
