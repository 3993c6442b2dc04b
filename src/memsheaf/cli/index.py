"""The command about the index: what it is, and what it still lacks."""

from __future__ import annotations

import os
from contextlib import suppress

from memsheaf.cli.call import Call, pick, plural
from memsheaf.cli.command import Argument, Usage, takes

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.index.embedding import Embedding

EMBEDDING = ("embedder", "done", "total", "running", "problem")


@takes(
    Argument("--status", "only show it"),
    Argument("--rebuild", "throw the index away first, vectors included, and make it anew"),
)
def index(call: Call) -> int:
    """Show the index that search goes by, and embed what is not embedded yet.

    Memories become findable by meaning on their own, a few in each search and many beside it. This does all of it
    now. It may be interrupted with Ctrl-C: what was done is kept. The exit code is 1 when the embedder fails.

    examples:
      memsheaf index
      memsheaf index --status --json
    """
    options, console = call.options, call.console
    if options.status and options.rebuild:
        raise Usage("--status changes nothing, so it cannot go with --rebuild")
    with call.reading() as sheaf:
        if options.rebuild:
            sheaf.index.delete()
        memories = len(sheaf.list())
        with console.progress("Embedding") as progress:
            made = sheaf.index.embedding() if options.status else sheaf.index.embed_all(progress)
    # closed, it has left no files but those that stay
    files = []
    for path in sheaf.index.files():
        with suppress(FileNotFoundError):
            files.append((path, os.path.getsize(path)))
    if console.json:
        value = {
            "scope": str(sheaf.scope),
            "files": [{"path": path, "bytes": size} for path, size in files],
            "memories": memories,
            **pick(made, EMBEDDING),
        }
        console.answer(value)
    else:
        rows = [("file", f"{path} ({plural(size, 'byte')})") for path, size in files]
        rows += [("memories", f"{memories:,}"), ("embedder", made.embedder or "none: search goes by words")]
        console.table([*rows, *_vectors(made)], ("bold",))
    return 1 if made.problem else 0


def _vectors(made: Embedding) -> list[tuple[str, str]]:
    running = ", more are being made" if made.running else ""
    rows = [("vectors", f"{made.done:,} of {made.total:,} memories{running}")] if made.embedder else []
    return rows + ([("problem", made.problem)] if made.problem else [])
