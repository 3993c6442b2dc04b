"""What is told of memory where there is no model: what tools answered, in the language of the user."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence

from memsheaf.chat.offline.phrases import says, turned
from memsheaf.chat.offline.requests import TYPES, Wanted
from memsheaf.chat.offline.tool_answers import Known, fit, known, rows
from memsheaf.chat.offline.turns import Ask, Outcome, Talk
from memsheaf.llm.talker import Said
from memsheaf.text.neutralize import one_line

READ = 5
"""How many memories are read for one answer."""

LISTED = 3
"""How many memories a question names."""

_FOR_MODELS = r" (?:If this corrects it, change|memory_list shows|Read it with memory_read|Try other words)[^\n]*"
_HEADING = r"(?m)^# Memory\n\n(?:\(empty\)\n*)?"


class Telling:
    """Tells in one language what is known."""

    def __init__(self, language: str) -> None:
        self._says = says(language)
        self._language = language

    def say(self, name: str, **told: str) -> str:
        """A text in the user's language, with what is told in it; a secret is not said again."""
        from memsheaf.guard.secrets import without_secrets

        told = {what: turned(self._language, text) if what == "subject" else text for what, text in told.items()}
        return re.sub(r"\{(\w+)\}", lambda found: without_secrets(told.get(found[1], found[0])), self._says[name])

    def failed(self, answer: str) -> str:
        """What went wrong, in the tool's words, without what only a model could do about it."""
        why = re.sub(_FOR_MODELS, "", answer.removeprefix("Error:").strip().partition("\n\n")[0])
        return self.say("failed", why=one_line(why, 400))

    def know(self, wanted: Wanted) -> Talk:
        """What is known about something, of a type, or at all."""
        if wanted.file:
            text = (yield [("memory_read", {"filename": wanted.file})])[0].text
            return Outcome(self.failed(text) if text.startswith("Error:") else known(wanted.file, text).shown())
        if wanted.about and wanted.about != "all":
            return (yield from self._of_type(wanted))
        if not wanted.subject or wanted.about:
            return (yield from self.listed(wanted._replace(kind="index")))
        return (yield from self._about(wanted))

    def _of_type(self, wanted: Wanted) -> Talk:
        """The memories of a type, the newest first, and what else has the words."""
        types = ("user", "feedback") if wanted.about == "user" else (wanted.about,)
        asking: list[Ask] = [("memory_list", {"type": each}) for each in types]
        answers = yield [*asking, ("memory_search", {"query": wanted.subject})]
        *lists, found = [answer.text for answer in answers]
        if failed := next((each for each in lists if each.startswith("Error:")), ""):
            return Outcome(self.failed(failed))
        of_type = sorted((row for each in lists for row in rows(each)), key=lambda row: row.day, reverse=True)
        fitting = [row for row in rows(found) if fit(wanted.subject, wanted.language, row.line).is_all]
        files = list(dict.fromkeys(row.file for row in (*of_type, *fitting)))
        if not files:
            return Outcome(self.say("nothing known", subject=wanted.subject))
        texts = _texts((yield [("memory_read", {"filename": file}) for file in files[:READ]]))
        return Outcome(self._shown(self.say("known", subject=wanted.subject), files, texts))

    def _about(self, wanted: Wanted) -> Talk:
        found = (yield [("memory_search", {"query": wanted.subject, "limit": READ})])[0].text
        if found.startswith("Error:"):
            return Outcome(self.failed(found))
        near = rows(found)
        if not near:
            return Outcome(self.say("nothing known", subject=wanted.subject))
        texts = _texts((yield [("memory_read", {"filename": row.file}) for row in near]))
        fitting = [
            (row.file, text)
            for row, text in zip(near, texts, strict=True)
            if fit(wanted.subject, wanted.language, f"{row.line}\n{text}").is_half
        ]
        if not fitting:
            title = self.say("perhaps", subject=wanted.subject)
            return Outcome("\n".join([title, *(f"- {row.file}: {row.description}" for row in near[:LISTED])]))
        files, bodies = zip(*fitting, strict=True)
        return Outcome(self._shown(self.say("known", subject=wanted.subject), files, bodies))

    def search(self, wanted: Wanted) -> Talk:
        """What a search finds."""
        found = (yield [("memory_search", {"query": wanted.subject})])[0].text
        if found.startswith("Error:"):
            return Outcome(self.failed(found))
        if not rows(found):
            return Outcome(self.say("nothing known", subject=wanted.subject))
        return Outcome(f"{self.say('found', subject=wanted.subject)}\n{found}")

    def listed(self, wanted: Wanted) -> Talk:
        """The files, the index, or both."""
        listing: list[Ask] = [("memory_list", {"type": wanted.sort} if wanted.sort in TYPES else {})]
        viewing: list[Ask] = [("memory_view", {})]
        answers = _texts((yield {"list": listing, "index": viewing}.get(wanted.kind, listing + viewing)))
        if failed := next((each for each in answers if each.startswith("Error:")), ""):
            return Outcome(self.failed(failed))
        parts = []
        if wanted.kind != "index" and rows(answers[0]):
            parts.append(f"{self.say('files')}\n{answers[0]}")
        if wanted.kind != "list" and (catalog := re.sub(_HEADING, "", answers[-1]).strip()):
            title = self.say("known all" if wanted.kind == "index" else "index")
            parts.append(f"{title}\n{catalog}")
        return Outcome("\n\n".join(parts) or self.say("nothing"))

    def candidates(self, subject: str, language: str) -> Generator[list[Ask], Sequence[Said], list[Known] | str]:
        """The memories that a subject may mean: the one that has all of its words, or those that have half."""
        found = (yield [("memory_search", {"query": subject})])[0].text
        if found.startswith("Error:"):
            return found
        near = rows(found)
        if not near:
            return []
        texts = _texts((yield [("memory_read", {"filename": row.file}) for row in near]))
        read = [known(row.file, text) for row, text in zip(near, texts, strict=True) if not text.startswith("Error:")]
        fits = [(one, fit(subject, language, one.words)) for one in read]
        return [one for one, each in fits if each.is_all] or [one for one, each in fits if each.is_half]

    def _shown(self, title: str, files: Sequence[str], texts: Sequence[str]) -> str:
        """Memories in full, and the names of those that were not read."""
        read = zip(files, texts, strict=False)
        shown = [self.failed(text) if text.startswith("Error:") else known(file, text).shown() for file, text in read]
        more = files[len(texts) :]
        if more:
            shown.append(self.say("more", number=str(len(more)), files=", ".join(more[:20])))
        return "\n".join([title, *shown])


def _texts(answers: Sequence[Said]) -> list[str]:
    return [answer.text for answer in answers]
