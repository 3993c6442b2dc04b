"""Commands that recall: what a message would bring beside it, and why."""

from __future__ import annotations

from collections.abc import Iterator

from memsheaf.cli.call import here, pick, plural
from memsheaf.cli.command import SESSION, TASK, Argument, takes
from memsheaf.cli.index import EMBEDDING
from memsheaf.scope import around, shown

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.cli.call import Call
    from memsheaf.index.embedding import Embedding
    from memsheaf.recall.inject import Shown
    from memsheaf.recall.recall import Candidate, Recall
    from memsheaf.work.layers import Layers

_MESSAGE = Argument("message", "what the user says", "TEXT", required=True, repeated=True)


@takes(_MESSAGE, TASK, SESSION)
def recall(call: Call) -> int:
    """Print the memories that matter for a message, as an agent gets them beside it.

    At most five, whole or cut at 4,096 bytes, with their age. Nothing is printed when none matters; `memsheaf why`
    tells the reasons. It looks in the task, the session, the project and the user, where there are any; with --scope
    and --agent, which may be given several times, the nearest first, only there.

    examples:
      memsheaf recall "how do we deploy?"
      memsheaf recall --scope user "which indentation do I like?" --json
    """
    with _opened(call) as memory:
        found = memory.recall(" ".join(call.options.message), tree=around(here()))
    if call.console.json:
        return call.console.answer(_recall_json(found))
    if not found.text:
        call.console.note(f"nothing recalled: {found.gate or 'no memory has enough in common with the message'}")
        return 0
    call.console.exact(found.text.encode())
    return 0


@takes(_MESSAGE, TASK, SESSION)
def why(call: Call) -> int:
    """Explain what `memsheaf recall` would bring for a message: candidates, scores, gates, cuts.

    COMMON counts the telling words that message and memory share, NEAR is how near they are in meaning (a cosine, 0
    without an embedder). FIT makes one number of both: from 1 on it is recalled. SCORE decides the order: rare words
    count more, and it is a little higher when pinned, in the nearest scope, changed or of use lately. Nothing is
    counted as used.

    examples:
      memsheaf why "how do we deploy?"
      memsheaf why --scope user "which indentation do I like?" --json
    """
    with _opened(call) as memory:
        found = memory.session(tree=around(here())).why(" ".join(call.options.message))
        made = {} if found.gate else {str(sheaf.scope): sheaf.index.embedding() for sheaf in memory.sheaves()}
    if call.console.json:
        candidates = [_candidate_json(one, memory.home) for one in found.candidates]
        embedding = {scope: pick(one, EMBEDDING) for scope, one in made.items()}
        return call.console.answer({**_recall_json(found), "candidates": candidates, "embedding": embedding})
    if found.gate:
        call.console.say(f"nothing was looked for: {found.gate}")
        return 0
    call.console.say(f"chosen by: {found.selector}", style="dim")
    for scope, one in made.items():
        call.console.say(f"{scope}: {_told(one)}", style="dim")
    if not found.candidates:
        call.console.say("no memory shares a word with the message, or is near to it in meaning")
        return 0
    call.console.table(
        [("", "SCORE", "FIT", "COMMON", "NEAR", "SCOPE", "FILE", "WHY"), *_cells(found, memory.home)],
        ("green", "", "", "", "", "dim", "bold"),
    )
    return 0


def _told(made: Embedding) -> str:
    """By what memories of a scope were found."""
    if made.problem:
        return f"found by words, because the embedder failed: {made.problem}"
    if not made.embedder:
        return "found by words"
    if made.done < made.total:
        share = f"{made.done:,} of {plural(made.total, 'memory', 'memories')} so far"
        return f"found by words, and by meaning where there are vectors: {share}; `memsheaf index` sees to the rest"
    return "found by words and meaning"


def _opened(call: Call) -> Layers:
    memory = call.memory(task=call.options.task, session=call.options.session)
    for said in memory.unclear():
        call.console.note(said)
    return memory


def _cells(found: Recall, home: str) -> Iterator[tuple[str, ...]]:
    cut = {(one.scope, one.memory.path): one for one in found.memories if one.is_cut}
    for one in found.candidates:
        said = one.why or (
            "recalled, cut to what there is room for" if (one.scope, one.row.path) in cut else "recalled"
        )
        numbers = (f"{number:.2f}" for number in (one.score, one.fit, one.common, one.near))
        yield "*" if one.chosen else "", *numbers, one.scope, shown(one.scope, one.row.path, home), said


def _recall_json(found: Recall) -> dict[str, object]:
    return {
        "text": found.text,
        "bytes": found.size,
        "gate": found.gate,
        "selector": found.selector,
        "query": found.query,
        "memories": [_shown_json(one) for one in found.memories],
    }


def _shown_json(one: Shown) -> dict[str, object]:
    memory = one.memory
    return {
        "layer": one.scope.partition("/")[0],
        "scope": one.scope,
        "path": one.name,
        "name": memory.name,
        "type": memory.kind,
        "version": memory.version,
        "age": one.age,
        "cut": one.is_cut,
        "notes": list(one.notes),
    }


def _candidate_json(one: Candidate, home: str) -> dict[str, object]:
    return {
        "scope": one.scope,
        "path": shown(one.scope, one.row.path, home),
        "score": round(one.score, 4),
        "fit": round(one.fit, 4),
        "common": round(one.common, 4),
        "near": round(one.near, 4),
        "chosen": one.chosen,
        "why": one.why,
    }
