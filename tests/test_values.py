"""Light named tuples are what `typing.NamedTuple` makes, and the light hash is the usual one."""

from __future__ import annotations

import ast
import hashlib
import inspect
import pickle
import typing
from pathlib import Path

import pytest

from memsheaf.values import NamedTuple, sha256

SOURCES = Path(__file__).parents[1] / "src" / "memsheaf"


class Point(NamedTuple):
    """Where something is."""

    x: int
    y: int = 2
    name: str | None = None

    @property
    def far(self) -> int:
        """How far."""
        return (self.x + self.y) * 10

    @classmethod
    def origin(cls) -> Point:
        return cls(0, 0)

    def __bool__(self) -> bool:
        return self != Point(0, 0)


class Reference(typing.NamedTuple):
    """Where something is."""

    x: int
    y: int = 2
    name: str | None = None


def test_a_value_has_fields_defaults_methods_and_a_docstring() -> None:
    point = Point(1)
    assert tuple(point) == (1, 2, None)
    assert (point.far, point._replace(y=5).y, Point.origin().far) == (30, 5, 0)
    assert point
    assert not Point.origin()
    assert Point.__doc__ == "Where something is."
    assert repr(point) == "Point(x=1, y=2, name=None)"


def test_a_value_is_what_typing_would_make() -> None:
    for name in ("_fields", "_field_defaults", "__match_args__", "__slots__", "__bases__"):
        assert getattr(Point, name, None) == getattr(Reference, name, None), name
    assert typing.get_type_hints(Point) == typing.get_type_hints(Reference)
    wanted = [(each.name, each.kind, each.default) for each in inspect.signature(Reference).parameters.values()]
    assert [(each.name, each.kind, each.default) for each in inspect.signature(Point).parameters.values()] == wanted


def test_a_value_survives_pickling() -> None:
    again = pickle.loads(pickle.dumps(Point(1, name="here")))
    assert again == Point(1, name="here")
    assert type(again) is Point


def test_a_value_refuses_what_its_fields_do_not_have() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        Point(1, z=2)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        Point(1).x = 2  # type: ignore[misc]


@pytest.mark.parametrize("data", [b"", b"a", b"x" * 1_000_000])
def test_the_hash_is_sha256(data: bytes) -> None:
    assert sha256(data).hexdigest() == hashlib.sha256(data).hexdigest()


def test_no_module_takes_the_heavy_ones() -> None:
    """One that does costs every command and every hook the import; `embed` hashes megabytes and may."""
    for path in SOURCES.rglob("*.py"):
        if path.name == "values.py":
            continue
        for node in ast.parse(path.read_bytes()).body:
            if isinstance(node, ast.ImportFrom) and node.module == "typing":
                assert not {name.name for name in node.names} & {"NamedTuple", "Protocol"}, path
            if isinstance(node, ast.ImportFrom) and node.module == "hashlib" and path.parent.name != "embed":
                assert "sha256" not in {name.name for name in node.names}, path
