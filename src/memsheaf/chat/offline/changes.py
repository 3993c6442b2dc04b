"""What is changed in memory where there is no model: what the user said in so many words, and nothing by a guess."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from memsheaf.chat.offline.drafts import Draft, corrected, drafted
from memsheaf.chat.offline.phrases import is_all
from memsheaf.chat.offline.replies import LISTED, Telling
from memsheaf.chat.offline.requests import TYPES, Wanted, requested
from memsheaf.chat.offline.tool_answers import Known, fit, known
from memsheaf.chat.offline.turns import Heard, Outcome, Pending, Talk, touched
from memsheaf.errors import SecretFound
from memsheaf.guard.paths import file_name
from memsheaf.llm.talker import Said
from memsheaf.text.neutralize import one_line


class Changing:
    """Saves, corrects and deletes what the last of these turns asks for. With `can_undo`, a deletion says so."""

    def __init__(self, telling: Telling, turns: Sequence[Heard], today: date, *, can_undo: bool) -> None:
        self._telling = telling
        self._turns = turns
        self._today = today
        self._can_undo = can_undo

    def remember(self, wanted: Wanted) -> Talk:
        """Keep a fact: the one in the request, or what was said just before."""
        fact = wanted.fact or self._said_before()
        if not fact:
            return Outcome(self._telling.say("what remember"))
        if refused := self._refused(fact):
            return Outcome(refused)
        return (yield from self._saved(drafted(fact, wanted.sort, wanted.language, self._today)))

    def _said_before(self) -> str:
        """What the user said in the turn before, if it was something to keep."""
        earlier = self._turns[-2].text if len(self._turns) > 1 else ""
        wants = requested(earlier) if earlier else ()
        return earlier.strip() if wants and wants[0].kind == "state" else ""

    def _refused(self, fact: str) -> str:
        """Why nothing of this is kept, if there is a secret in it; or "".

        The message is judged, too: cut out of it, a fact may have lost what gives the secret away.
        """
        from memsheaf.guard.secrets import find_secrets

        found = find_secrets(self._turns[-1].text) or find_secrets(fact)
        return (
            self._telling.failed(f"{(error := SecretFound(found[0].kind, 'what you said'))}. {error.hint}")
            if found
            else ""
        )

    def _saved(self, draft: Draft) -> Talk:
        """Keep something new. One of the same name that is there stays: the new one gets a longer name."""
        file = file_name(draft.type, draft.name, lambda path: False)
        known_files = (name for turn in self._turns[:-1] for name in turn.seen)
        seen = next((name for name in known_files if name.rpartition(":")[2] == file), "")  # it would be replaced
        (answer,) = yield [("memory_read", {"filename": seen}) if seen else ("memory_write", draft._asdict())]
        file = seen or touched(answer, "exists")
        there = answer.text if seen else answer.text.partition("\n\n")[2] * bool(file)
        if there and not there.startswith("Error:"):
            if known(file, there).body.strip() == draft.content.strip():
                return Outcome(self._telling.say("already", file=file, what=draft.content))
            draft = draft._replace(name=one_line(draft.content, 80).rstrip("."))
        if there:
            (answer,) = yield [("memory_write", draft._asdict())]
        if same := touched(answer, "same"):
            return Outcome(self._telling.say("already", file=same, what=draft.content))
        return Outcome(self._told("saved", answer, draft.content))

    def _told(self, name: str, answer: Said, what: str) -> str:
        file = touched(answer, "saved")
        return self._telling.say(name, file=file, what=what) if file else self._telling.failed(answer.text)

    def forget(self, wanted: Wanted) -> Talk:
        """Delete the one memory that is meant; where that is not sure, ask."""
        if wanted.file:
            return (yield from self._deleted([wanted.file]))
        if wanted.about or is_all("everything", wanted.language, wanted.subject):
            return Outcome(self._telling.say("one at a time"))
        if not wanted.subject:
            saved = self._turns[-2].saved if len(self._turns) > 1 else ()
            return (yield from self._deleted(saved)) if len(saved) == 1 else Outcome(self._telling.say("what forget"))
        found = yield from self._telling.candidates(wanted.subject, wanted.language)
        if isinstance(found, str):
            return Outcome(self._telling.failed(found))
        if not found:
            return Outcome(self._telling.say("unfit", subject=wanted.subject))
        if len(found) == 1 and fit(wanted.subject, wanted.language, found[0].words).is_all:
            return (yield from self._deleted([found[0].file], found[0].body))
        return self._which("which" if len(found) > 1 else "whether", wanted, found)

    def _deleted(self, files: Sequence[str], body: str = "") -> Talk:
        answers = yield [("memory_delete", {"filename": file}) for file in files]
        lines = []
        for answer in answers:
            if gone := touched(answer, "deleted"):
                lines.append(self._telling.say("deleted" if body else "gone", file=gone, what=one_line(body, 300)))
            else:
                lines.append(self._telling.failed(answer.text))
        if self._can_undo and len(lines) == 1 and touched(answers[0], "deleted"):
            lines.append(self._telling.say("back"))
        return Outcome("\n".join(lines))

    def update(self, wanted: Wanted) -> Talk:
        """Correct the one memory that is meant; where that is not sure, ask."""
        if not wanted.fact:
            return Outcome(self._telling.say("what update"))
        if refused := self._refused(wanted.fact):
            return Outcome(refused)
        draft = drafted(wanted.fact, "", wanted.language, self._today)
        if wanted.also:
            return (yield from self._saved(draft))
        subject = wanted.fact if wanted.about or not wanted.subject else wanted.subject
        found = yield from self._telling.candidates(subject, wanted.language)
        if isinstance(found, str):
            return Outcome(self._telling.failed(found))
        if not found and subject == wanted.subject:
            asked = self._telling.say("unknown", subject=subject, what=draft.content)
            return Outcome(asked, Pending(wanted, ()))
        if not found:
            saved = yield from self._saved(draft)
            return Outcome(f"{self._telling.say('fresh')} {saved.text}")
        is_sure = fit(subject, wanted.language, found[0].words).is_all and _is_alike(wanted, found[0])
        if len(found) == 1 and is_sure:
            return (yield from self._corrected(found[0], draft))
        return self._which("corrects" if len(found) > 1 else "correct", wanted, found)

    def _corrected(self, old: Known, draft: Draft) -> Talk:
        """Put a fact in the place of what a memory said; the rest of its text stays."""
        content = corrected(old.body, draft.content)
        kind = old.kind if old.kind in TYPES else draft.type
        fields = draft._replace(content=content, type=kind)._asdict()
        (answer,) = yield [("memory_write", {**fields, "filename": old.file})]
        return Outcome(self._told("updated", answer, draft.content))

    def _which(self, name: str, wanted: Wanted, found: Sequence[Known]) -> Outcome:
        """Ask which of these is meant."""
        listed = found[:LISTED]
        lines = [f"{at}. {one.file}: {one_line(one.body, 160)}" for at, one in enumerate(listed, 1)]
        return Outcome(
            "\n".join([self._telling.say(name), *lines]), Pending(wanted, tuple(one.file for one in listed))
        )

    def chosen(self, pending: Pending, choice: Sequence[str]) -> Talk:
        """Do what the user chose of what was offered."""
        files = [file for each in choice for file in _picked(each, pending.files)]
        wanted = pending.wanted
        if wanted.kind == "forget":
            return (yield from self._deleted(files)) if files else Outcome(self._telling.say("unchanged"))
        draft = drafted(wanted.fact, "", wanted.language, self._today)
        if "new" in choice or (not pending.files and "yes" in choice):
            return (yield from self._saved(draft))
        if len(files) != 1:
            return Outcome(self._telling.say("unchanged"))
        (read,) = yield [("memory_read", {"filename": files[0]})]
        if read.text.startswith("Error:"):
            return Outcome(self._telling.failed(read.text))
        return (yield from self._corrected(known(files[0], read.text), draft))


def _is_alike(wanted: Wanted, old: Known) -> bool:
    """Whether a correction speaks of the same thing as the memory it would replace, and not only its subject does."""
    fact = wanted.fact.removeprefix(f"{wanted.subject}: ")
    return fact == wanted.fact and fit(fact, wanted.language, old.words).has > 0


def _picked(choice: str, files: Sequence[str]) -> list[str]:
    """The files that one answer means."""
    if choice == "every":
        return list(files)
    if choice == "yes":
        return list(files) if len(files) == 1 else []
    if choice == "last":
        return list(files[-1:])
    if choice.isdecimal():
        return list(files[int(choice) - 1 : int(choice)])
    return [file for file in files if file == choice]
