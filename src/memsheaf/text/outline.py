"""Notes under headings that stay as they are: which section is meant, what may be put there, and how much.

Below a heading may stand one line in italics that says what belongs there, the guide. It stays, too.
"""

from __future__ import annotations

from memsheaf.errors import TextRefused, hinted
from memsheaf.frontmatter import split
from memsheaf.text import headings
from memsheaf.text.sections import Section, bullet, folded, section, sections, titles, with_lines

SECTION_TOKENS = 2_000
TOTAL_TOKENS = 12_000
TOKEN = 4  # bytes


def tokens(text: str) -> int:
    """How many tokens a text is, near enough.

    >>> tokens("Use tabs.")
    3
    """
    return -(-len(text.encode("utf-8", "replace")) // TOKEN)


def template(text: str) -> str:
    """The headings and guides that notes begin with, provided that each heading can be named. Raises TextRefused."""
    body = split(text.replace("\r\n", "\n")).body.strip("\n") + "\n"
    heads = [folded(title) for title in titles(body)]
    if not heads:
        why = "there is no heading below the first level"
    elif "" in heads or len(set(heads)) < len(heads):
        why = "two headings are the same, or one has no words"
    elif tokens(body) > TOTAL_TOKENS:
        why = f"it is larger than {TOTAL_TOKENS * TOKEN:,} bytes"
    else:
        return body
    raise refused(
        f"this is no template: {why}", "A template is Markdown with headings below the first level, such as '## Log'."
    )


def meant(body: str, name: str) -> Section:
    """The section of this title, or the only one whose title, or else a word of it, begins so. Raises TextRefused.

    >>> meant("## Errors & Corrections\\n- one\\n## Worklog\\n", "err").bullets
    ('one',)
    """
    wanted, known = folded(name), {folded(title): title for title in titles(body)}
    begun = [one for one in known if wanted and one.startswith(wanted)]
    within = [one for one in known if wanted and f" {wanted}" in one]
    fitting = [wanted] if wanted in known else begun or within
    found = section(body, known[fitting[0]]) if len(fitting) == 1 else None
    if found is None:
        why = "several sections could be" if fitting else "there is no section"
        raise refused(
            f"{why} {name!r}; there are: {', '.join(known.values()) or 'none'}",
            "Name one of them. A heading that was removed can be put back with `memsheaf edit`.",
        )
    return found


def noted(body: str, found: Section, text: str, *, replace: bool = False) -> str:
    """The body with one more bullet in a section, or with the text instead of what stands there.

    >>> noted("## Now\\n_What is done._\\n", meant("## Now\\n_What is done._\\n", "now"), "build")
    '## Now\\n_What is done._\\n\\n- build\\n'

    Raises:
        TextRefused: there is no room left, or the headings would be others.
    """
    lines = [line.rstrip() for line in text.split("\n")] if replace else [*content(found), *bullet(text)]
    if replace and headings.guide(lines[:1]) and not guide(found):
        lines[0] = f"- {lines[0]}"  # or it would be taken for a line of the template
    changed = with_lines(body, found, [*guide(found), "", *lines])
    if _heads(body) != _heads(changed):
        raise refused(
            "headings stay as they are, and this text would change them",
            "Close a code fence that it opens, and indent lines that begin with '#'.",
        )
    _refuse_overfull(body, changed, found)
    return changed


def guide(found: Section) -> list[str]:
    """The line in italics below a heading, with the blank lines before it; [] without one."""
    return headings.guide(found.lines)


def content(found: Section) -> list[str]:
    """The lines of a section below its guide, without blank lines around them."""
    return headings.content(found.lines)


def refused(why: str, hint: str) -> TextRefused:
    """A refusal with a hint that fits notes better than the usual one."""
    return hinted(TextRefused(why), hint)


def _heads(body: str) -> list[tuple[str, int]]:
    """The headings, and whether another could still follow: a fence that is left open would swallow it."""
    return [(one.title, one.level) for one in sections(f"{body}\n# end")]


def _refuse_overfull(body: str, changed: str, was: Section) -> None:
    """Raise TextRefused when a section, or all of them together, would grow past what they may hold."""
    now = next(one for one in sections(changed) if one.start == was.start)
    over = ""
    if tokens(was.text) < tokens(now.text) > SECTION_TOKENS:
        over = f"the section {was.title!r} would have {tokens(now.text):,} tokens; {SECTION_TOKENS:,} is the most"
    elif tokens(body) < tokens(changed) > TOTAL_TOKENS:
        now = max(sections(changed), key=lambda one: tokens(one.text))
        over = f"the notes would have {tokens(changed):,} tokens; {TOTAL_TOKENS:,} is the most"
    if over:
        raise refused(over, f"Make room: `--section {now.title!r} --replace` with what still matters of it.")
