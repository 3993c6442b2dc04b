"""Place texts on a map by meaning: PCA, t-SNE, clusters and their names. Pure functions of arrays and words.

t-SNE runs on a graph of nearest neighbours; the repulsion is interpolated on a grid and convolved by FFT, so that an
iteration takes time in proportion to the number of points. Everything is deterministic.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from math import log
from zlib import crc32

import numpy

from memsheaf.embed.threads import one_thread
from memsheaf.text.tokenizer import is_weak, stem, words
from memsheaf.values import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from numpy import float32, int64
    from numpy.typing import NDArray

DIMENSIONS = 30  # that PCA leaves
NEIGHBOURS = 12
LANDMARKS = 10_000  # so many are laid out; more are placed near these
HASHED = 512  # dimensions of the vector of a text's words
WORDS_SHARE = 0.45  # how much words count beside meaning
EXAGGERATED, ITERATIONS = 90, 330  # the first of them pull clusters together
EARLY, LATE = 12.0, 1.0  # exaggeration: neighbours attract so many times as strongly
GRAVITY = 0.3  # keeps together what has no neighbours in common
SPACING, CELLS = 0.6, 192  # of the grid: the least, and how many cells each way at most
AT_ONCE = 512  # rows of a comparison

LARGEST, SMALLEST = 24, 4  # clusters that get a name, and members that one has at least
SMOOTHING = 0.035  # of the map's width: what is nearer is one cluster
_PARTS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|[^\W\d_][\w'’-]*[^\W_]")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_KANA_ONLY = re.compile(r"[\u3040-\u309f]+")


class Layout(NamedTuple):
    """Where each text is, from -1 to 1 each way; and pairs that are each other's nearest."""

    points: NDArray[float32]
    pairs: list[tuple[int, int]]


class Cluster(NamedTuple):
    """A dense region of a map: where its name goes, its telling words, and which texts are in it."""

    x: float
    y: float
    name: str
    members: list[int]


def word_vectors(texts: Sequence[str]) -> NDArray[float32]:
    """The words of each text as a vector of length 1: hashed, rare ones counting more; 0 for a text without any."""
    counts = [Counter(crc32(word.encode()) for word in words(text)) for text in texts]
    known = Counter(word for each in counts for word in each)
    made = numpy.zeros((len(texts), HASHED), numpy.float32)
    for row, each in zip(made, counts, strict=True):
        for word, count in each.items():
            weight = log(1 + len(texts) / known[word]) * (1 + log(count))
            row[word % HASHED] += weight if word & 0x10000 else -weight
    return _unit(made)


def combine(meaning: NDArray[float32] | None, by_words: NDArray[float32]) -> NDArray[float32]:
    """One vector a text from the two that it has; where there is no meaning, words alone decide who is near."""
    if meaning is None:
        return by_words
    centred = numpy.where(meaning.any(axis=1, keepdims=True), meaning - meaning.mean(axis=0), 0)
    return _unit(numpy.hstack([_unit(centred), by_words * numpy.float32(WORDS_SHARE)]))


def place(vectors: NDArray[float32], progress: Callable[[float], None] = lambda share: None) -> Layout:
    """Lay texts out so that those with near vectors are near each other."""
    with one_thread():
        return _place(vectors, progress)


