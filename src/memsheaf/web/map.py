"""The map: all memories as dots placed by meaning; as data for the script, as a picture, and as a list."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import JSONResponse, Response

from memsheaf.memory import KINDS
from memsheaf.recall.memory_map import MapDot, MapMaker, MapState, MemoryMap, render_svg
from memsheaf.values import NamedTuple
from memsheaf.web.markdown import memory_link
from memsheaf.web.page import PageRequest, get

LISTED = 25  # memories of a cluster


class MapGroup(NamedTuple):
    """A cluster in the list: its name, how many are in it, and some of them."""

    name: str
    size: int
    dots: list[MapDot]


def _state(page: PageRequest) -> MapState:
    """The map of one scope, or of all but tasks and sessions; it is made in the background."""
    maker = page.site.shared(MapMaker, lambda: MapMaker(page.scopes.settings.cache))
    return maker.state({key: sheaf.overview for key, sheaf in page.sheaves.items()})


@get("/map")
def show_map(page: PageRequest) -> Response:
    """The page around the map, with its clusters as lists."""
    state = _state(page)
    made = state.map
    counts: dict[str, int] = {kind: sum(dot.kind == kind for dot in made.dots) for kind in KINDS} if made else {}
    if made and (others := len(made.dots) - sum(counts.values())):
        counts["other"] = others
    return page.show(
        "map.html", state=state, groups=_groups(page, made) if made else [], counts=counts, scope=page.query["scope"]
    )


def _groups(page: PageRequest, made: MemoryMap) -> list[MapGroup]:
    """The clusters, largest first, and last what is in none."""
    named = [
        MapGroup(one.name or page.t.map.unnamed, len(one.members), [made.dots[at] for at in one.members[:LISTED]])
        for one in made.clusters
    ]
    inside = {at for one in made.clusters for at in one.members}
    alone = [dot for at, dot in enumerate(made.dots) if at not in inside]
    return [*named, *([MapGroup(page.t.map.others, len(alone), alone[:LISTED])] if alone else [])]


@get("/map.json")
def map_data(page: PageRequest) -> Response:
    """The map for the script; how much is done while there is none."""
    state = _state(page)
    if not state.map:
        return JSONResponse({"done": round(state.done, 2), "problem": state.problem}, 202)
    return JSONResponse(_data(state.map, {one.key: one.title for one in page.site.known()}))


def _data(made: MemoryMap, titles: Mapping[str, str]) -> dict[str, object]:
    kinds: dict[str, int] = {kind: number for number, kind in enumerate(KINDS)}
    scopes = list(dict.fromkeys(dot.scope for dot in made.dots))
    places = {key: number for number, key in enumerate(scopes)}
    return {
        "scopes": [titles.get(key, key) for key in scopes],
        "dots": [
            [dot.x, dot.y, kinds.get(dot.kind, len(kinds)), places[dot.scope], dot.name or dot.path,
             memory_link(dot.scope, dot.path)]
            for dot in made.dots
        ],
        "links": [[one.source, one.target, int(one.why == "alike")] for one in made.links],
        "clusters": [[round(one.x, 3), round(one.y, 3), one.name, len(one.members)] for one in made.clusters],
    }  # fmt: skip


@get("/map.svg")
def map_picture(page: PageRequest) -> Response:
    """The map as a picture."""
    made = _state(page).map
    return Response(render_svg(made or MemoryMap([], [], [])), media_type="image/svg+xml")
