"""What machines of one hub do to each other, as scripts: afterwards all have the same files, and these.

A step is `MACHINE VERB PATH TEXT`. `put` and `forget` go through the program, `save` and `remove` are a person's
editor, `plain` is a folder without a hub. `look` notices edits, `pull` syncs without looking, `sync` looks and syncs.
After `!` stands the error of a step that is refused. `cut` unplugs the hub (`after`: it takes a push, and its answer
is lost), `mend` plugs it in. A folder can `block` a path, a link `hide` a file, a file `swell` beyond what is read: a
pull has then `left` it. `sync` and `rejoin` name the conflicts that they report, `has` names all files of a machine,
`agree` syncs the machines in this order and compares them. A machine has joined the hub unless it is `apart`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hub.test_replica import Machines, consistent, files, machine, plug, put, save, sync, version_at
from memsheaf import errors
from memsheaf.hub.git import GitRemote
from memsheaf.hub.replica import Replica
from memsheaf.store import ABSENT, Change
from memsheaf.store.folder import FolderStore

__all__ = ["machine"]  # the fixture
LONG, CUT = f"{'é' * 50}.md", f"{'é' * 49}-2.md"  # the longest name there is, and the one beside it

STORIES = {
    # one machine after the other
    "of two changes of one version the second is refused and sees the first": (
        "1 put a.md 1; 2 sync; 1 put a.md 2; 2 put!Changed a.md 3; 2 has a.md=2; 2 put a.md 3; agree",
        "a.md=3",
    ),
    "a machine dies between push and placing": (
        "1 cut after; 1 put!HubUnreachable a.md 1; 1 has; 1 mend; agree",
        "a.md=1",
    ),
    "a push that was cut in the middle is made once": (
        "1 queue; 1 cut after; 1 put a.md 1; 1 mend; 1 pull; 2 pull; agree",
        "a.md=1",
    ),
    "what comes back from the hub is not placed again": ("1 put a.md 1; 1 put a.md 2; 1 pull; agree", "a.md=2"),
    "after a lost answer a memory does not meet itself": (
        "1 queue; 1 cut after; 1 put a.md 1; 1 save a.md 2; 1 look; 1 mend; 1 pull; agree",
        "a.md=2",
    ),
    "once the hub answers again changes go there": (
        "1 cut; 1 put!HubUnreachable a.md 1; 1 mend; 1 pull; 1 put a.md 1; 2 pull; 2 has a.md=1; agree",
        "a.md=1",
    ),
    "what a person saves and removes is pushed by the next sync": (
        "1 put a.md 1; 1 save a.md edited; 1 save b.md new; agree; 2 has a.md=edited, b.md=new; 2 remove a.md;"
        " agree 2 1",
        "b.md=new",
    ),
    "undo goes through the hub": ("1 put a.md 1; 1 put a.md 2; 1 undo; 2 pull; 2 has a.md=1; agree", "a.md=1"),
    # both changed something
    "both changed one memory": (
        "1 put a.md 1; 2 sync; 2 put a.md theirs; 1 save a.md ours; 1 sync a.md>a-2.md; agree",
        "a.md=theirs, a-2.md=ours",
    ),
    "both changed one memory and one waited": (
        "1 queue; 1 put a.md 1; 2 sync; 2 put a.md theirs; 1 cut; 1 put a.md ours; 1 mend; 1 sync a.md>a-2.md; agree",
        "a.md=theirs, a-2.md=ours",
    ),
    "both saved the same": (
        "1 put a.md 1; 2 sync; 2 put a.md same; 1 save a.md same; 1 sync none; agree",
        "a.md=same",
    ),
    "what one removed and the other changed stays": (
        "1 put a.md 1; 1 put b.md 1; 2 sync; 2 put a.md changed; 2 forget b.md; 1 remove a.md; 1 save b.md changed;"
        " 1 sync a.md>; agree",
        "a.md=changed, b.md=changed",
    ),
    "two folders with memories join": (
        "1 apart; 2 apart; 1 plain a.md same; 1 plain b.md laptop; 1 plain c.md mine; 2 plain a.md same;"
        " 2 plain b.md desktop; 2 plain d.md theirs; 1 sync none; 2 sync b.md>b-2.md; agree",
        "a.md=same, b.md=laptop, b-2.md=desktop, c.md=mine, d.md=theirs",
    ),
    "names that are one on some machines, before one joined": (
        "2 apart; 1 put A.md theirs; 2 save a.md ours; 2 sync A.md>a-2.md; agree 2 1; 2 sync none",
        "A.md=theirs, a-2.md=ours",
    ),
    "names that are one on some machines, since the last pull": (
        "1 put A.md theirs; 2 save a.md ours; 2 sync A.md>a-2.md; agree 2 1; 2 sync none",
        "A.md=theirs, a-2.md=ours",
    ),
    "names that are one on some machines, known here": (
        "1 put A.md theirs; 2 pull; 2 put!PathRefused a.md x; 2 save a.md ours; 2 sync A.md>a-2.md; agree 2 1",
        "A.md=theirs, a-2.md=ours",
    ),
    "a memory that was spelled otherwise before it was pushed keeps its name": (
        "2 queue; 1 put b.md 1; 2 pull; 2 cut; 2 put A.md ours; 2 forget A.md; 2 put a.md ours; 2 put b.md ours;"
        " 1 put b.md theirs; 2 mend; 2 sync b.md>b-2.md; agree",
        "a.md=ours, b.md=theirs, b-2.md=ours",
    ),
    "a name that cannot be longer is cut for the text beside it": (
        f"1 put {LONG} 1; 2 sync; 1 put {LONG} theirs; 2 save {LONG} ours; 2 sync {LONG}>{CUT}; agree",
        f"{LONG}=theirs, {CUT}=ours",
    ),
    "a lost answer is not kept beside what replaced it": (  # git begins its history anew with an erasure
        "1 queue; 1 put a.md 1; 1 put b.md erased; 1 erase b.md; 1 cut after; 1 put a.md 2; 1 mend; 2 sync;"
        " 2 put a.md 3;"
        " 1 sync; agree",
        "a.md=3",
    ),
    "a text that is as it was again is replaced by the hub's": (
        "2 queue; 1 put a.md text; 2 sync; 2 cut; 2 put a.md changed; 2 undo; 2 put b.md made; 2 forget b.md;"
        " 1 put a.md more; 1 put a.md news; 1 put b.md b; 2 mend; 2 sync none; agree",
        "a.md=news, b.md=b",
    ),
    "a text that is as it was again is removed as on the hub": (
        "2 queue; 1 put a.md text; 2 sync; 2 cut; 2 put a.md changed; 2 undo; 1 put a.md more; 1 forget a.md; 2 mend;"
        " 2 sync none; agree",
        "",
    ),
    "undo goes on behind a change that lost against another": (
        "2 queue; 2 put b.md earlier; 2 cut; 2 put a.md two; 1 put a.md one; 2 mend; 2 sync a.md>a-2.md;"
        " 2 undo; 2 undo;"
        " 2 has a.md=one; agree",
        "a.md=one",
    ),
    # something stands in the way
    "a removal that comes while a file cannot be read is carried out later": (
        "1 put a.md text; 2 sync; 2 hide a.md; 1 forget a.md; 2 left a.md; 2 show a.md; agree 2 1",
        "",
    ),
    "a memory is placed when what stood in its way is gone": (
        "2 block a.md; 1 put a.md text; 2 left a.md; 2 left a.md; 2 free a.md; 2 pull; 2 has a.md=text; agree",
        "a.md=text",
    ),
    "a memory that was replaced is placed when what stood in its way is gone": (
        "2 block a.md; 1 put a.md text; 2 left a.md; 2 free a.md; 1 put a.md new; 2 pull; 2 has a.md=new; agree",
        "a.md=new",
    ),
    "what waits is not removed for all when its file cannot be read": (
        "2 queue; 1 put a.md a; 1 put b.md b; 2 sync; 2 cut; 2 put a.md a2; 2 put b.md b2; 2 swell a.md;"
        " 1 put b.md b1; 2 mend; 2 sync; 1 pull; 1 has a.md=a2, b.md=b1, b-2.md=b2; 2 save a.md small; agree 2 1",
        "a.md=small, b.md=b1, b-2.md=b2",
    ),
    "what waits and was changed elsewhere is not removed for all when its file cannot be read": (
        "2 queue; 1 put a.md a; 1 put b.md b; 2 sync; 2 cut; 2 put a.md a2; 2 put b.md b2; 2 swell a.md;"
        " 1 put b.md b1; 1 put a.md a1; 2 mend; 2 sync; 1 pull; 1 has a.md=a1, a-2.md=a2, b.md=b1, b-2.md=b2;"
        " 2 left a.md; 2 save a.md small; agree 2 1",
        "a.md=a1, a-2.md=a2, b.md=b1, b-2.md=b2, a-3.md=small",
    ),
    # a machine joins again
    "a text that somebody went back to is not replaced by a rejoin": (
        "1 put a.md first; 1 put a.md second; 2 sync; 2 cut; 1 undo; 2 save a.md third; 2 mend; 2 rejoin; agree",
        "a.md=first, a-2.md=third",
    ),
    "a rejoin that fails at first keeps what was edited and removed here": (
        "1 queue; 2 put a.md removed; 2 put b.md stays; 1 sync; 1 cut; 1 put a.md edited; 1 forget a.md;"
        " 1 rejoin!HubUnreachable; 1 waits a.md; 1 mend; 1 rejoin; agree",
        "b.md=stays",
    ),
    "a rejoin whose push fails keeps what was removed here": (
        "1 queue; 2 put a.md removed; 2 put b.md stays; 1 sync; 1 cut push; 1 forget a.md; 1 rejoin!HubUnreachable;"
        " 1 waits a.md; 1 mend; 1 rejoin; agree",
        "b.md=stays",
    ),
    "what is removed while a rejoin has failed stays removed": (
        "1 queue; 2 put a.md removed; 1 sync; 1 cut; 1 rejoin!HubUnreachable; 1 forget a.md; 1 mend; agree",
        "",
    ),
    "a rejoin restores and reports what was removed here and changed on the hub": (
        "1 queue; 2 put a.md 1; 1 sync; 1 cut; 1 forget a.md; 2 put a.md 2; 1 mend; 1 rejoin a.md>; agree",
        "a.md=2",
    ),
    "a text that two machines keep beside the hub's is there once": (
        "1 put a.md 1; 1 put a.md 2; 2 sync; 3 sync; 1 undo; 2 save a.md same; 2 rejoin; 3 save a.md same; 3 rejoin;"
        " agree",
        "a.md=1, a-2.md=same",
    ),
    # something is erased
    "without the hub nothing is erased": (
        "1 put a.md private; 1 cut erase; 1 erase!HubUnreachable a.md; 1 has a.md=private; 1 mend; agree",
        "a.md=private",
    ),
    "an erasure that the hub has is carried out by the machine that did not hear of it": (
        "1 put a.md private; 1 cut after; 1 erase!HubUnreachable a.md; 1 has a.md=private; 1 mend; 1 sync;"
        " 1 has; agree",
        "",
    ),
    "nothing is erased here alone while a rejoin waits for the hub": (
        "1 put a.md private; 2 sync; 2 cut; 2 rejoin!HubUnreachable; 2 erase!HubUnreachable a.md; 2 has a.md=private;"
        " 2 mend; 2 erase a.md; agree",
        "",
    ),
    "a text that nobody here has seen is not erased": (
        "1 save a.md mine; 2 put a.md theirs; 1 erase!Changed a.md; 1 has a.md=theirs, a-2.md=mine; agree",
        "a.md=theirs, a-2.md=mine",
    ),
    "a memory that has the name of an erased one stays": (
        "1 put a.md private; 2 sync; 1 erase a.md; 1 put a.md other; agree 2 1; agree",
        "a.md=other",
    ),
    "a memory that has the name of a forgotten and erased one stays": (
        "1 put a.md private; 2 sync; 2 forget a.md; 1 pull; 1 erase a.md; 2 put a.md other; agree 2 1; agree",
        "a.md=other",
    ),
    "what was erased is erased again when a hub has it back": (
        "1 put a.md private; 1 put b.md stays; 1 erase a.md; 1 pull; 2 put a.md private; 1 rejoin;"
        " 1 has b.md=stays; agree",
        "b.md=stays",
    ),
    "a memory with a name that was erased elsewhere outlives the first sync": (
        "2 apart; 1 put a.md erased; 3 sync; 1 erase a.md; 2 put a.md another; 2 sync; agree",
        "a.md=another",
    ),
    "a file with a name that was erased elsewhere outlives the first sync": (
        "2 apart; 1 put a.md erased; 3 sync; 1 erase a.md; 2 save a.md another; 2 sync; agree",
        "a.md=another",
    ),
    "a file that a person made in place of a removed one outlives its erasure elsewhere": (
        f"1 put {LONG} erased; 2 sync; 2 forget {LONG}; 1 erase {LONG}; 2 save {LONG} by hand; 2 pull; agree",
        f"{LONG}=by hand",
    ),
    "a change on an edit that nobody noted, whose answer is lost": (
        "1 put a.md 1; 2 sync; 2 erase a.md; 1 remove a.md; 1 cut after; 1 put!HubUnreachable a.md 2; 1 mend; 1 sync;"
        " agree",
        "a.md=2",
    ),
    "a queued change on an edit that nobody noted, whose answer is lost": (
        "1 queue; 1 put a.md 1; 2 sync; 2 erase a.md; 1 remove a.md; 1 cut after; 1 put a.md 2; 1 mend; 1 sync;"
        " agree",
        "a.md=2",
    ),
    "a memory that was erased elsewhere does not live on under a name it got meanwhile": (
        "2 queue; 1 put a.md private; 2 sync; 2 cut; 2 rename a.md b.md private.; 2 put c.md another; 1 erase a.md;"
        " 2 mend; 2 sync; agree",
        "c.md=another",
    ),
    "a memory made anew and changed before its erasure is heard of is there once": (
        "2 queue; 1 put a.md erased; 2 sync; 2 forget a.md; 1 erase a.md; 2 put a.md anew; 2 save a.md changed;"
        " agree 2 1",
        "a.md=changed",
        "a.md=anew, a-2.md=changed",  # with the history, git drops what says that it was replaced
    ),
    "the name that a memory has while its own is erased is on no hub": (
        "2 queue; 1 put a.md erased; 2 sync; 2 forget a.md; 2 cut; 2 put a.md here; 1 pull; 1 erase a.md;"
        " 1 put a.md there;"
        " 2 mend; agree 2 1",
        "a.md=there, a-2.md=here",
    ),
    "a change whose answer was lost and that was erased since does not come back": (
        "1 queue; 1 cut after; 1 put a.md erased; 1 mend; 2 sync; 2 erase a.md; agree",
        "",
    ),
    "what was removed here does not come back with the erasure of another of its name": (
        "1 put a.md erased; 1 erase a.md; 2 put a.md another; 2 remove a.md; 2 look; agree 2 1",
        "",
    ),
    "a removal of what was pushed without an answer is not taken back": (  # git has no ids after an erasure
        "1 queue; 1 cut after; 1 put a.md removed; 1 mend; 2 sync; 2 put b.md erased; 2 erase b.md;"
        " 1 remove a.md; agree",
        "",
    ),
    "a machine that joins again has no older version of what was erased": (
        "1 put a.md 1; 2 sync; 2 cut; 2 rejoin!HubUnreachable; 1 put a.md 2; 1 put b.md erased; 1 erase b.md;"
        " 1 erase a.md; 2 mend; agree 2 1",
        "",
    ),
}


@pytest.mark.parametrize("story", STORIES)
def test_story(machine: Machines, story: str) -> None:
    script, *endings = STORIES[story]
    steps = [step.strip() for step in script.split(";")]
    names = sorted({*re.findall(r"\b([123]) ", script), "1", "2"})
    crew = {
        name: machine(f"m{name}", queue=f"{name} queue" in steps, join=f"{name} apart" not in steps) for name in names
    }
    erased: set[bytes] = set()
    for step in steps:
        who, _, rest = step.partition(" ")
        verb, path, text = (*rest.split(" ", 2), "", "")[:3]
        if who == "agree":
            consistent(*(crew[name] for name in rest.split() or names))
            continue
        verb, _, error = verb.partition("!")
        if verb == "erase" and not error:
            erased |= {*crew[who].erase(path, by="user").texts}
        elif error:
            with pytest.raises(getattr(errors, error)):
                act(crew[who], verb, path, text)
        else:
            act(crew[who], verb, path, text)
    expected = parse_files(endings[-1] if isinstance(plug(crew["1"]).hub, GitRemote) else endings[0])
    for replica in crew.values():
        assert files(replica) == expected
        commits = list(replica.history())
        assert len({commit.id for commit in commits}) == len(commits), "a commit is told twice"
        texts = {text for commit in commits for step in commit.revisions for text in (step.old, step.new)}
        assert not texts & erased
    on_hub = {step.path for commit in plug(crew["1"]).hub.log() for step in commit.commit.revisions}
    assert on_hub <= {*expected, *re.findall(r"[^\s>]+\.md", script)}


def parse_files(text: str) -> dict[str, bytes]:
    return {path: data.encode() for path, data in re.findall(r"(\S+\.md)=([^,]*)", text)}


def act(replica: Replica, verb: str, path: str, text: str) -> None:
    """Do one step of a story on one machine."""
    place = Path(replica.root, path)
    match verb:
        case "queue" | "apart":
            pass  # it was opened so
        case "put" | "forget":
            put(replica, path, text.encode() if verb == "put" else None)
        case "save" | "remove":
            save(replica, path, text.encode() if verb == "save" else None)
        case "plain":
            FolderStore(replica.root).commit([Change(path, text.encode(), ABSENT)], by="user")
        case "rename":
            target, _, changed = text.partition(" ")
            moved = Change(path, None, version_at(replica, path)), Change(target, changed.encode(), ABSENT)
            replica.commit(moved, by="user", why=f"rename {path} to {target}")
        case "look":
            replica.adopt(files(replica))
            replica.adopt(None)
        case "pull":
            replica.sync()
        case "sync" | "rejoin":
            conflicts = (
                sync(replica) if verb == "sync" else [(told.path, told.copy) for told in replica.rejoin().conflicts]
            )
            if path:
                assert conflicts == ([] if path == "none" else [tuple(path.split(">"))])
        case "undo":
            replica.undo(by="user")
        case "erase":
            replica.erase(path, by="user")
        case "block" | "free":
            place.mkdir() if verb == "block" else place.rmdir()
        case "hide" | "show":
            aside = place.parent.with_name("aside")
            place.rename(aside) if verb == "hide" else place.unlink()
            place.symlink_to(aside) if verb == "hide" else aside.rename(place)
        case "swell":
            save(replica, path, b"too large " * 150_000)
        case "left":
            assert path in replica.sync().left
        case "cut" | "mend":
            plug(replica).out = (path or "all") if verb == "cut" else ""
        case "has":
            assert files(replica) == parse_files(f"{path} {text}".strip())
        case "waits":
            assert replica.unsent() == {path: "waits for the hub"}
        case _:
            raise AssertionError(f"no such step: {verb}")