def _place(vectors: NDArray[float32], progress: Callable[[float], None]) -> Layout:
    count = len(vectors)
    if count < 4:
        angles = numpy.arange(count, dtype=numpy.float32) * (2 * numpy.pi / max(count, 1))
        circle = numpy.stack([numpy.cos(angles), numpy.sin(angles)], 1) * (0.4 if count > 1 else 0)
        return Layout(circle.astype(numpy.float32), [])
    if count > LANDMARKS:
        chosen = numpy.arange(LANDMARKS) * count // LANDMARKS
        others = numpy.setdiff1d(numpy.arange(count), chosen)
        made = _place(vectors[chosen], progress)
        points = numpy.empty((count, 2), numpy.float32)
        points[chosen] = made.points
        points[others] = _place_near(vectors[others], vectors[chosen], made.points)
        return Layout(points, [(int(chosen[one]), int(chosen[other])) for one, other in made.pairs])
    reduced = reduce(vectors)
    near, cosines = _nearest(reduced, max(2, min(NEIGHBOURS, count // 8)))
    progress(0.1)
    found = _descend(near, reduced[:, :2], lambda share: progress(0.1 + 0.9 * share))
    first = near[:, 0]
    mutual = [at for at in range(count) if first[first[at]] == at < first[at] and cosines[at, 0] > 0.5]
    return Layout(_spread(found), [(at, int(first[at])) for at in mutual])


def place_near(new: NDArray[float32], known: NDArray[float32], points: NDArray[float32]) -> NDArray[float32]:
    """Where new texts go on a map that stays as it is: beside what they are nearest to."""
    with one_thread():
        return _place_near(new, known, points)


def _place_near(new: NDArray[float32], known: NDArray[float32], points: NDArray[float32]) -> NDArray[float32]:
    made = numpy.zeros((len(new), 2), numpy.float32)
    if not len(known):
        return made
    for start in range(0, len(new), AT_ONCE):
        cosines = new[start : start + AT_ONCE] @ known.T
        best = numpy.argsort(-cosines, axis=1, kind="stable")[:, :3]
        weights = numpy.maximum(numpy.take_along_axis(cosines, best, 1), 0.01) ** 4
        # the first decides: between two clusters there is nothing
        weights *= numpy.linalg.norm(points[best] - points[best[:, :1]], axis=2) < 0.15
        made[start : start + AT_ONCE] = (points[best] * weights[..., None]).sum(axis=1) / weights.sum(1)[:, None]
    angles = numpy.arange(len(new)) * 2.39996  # the golden angle: no two in one place
    aside = numpy.stack([numpy.cos(angles), numpy.sin(angles)], 1) * 0.006
    return numpy.clip(made + aside, -1, 1).astype(numpy.float32)


def reduce(vectors: NDArray[float32], dimensions: int = DIMENSIONS) -> NDArray[float32]:
    """The principal components, most telling first, by a randomized range finder."""
    centred = vectors - vectors.mean(axis=0)
    random = numpy.random.default_rng(0)
    most = min(dimensions, *centred.shape)
    basis = centred @ random.standard_normal((centred.shape[1], most + 8), dtype=numpy.float32)
    for _ in range(3):
        basis, _ = numpy.linalg.qr(centred @ (centred.T @ basis))
    _, _, axes = numpy.linalg.svd(basis.T @ centred, full_matrices=False)
    axes = axes[:most]
    axes *= numpy.sign(axes[numpy.arange(len(axes)), numpy.abs(axes).argmax(axis=1)])[:, None]
    made: NDArray[float32] = centred @ axes.T
    return made


def _nearest(vectors: NDArray[float32], count: int) -> tuple[NDArray[int64], NDArray[float32]]:
    """The nearest others of each vector by cosine, nearest first, and these cosines."""
    unit = _unit(vectors)
    found = numpy.empty((len(unit), count), numpy.int64)
    cosines = numpy.empty((len(unit), count), numpy.float32)
    for start in range(0, len(unit), AT_ONCE):
        part = unit[start : start + AT_ONCE] @ unit.T
        rows = numpy.arange(len(part))
        part[rows, rows + start] = -2
        best = numpy.argpartition(part, -count, axis=1)[:, -count:]
        best.sort(axis=1)  # so that ties are broken alike
        values = numpy.take_along_axis(part, best, 1)
        order = numpy.argsort(-values, axis=1, kind="stable")
        found[start : start + AT_ONCE] = numpy.take_along_axis(best, order, 1)
        cosines[start : start + AT_ONCE] = numpy.take_along_axis(values, order, 1)
    return found, cosines


def _descend(
    near: NDArray[int64], start: NDArray[float32], progress: Callable[[float], None]
) -> NDArray[numpy.float64]:
    """Gradient descent of t-SNE with momentum, where each is attracted alike by its nearest others and theirs."""
    count = len(near)
    one = numpy.repeat(numpy.arange(count), near.shape[1])
    both = numpy.unique(numpy.concatenate([one * count + near.ravel(), near.ravel() * count + one]))
    source, target = numpy.divmod(both, count)  # in order of the source
    begins = numpy.searchsorted(source, numpy.arange(count))
    share = 1 / len(both)
    points = start.astype(float)
    points = numpy.pad(points, ((0, 0), (0, 2 - points.shape[1])))
    points *= 1e-2 / max(points.std(), 1e-12)
    speed, gains = numpy.zeros_like(points), numpy.ones_like(points)
    kernels, early = _Kernels(), min(EARLY, max(1.0, count / 40))
    for step in range(ITERATIONS):
        is_early = step < EXAGGERATED
        exaggeration = early if is_early else min(early, LATE)
        apart = points[source] - points[target]
        pull = share * exaggeration / (1 + (apart * apart).sum(axis=1))
        attraction = numpy.add.reduceat(apart * pull[:, None], begins, axis=0)
        slope = 4 * (attraction - kernels.repulsion(points) + GRAVITY * count**-1.5 * points)
        gains = numpy.where(slope * speed < 0, gains + 0.2, numpy.maximum(gains * 0.8, 0.01))
        speed = (0.5 if is_early else 0.8) * speed - count / exaggeration * gains * slope
        length = numpy.linalg.norm(speed, axis=1, keepdims=True)
        points += speed * numpy.minimum(1, 5 / numpy.maximum(length, 1e-9))
        points -= points.mean(axis=0)
        if step % 20 == 19:
            progress((step + 1) / ITERATIONS)
    return points


class _Kernels:
    """The repulsion of t-SNE on a grid: its kernels are transformed once for each size of the grid."""

    def __init__(self) -> None:
        self._of: tuple[int, float] | None = None

    def repulsion(self, points: NDArray[numpy.float64]) -> NDArray[numpy.float64]:
        """The push that each point gets from all others together."""
        low = points.min(axis=0)
        width = float((points - low).max()) + 1e-9
        cells, spacing = CELLS // 4, max(SPACING, width / (CELLS - 2))
        while (cells - 2) * spacing < width and cells < CELLS:
            cells *= 2
        while (cells - 2) * spacing > 2 * width and spacing > 1e-4:
            spacing /= 2
        if self._of != (cells, spacing):
            self._of = cells, spacing
            self._make(cells, spacing)
        place = (points - low) / spacing
        corner = place.astype(numpy.int64)
        right, up = (place - corner).T
        base = corner[:, 0] * cells + corner[:, 1]
        places = numpy.concatenate([base, base + cells, base + 1, base + cells + 1])
        weights = numpy.concatenate([(1 - right) * (1 - up), right * (1 - up), (1 - right) * up, right * up])
        density = numpy.bincount(places, weights, cells * cells).reshape(cells, cells)
        waves = numpy.fft.rfft2(density, (2 * cells, 2 * cells))
        fields = numpy.fft.irfft2(waves * self._waves, (2 * cells, 2 * cells))[:, :cells, :cells].reshape(3, -1)
        felt = (fields[:, places] * weights).reshape(3, 4, -1).sum(axis=1)
        total = max(float(felt[0].sum()) - len(points), 1e-9)
        made: NDArray[numpy.float64] = felt[1:].T / total
        return made

    def _make(self, cells: int, spacing: float) -> None:
        steps = numpy.fft.fftfreq(2 * cells, 1 / (2 * cells)) * spacing
        x, y = steps[:, None], steps[None, :]
        near = 1 / (1 + x * x + y * y)
        self._waves = numpy.fft.rfft2(numpy.stack([near, x * near * near, y * near * near]))


def _spread(points: NDArray[numpy.float64]) -> NDArray[float32]:
    """The points in the middle of -1 to 1 each way, the wider side along x; few that are far out are moved in."""
    points = points - numpy.median(points, axis=0)
    _, axes = numpy.linalg.eigh(numpy.cov(points.T))
    points = points @ axes[:, ::-1]
    points *= numpy.sign((points**3).sum(axis=0)) + ((points**3).sum(axis=0) == 0)
    radius = numpy.linalg.norm(points, axis=1, keepdims=True)
    usual = max(float(numpy.quantile(radius, 0.98)), 1e-9)
    points = points * numpy.where(radius > usual, (usual + (radius - usual) * 0.25) / numpy.maximum(radius, 1e-9), 1)
    low, high = points.min(axis=0), points.max(axis=0)
    middle, half = (low + high) / 2, max(float((high - low).max()) / 2, 1e-9)
    return numpy.asarray((points - middle) / half, numpy.float32)


def find_clusters(points: NDArray[float32], texts: Sequence[str]) -> list[Cluster]:
    """The dense regions of a map, largest first, each with up to three words that tell it from the others.

    Each point goes uphill on a smoothed density; those that arrive at the same top are a cluster.
    """
    if not len(points):
        return []
    cells = 96
    corner = numpy.clip(((points + 1) / 2 * (cells - 1)).round().astype(numpy.int64), 0, cells - 1)
    places = corner[:, 0] * cells + corner[:, 1]
    density = numpy.bincount(places, minlength=cells * cells).reshape(cells, cells).astype(float)
    frequency = numpy.fft.fftfreq(2 * cells)[:, None] ** 2 + numpy.fft.rfftfreq(2 * cells)[None, :] ** 2
    width = SMOOTHING * cells * max(1.0, 2.2 - len(points) / 400)
    smoothing = numpy.exp(-2 * (numpy.pi * width) ** 2 * frequency)
    smooth = numpy.fft.irfft2(numpy.fft.rfft2(density, (2 * cells,) * 2) * smoothing)[:cells, :cells]
    padded = numpy.pad(smooth, 1, constant_values=-1)
    steps = [(x, y) for x in (0, -1, 1) for y in (0, -1, 1)]
    around = numpy.stack([padded[1 + x : 1 + x + cells, 1 + y : 1 + y + cells] for x, y in steps])
    moves = numpy.array([x * cells + y for x, y in steps])
    uphill = (numpy.arange(cells * cells) + moves[around.argmax(axis=0).ravel()]).astype(numpy.int64)
    for _ in range(8):  # each goes twice as far as before
        uphill = uphill[uphill]
    top = uphill[places]
    sizes = Counter(top.tolist()).most_common(LARGEST)
    members = [numpy.flatnonzero(top == peak).tolist() for peak, size in sizes if size >= min(SMALLEST, len(points))]
    names = name_groups([[texts[at] for at in each] for each in members])
    middles = [numpy.median(points[each], axis=0) for each in members]
    return [
        Cluster(float(x), float(y), name, each) for (x, y), name, each in zip(middles, names, members, strict=True)
    ]


def name_groups(groups: Sequence[Sequence[str]]) -> list[str]:
    """Up to three telling words of each group of texts: frequent in it, and rare in the others.

    >>> name_groups([["Deploy on Friday", "How we deploy"], ["Tabs in Python", "Python 3.12"]])
    ['deploy, friday', 'python, tabs']
    >>> name_groups([["部署流程说明", "部署流程"], ["数据库备份", "数据库迁移"]])
    ['部署流程', '数据库, 备份, 迁移']
    """
    counted = [Counter(word for text in group for word in set(_telling_words(text))) for group in groups]
    everywhere = sum(counted, Counter[str]())
    total = sum(map(len, groups))
    named = []
    for group, each in zip(groups, counted, strict=True):
        scores = {
            word: count
            * (log(count * total / (len(group) * everywhere[word])) + 0.05)
            * (1.0 + 0.35 * (len(word) - 2) * _is_unspaced(word))
            for word, count in each.items()
            if count > 1 or len(group) < 2 * SMALLEST
        }
        best = sorted(scores, key=lambda word: (-scores[word], word))
        chosen: list[str] = []
        for word in best[:24]:
            is_said = any(_overlap(word, other) for other in chosen)
            if not is_said and (not chosen or scores[word] * 3 > scores[chosen[0]]):
                chosen.append(word)
        named.append(", ".join(chosen[:3]))
    return named


def _telling_words(text: str) -> list[str]:
    found: list[str] = []
    for part in _PARTS.findall(text):
        if _is_unspaced(part):
            pieces = {part[at : at + size] for size in (2, 3, 4) for at in range(len(part) - size + 1)}
            found += [piece for piece in pieces if not _KANA_ONLY.search(piece[0] + piece[-1])]
        else:
            word = part.lower()
            if len(word) > 2 and words(word) and not is_weak(stem(word)):
                found.append(word)
    return found


def _is_unspaced(word: str) -> bool:
    return bool(_UNSPACED.match(word))


def _overlap(one: str, other: str) -> bool:
    """Whether two words are forms of one, or pieces of a longer one."""
    if _is_unspaced(one):
        return not set(one).isdisjoint(other)
    return stem(one) == stem(other)


def _unit(vectors: NDArray[float32]) -> NDArray[float32]:
    lengths = numpy.linalg.norm(vectors, axis=1, keepdims=True)
    made: NDArray[float32] = vectors / numpy.maximum(lengths, numpy.float32(1e-9))
    return made
