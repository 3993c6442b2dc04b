"""Named tuples and SHA-256 that are cheap to import.

`typing.NamedTuple` compiles the type of each field and takes the import of `typing` on top; `hashlib` takes the whole
of OpenSSL. Together they were a sixth of what a command or a server took to start.
"""

from __future__ import annotations

from collections import namedtuple

# Known to type checkers under this name: for them these are the ones of the standard library.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from hashlib import blake2b, sha256
    from typing import Annotated, NamedTuple, Protocol
else:
    try:  # the interpreter's own, as the standard library's `random` does it
        from _sha2 import sha256  # since Python 3.12
    except ImportError:
        try:
            from _sha256 import sha256
        except ImportError:  # an interpreter that was built without them
            from hashlib import sha256
    try:
        from _blake2 import blake2b
    except ImportError:
        from hashlib import blake2b

    class Annotated:
        """A type and what is said of it: `Annotated[int, "Page, from 1"]` is the pair."""

        def __class_getitem__(cls, both):
            return both

    Protocol = object

    class _Named(type):
        """Makes a class with annotated fields into a named tuple."""

        def __new__(cls, name, bases, body):
            fields = body.pop("__annotations__", {})
            defaults = [body.pop(field) for field in fields if field in body]
            made = namedtuple(name, fields, defaults=defaults, module=body.pop("__module__"))
            made.__annotations__ = fields
            for key, value in body.items():
                setattr(made, key, value)
            return made

    def NamedTuple():
        """Stand for the base of a class whose annotated fields are the items of a tuple."""

    _base = type.__new__(_Named, "NamedTuple", (), {})
    NamedTuple.__mro_entries__ = lambda bases: (_base,)

__all__ = ["Annotated", "NamedTuple", "Protocol", "blake2b", "sha256"]
