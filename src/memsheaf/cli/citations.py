"""Commands about the places that show a memory to be true."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from memsheaf.cli.call import Call, here, pick
from memsheaf.cli.command import Argument, filled, takes
from memsheaf.errors import NotFound

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.guard.citations import Citation
    from memsheaf.guard.evidence import Evidence
    from memsheaf.memory import Memory
    from memsheaf.work.layers import Layers


@takes(
    Argument(
        "place",
        "what to cite: PATH, PATH:LINE, PATH:LINE-LINE, PATH#SYMBOL",
        "PLACE",
        required=True,
        convert=filled,
        complete="paths",
    ),
    Argument(
        "--memory", "the memory to add it to, as `memsheaf list` shows it", "FILE", convert=filled, complete="files"
    ),
)
def cite(call: Call) -> int:
    """Make a citation: a place in the working tree, with a hash of what is there now.

    By its hash `memsheaf verify` sees later whether the place changed or moved. A path is taken from where you
    are, else from the root of the checkout. With --memory the citation is added to that memory, and takes the
    place of an older one of the same lines.

    examples:
      memsheaf cite src/app.py:10-12
      memsheaf cite src/app.py#Server.start --memory project_server.md
    """
    from memsheaf.guard.citations import make
    from memsheaf.scope import around
    from memsheaf.worktree import WorkingTree

    with WorkingTree.open(around(here()), environment=call.environment) as tree:
        citation = make(tree, tree.spelled(call.options.place, here()))
    said, value = [str(citation)], {"citation": str(citation), **citation._asdict()}
    if call.options.memory:
        memory = _add(call, citation)
        said, value = (
            [f"Updated {memory.path}: {citation}"],
            {**value, "memory": memory.path, "version": memory.version},
        )
    return call.console.answer(value, said)


@takes(
    Argument(
        "file",
        "the memories to check; all of the scope when left out",
        "FILE",
        repeated=True,
        convert=filled,
        complete="files",
    )
)
def verify(call: Call) -> int:
    """Check the citations of memories against the working tree you are in.

    Each is `verified`; `drifted`, when it changed or moved, with its new place if that was found; `missing`; or
    `unchecked`, when there is nothing to compare. Files and symbols that a text names and the tree does not have
    are told as `gone`. The exit code is 1 when a citation is drifted or missing.

    examples:
      memsheaf verify
      memsheaf verify project_release-day.md --json
    """
    from memsheaf.guard.evidence import examine
    from memsheaf.scope import around
    from memsheaf.worktree import WorkingTree

    with (
        call.memory() as layers,
        WorkingTree.open(around(here()), memories=layers.root, environment=call.environment) as tree,
        call.console.waiting("verifying"),
    ):
        found = [(memory.path, examine(memory, tree)) for memory in _memories(layers, call.options.file)]
    if call.console.json:
        memories = [_json(path, evidence) for path, evidence in found]
        call.console.answer({"scope": layers.home, "tree": tree.root, "memories": memories})
    else:
        rows = [row for path, evidence in found for row in _rows(path, evidence)]
        call.console.table(rows, ("", "bold"))
        if not rows:
            call.console.note(f"no citations in the scope {layers.home}")
    states = {verdict.state for _, evidence in found for _, verdict in evidence.citations}
    return 1 if states & {"drifted", "missing"} else 0


def _add(call: Call, citation: Citation) -> Memory:
    from memsheaf.guard.citations import cited

    with call.memory() as layers:
        memory = layers.read(call.options.memory)
        return layers.put(memory.path, cited(memory, citation), expect=memory.version, why=f"cite {citation}")


def _memories(memory: Layers, files: Sequence[str]) -> Iterator[Memory]:
    """The memories that were named, or all that can be understood."""
    yield from map(memory.read, files)
    for row in memory.own.list() if not files else ():
        if row.state in ("ok", "free"):
            with suppress(NotFound):  # somebody was faster
                yield memory.own.read(row.path)


def _rows(path: str, evidence: Evidence) -> Iterator[tuple[str, str, str]]:
    for _, verdict in evidence.citations:
        yield verdict.state, path, verdict.said
    for name in evidence.gone:
        yield "gone", path, f"`{name}` is named in the text, and is not in the working tree."


def _json(path: str, evidence: Evidence) -> dict[str, object]:
    fields = ("state", "said", "place")
    citations = [{"citation": text, **pick(verdict, fields)} for text, verdict in evidence.citations]
    return {"path": path, "citations": citations, "gone": list(evidence.gone)}
