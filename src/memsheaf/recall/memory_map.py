"""The map of memories: each a dot, near others of like meaning, with named clusters and links. Cached.

The cache has hashes and positions, and no word of a memory. When few memories changed they are placed beside what
they are nearest to, and the others stay where they are.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from html import escape

from memsheaf.errors import MemsheafError
from memsheaf.index.browse import MapRow
from memsheaf.values import TYPE_CHECKING, NamedTuple, Protocol, compiled, sha256

if TYPE_CHECKING:
    from typing import Any

    from numpy import float32, uint64
    from numpy.typing import NDArray

    from memsheaf.index.layout import Cluster

FEW = 20  # so many memories, or one in ten, are placed on the map that there is
EMBED = 5.0  # seconds for vectors that are missing
REST = 8  # a map that is old is made again after so many times as long as it took
KINDS = ("user", "feedback", "project", "reference")
COLOURS = ("#5b9dff", "#f2a65a", "#4fc38a", "#b28dff", "#9aa4b2")
_MENTION = r"\[\[([^\]\n]{1,120})\]\]|([\w./-]{1,200}\.md)\b"


class MapSource(Protocol):
    """A scope as the map sees it: `ScopeOverview` is one."""

    @property
    def root(self) -> str:
        """The folder that holds the files."""

    def stamp(self) -> tuple[int, ...]:
        """Numbers that differ once a memory or a vector changed."""

    def map_rows(self) -> Sequence[MapRow]:
        """Every memory."""

    def first_vectors(self, embedder: int) -> Mapping[str, bytes]:
        """The vector of each memory, by path."""

    def embed_all(self, progress: Callable[[int, int], None] | None = None, *, seconds: float) -> object:
        """Make the vectors that are missing."""

    def read_bytes(self, path: str) -> bytes:
        """The text of a memory. Raises NotFound."""


class MapDot(NamedTuple):
    """A memory on the map: the key of its scope, its path, and where it is, from -1 to 1 each way."""

    scope: str
    path: str
    kind: str
    name: str
    x: float
    y: float


class MapLink(NamedTuple):
    """Two dots by their numbers, and why: `supersedes`, `mentions`, or `alike`, each the nearest to the other."""

    source: int
    target: int
    why: str


class MemoryMap(NamedTuple):
    """A whole map. The clusters have the numbers of their dots."""

    dots: Sequence[MapDot]
    links: Sequence[MapLink]
    clusters: Sequence[Cluster]


class MapState(NamedTuple):
    """The map, None before there is one; how much of the next one is done, from 0 to 1; and what went wrong."""

    map: MemoryMap | None
    done: float
    problem: str = ""


class MapMaker:
    """Makes maps of scopes, in this thread or in one beside it, and keeps them in the cache folder."""

    def __init__(self, cache: str) -> None:
        self._cache = cache
        self._guard = threading.Lock()
        self._made: dict[tuple[str, ...], tuple[object, MemoryMap]] = {}
        self._running: dict[tuple[str, ...], float] = {}
        self._rested: dict[tuple[str, ...], float] = {}
        self._problem = ""

    def state(self, sources: Mapping[str, MapSource]) -> MapState:
        """The map of these scopes by their keys; one that is missing or old is made in a thread."""
        keys = tuple(sources)
        stamps = [source.stamp() for source in sources.values()]
        with self._guard:
            known = self._made.get(keys)
            if known and known[0] == stamps:
                return MapState(known[1], 1.0)
            if known and time.monotonic() < self._rested.get(keys, 0.0):  # vectors may come in by the second
                return MapState(known[1], 1.0)
            if keys not in self._running:
                self._running[keys] = 0.0
                thread = threading.Thread(target=self._run, args=(keys, sources), name="memsheaf-map", daemon=True)
                thread.start()
            return MapState(known[1] if known else None, self._running[keys], self._problem)

    def _run(self, keys: tuple[str, ...], sources: Mapping[str, MapSource]) -> None:
        def note(share: float) -> None:
            self._running[keys] = share

        began = time.monotonic()
        try:
            self.make(sources, note, embed=0.0)
            self._problem = ""
        except (MemsheafError, OSError) as error:
            self._problem = str(error)
        finally:
            with self._guard:
                self._running.pop(keys, None)
                self._rested[keys] = time.monotonic() + REST * (time.monotonic() - began)

    def make(
        self,
        sources: Mapping[str, MapSource],
        progress: Callable[[float], None] | None = None,
        *,
        embed: float = EMBED,
    ) -> MemoryMap:
        """Make the map now, or read it from the cache if nothing changed; before, `embed` for so many seconds."""
        note = progress or (lambda share: None)
        for number, source in enumerate(sources.values() if embed else ()):
            source.embed_all(lambda done, total: note(0.3 * done / max(total, 1)), seconds=embed)
            note(0.3 * (number + 1) / len(sources))
        stamps = [source.stamp() for source in sources.values()]
        rows = [(key, row) for key, source in sources.items() for row in source.map_rows()]
        points, alike = self._points(sources, rows, lambda share: note(0.3 + 0.6 * share))
        from memsheaf.index.layout import find_clusters

        dots = [
            MapDot(key, row.path, row.kind, row.name, round(float(x), 4), round(float(y), 4))
            for (key, row), (x, y) in zip(rows, points, strict=True)
        ]
        clusters = find_clusters(points, [f"{row.name}. {row.description}" for _, row in rows])
        made = MemoryMap(dots, [*_links(sources, rows), *alike], clusters)
        with self._guard:
            self._made[tuple(sources)] = stamps, made
        return made

    def _points(
        self, sources: Mapping[str, MapSource], rows: Sequence[tuple[str, MapRow]], note: Callable[[float], None]
    ) -> tuple[NDArray[float32], list[MapLink]]:
        """Where each row goes, and which are alike: as they were, as far as they are known."""
        import numpy

        from memsheaf.index import layout

        roots = {key: source.root for key, source in sources.items()}
        keys = numpy.array([_number(roots[key], row) for key, row in rows], numpy.uint64)
        file = os.path.join(self._cache, f"{_digest(*sorted(roots.values()))[:24]}.map.npz")
        old = _load(file)
        places = dict(zip(old[0].tolist(), range(len(old[0])), strict=True)) if old else {}
        found = numpy.array([places.get(key, -1) for key in keys.tolist()], numpy.int64)
        known = found >= 0
        if old and known.all() and len(keys):
            points, laid, pairs = old[1][found], old[2][found], old[3]
        else:
            vectors = _vectors(sources, rows)
            is_laid = known.copy()
            if old:
                is_laid[known] = old[2][found[known]]
            if old and known.any() and (~is_laid).sum() <= max(FEW, len(rows) // 10):
                points, laid, pairs = numpy.zeros((len(rows), 2), numpy.float32), is_laid, old[3]
                points[known] = old[1][found[known]]
                points[~known] = layout.place_near(vectors[~known], vectors[known], points[known])
            else:
                made = layout.place(vectors, note)
                points, laid = made.points, numpy.ones(len(rows), bool)
                pairs = keys[numpy.array(made.pairs, numpy.int64).reshape(-1, 2)]
            _store(file, keys, points, laid, pairs)
        numbers = dict(zip(keys.tolist(), range(len(keys)), strict=True))
        alike = [(numbers.get(one), numbers.get(other)) for one, other in pairs.tolist()]
        return points, [MapLink(one, other, "alike") for one, other in alike if one is not None and other is not None]


def _vectors(sources: Mapping[str, MapSource], rows: Sequence[tuple[str, MapRow]]) -> NDArray[float32]:
    """What each row is placed by: the vectors of the embedder that most have, and words."""
    import numpy

    from memsheaf.index import layout

    by_words = layout.word_vectors([f"{row.name}. {row.description}" for _, row in rows])
    embedders = [row.embedder for _, row in rows if row.embedder]
    if not embedders:
        return by_words
    embedder = max(set(embedders), key=embedders.count)
    stored = {key: source.first_vectors(embedder) for key, source in sources.items()}
    size = max((len(data) for each in stored.values() for data in each.values()), default=0)
    meaning = numpy.zeros((len(rows), size), numpy.float32)
    for place, (key, row) in enumerate(rows):
        if len(data := stored[key].get(row.path, b"")) == size:
            meaning[place] = numpy.frombuffer(data, numpy.int8)
    return layout.combine(meaning, by_words)


def _links(sources: Mapping[str, MapSource], rows: Sequence[tuple[str, MapRow]]) -> Iterator[MapLink]:
    """What a memory supersedes, and which others of its scope it names."""
    by_path = {(key, row.path): number for number, (key, row) in enumerate(rows)}
    by_name = {(key, row.name.casefold()): number for number, (key, row) in enumerate(rows)}
    for number, (key, row) in enumerate(rows):
        older = [by_path.get((key, path), number) for path in row.supersedes.split("\n")]
        text = ""
        with suppress(MemsheafError):
            text = sources[key].read_bytes(row.path).decode("utf-8", "replace")
        named = [
            by_path.get((key, path or f"{name}.md"), by_name.get((key, name.strip().casefold()), number))
            for name, path in compiled(_MENTION).findall(text)
        ]
        why = dict.fromkeys(named, "mentions") | dict.fromkeys(older, "supersedes")
        yield from (MapLink(number, other, said) for other, said in why.items() if other != number)


def render_svg(made: MemoryMap, *, size: int = 1200) -> str:
    """The map as a picture that needs nothing else."""
    half = size / 2

    def at(x: float, y: float) -> tuple[float, float]:
        return round(half + x * half * 0.92, 1), round(half + y * half * 0.92, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {size}" font-family="system-ui, sans-serif">',
        f'<rect width="{size}" height="{size}" fill="#12151c"/><g stroke="#8fa3c4" stroke-opacity="0.22">',
    ]
    places = [at(dot.x, dot.y) for dot in made.dots]
    for link in made.links:
        (x1, y1), (x2, y2) = places[link.source], places[link.target]
        parts.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>')
    parts.append("</g>")
    radius = 5 if len(places) < 500 else 3.2 if len(places) < 2_000 else 2.2
    for number, kind in enumerate((*KINDS, "")):
        kinds = ((place, dot.kind if dot.kind in KINDS else "") for place, dot in zip(places, made.dots, strict=True))
        mine = [place for place, of in kinds if of == kind]
        circles = "".join(f'<circle cx="{x}" cy="{y}" r="{radius}"/>' for x, y in mine)
        parts.append(f'<g fill="{COLOURS[number]}" fill-opacity="0.85">{circles}</g>' if mine else "")
        if mine:
            said = f"\u25cf {kind or 'other'} ({len(mine):,})"
            place = f'x="24" y="{size - 24 - 26 * number}" font-size="18"'
            parts.append(f'<text {place} fill="{COLOURS[number]}">{said}</text>')
    for cluster in made.clusters:
        x, y = at(cluster.x, cluster.y)
        wide = 6 * len(cluster.name)
        x = min(max(x, wide), size - wide)
        parts.append(
            f'<text x="{x}" y="{y}" font-size="20" font-weight="600" text-anchor="middle" fill="#eef2f8" '
            f'stroke="#12151c" stroke-width="4" paint-order="stroke">{escape(cluster.name)}</text>'
        )
    return "\n".join([*parts, "</svg>\n"])


def _digest(*words: str) -> str:
    return sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()


def _number(root: str, row: MapRow) -> int:
    """What a version of a memory is known by in the cache; once it has a vector, it is placed anew."""
    return int(_digest(root, row.path, row.version, str(row.embedder))[:16], 16)


def _load(file: str) -> tuple[NDArray[uint64], NDArray[float32], NDArray[Any], NDArray[uint64]] | None:
    import numpy

    try:
        with numpy.load(file, allow_pickle=False) as found:
            keys, points, laid, pairs = (found[name] for name in ("keys", "points", "laid", "pairs"))
        is_sound = len(keys) == len(points) == len(laid) and points.shape[1:] == pairs.shape[1:] == (2,)
        return (keys, points, laid, pairs) if is_sound and numpy.isfinite(points).all() else None
    except (OSError, ValueError, KeyError, EOFError):
        return None


def _store(file: str, keys: NDArray[Any], points: NDArray[Any], laid: NDArray[Any], pairs: NDArray[Any]) -> None:
    """Keep a map; if it cannot be kept, it is made again the next time."""
    import numpy

    with suppress(OSError):
        os.makedirs(os.path.dirname(file), 0o700, exist_ok=True)
        draft = f"{file}.{os.getpid()}"
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as target:
            numpy.savez(target, keys=keys, points=points, laid=laid, pairs=pairs.reshape(-1, 2))
        os.replace(draft, file)
