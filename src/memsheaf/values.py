"""Named tuples, SHA-256 and SQLite that are cheap to import; patterns and modules that wait for their first use.

`typing.NamedTuple` compiles the type of each field and takes the import of `typing` on top, `collections.namedtuple`
compiles a constructor for each class, and `hashlib` takes the whole of OpenSSL. Together they were a fifth of what a
command or a server took to start.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from functools import cache
from operator import itemgetter
from types import FunctionType

# Known to type checkers under this name: for them these are the ones of the standard library.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import json
    import sqlite3
    import unicodedata
    from hashlib import sha256
    from typing import Annotated, Any, AnyStr, BinaryIO, NamedTuple, Protocol

    def compiled(pattern: AnyStr) -> re.Pattern[AnyStr]:
        """A pattern, compiled once; letters match as they are."""
else:
    compiled = cache(re.compile)
    try:  # the interpreter's own, as the standard library's `random` does it
        from _sha2 import sha256  # since Python 3.12
    except ImportError:
        try:
            from _sha256 import sha256
        except ImportError:  # an interpreter that was built without them
            from hashlib import sha256
    try:  # without its converters of dates, which take the import of `datetime`
        import _sqlite3 as sqlite3
    except ImportError:
        import sqlite3
    try:  # as the standard library's `namedtuple` does it
        from _collections import _tuplegetter as _getter
    except ImportError:

        def _getter(place, doc):
            return property(itemgetter(place), doc=doc)

    class Annotated:
        """A type and what is said of it: `Annotated[int, "Page, from 1"]` is the pair."""

        def __class_getitem__(cls, both):
            return both

    Protocol = object

    class _Lazy:
        """A module that is imported when something of it is first used."""

        def __init__(self, name):
            self._name = name

        def __getattr__(self, name):
            found = getattr(__import__(self._name), name)
            setattr(self, name, found)
            return found

    json, unicodedata = _Lazy("json"), _Lazy("unicodedata")

    class _Methods:
        """What every named tuple can do, as `collections.namedtuple` has it."""

        __slots__ = ()

        def __repr__(self):
            return (
                f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._asdict().items())})"
            )

        def __getnewargs__(self):
            return tuple(self)

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def _replace(self, /, **changes):
            made = type(self)(*map(changes.pop, self._fields, self))
            if changes:
                raise TypeError(f"there is no field {', '.join(changes)}")
            return made

    @cache
    def _constructor(count):
        """The constructor code for a tuple of this size; each class gets it with its own names."""
        items = ", ".join(f"item{number}" for number in range(count))
        return eval(f"lambda _cls, {items}: _new(_cls, ({items},))").__code__

    class _Named(type):
        """Makes a class with annotated fields into a named tuple."""

        def __new__(cls, name, bases, body):
            fields = tuple(body["__annotations__"])
            defaults = {field: body.pop(field) for field in fields if field in body}
            code = _constructor(len(fields)).replace(co_varnames=("_cls", *fields), co_qualname=name)
            body["__new__"] = FunctionType(code, {"_new": tuple.__new__}, "__new__", tuple(defaults.values()))
            body |= {field: _getter(place, "") for place, field in enumerate(fields)}
            body |= {"_fields": fields, "_field_defaults": defaults, "__match_args__": fields}
            return type(name, (tuple,), {**vars(_Methods), **body})

    def NamedTuple():
        """Stand for the base of a class whose annotated fields are the items of a tuple."""

    _base = type.__new__(_Named, "NamedTuple", (), {})
    NamedTuple.__mro_entries__ = lambda bases: (_base,)


def utc_time(seconds: float, *, milliseconds: bool = False) -> str:
    """A moment in UTC, as headers and journals have it.

    >>> utc_time(1_794_744_000), utc_time(0.5, milliseconds=True)
    ('2026-11-15T12:00:00Z', '1970-01-01T00:00:00.500Z')
    """
    whole, rest = divmod(int(seconds * 1_000), 1_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + (f".{rest:03}Z" if milliseconds else "Z")


def file_stamp(path: str, *, follow: bool = False) -> tuple[int, int, int, int] | None:
    """The times, size and inode of a file, which an edit changes; None when it is not there."""
    try:
        found = os.stat(path, follow_symlinks=follow)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def open_plain(path: str) -> BinaryIO:
    """Open a file that somebody names. Raises OSError for a pipe or a device, of which a read may never end."""
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return open(fd, "rb")
    os.close(fd)
    raise OSError(errno.EINVAL, "it is not a plain file", path)


def plural(count: int, one: str, many: str = "") -> str:
    """A number with its noun.

    >>> plural(1, "memory", "memories"), plural(1200, "file")
    ('1 memory', '1,200 files')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def parse_json(text: str | bytes) -> object:
    """The value of a JSON text; None when it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def parse_object(text: str | bytes) -> dict[str, Any] | None:
    """The JSON object that a text is; None when it is none."""
    value = parse_json(text)
    return value if isinstance(value, dict) else None


__all__ = [
    "TYPE_CHECKING", "Annotated", "NamedTuple", "Protocol", "compiled", "file_stamp", "json", "open_plain",
    "parse_json", "parse_object", "plural", "sha256", "sqlite3", "unicodedata", "utc_time",
]  # fmt: skip
