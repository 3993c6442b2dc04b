"""All texts of the page are in texts.toml, and each of them is used."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import memsheaf.web

WEB = Path(memsheaf.web.__file__).parent
TEMPLATES = sorted((WEB / "templates").glob("*.html"))
TEXTS = tomllib.loads((WEB / "texts.toml").read_text(encoding="utf-8"))
SOURCES = "\n".join(path.read_text(encoding="utf-8") for path in [*TEMPLATES, *WEB.glob("*.py")])

JINJA = re.compile(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)
SPOKEN = re.compile(r'\b(?:alt|title|placeholder|aria-label|label|data-text)="([^"]*)"')
NAMED = re.compile(r"\bt\.([a-z_]+)(?:\.([a-z_]+)|\[)")


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.stem)
def test_a_template_holds_no_words_of_its_own(template: Path) -> None:
    plain = JINJA.sub("\0", template.read_text(encoding="utf-8"))
    spoken = " ".join(SPOKEN.findall(plain))
    outside = re.sub(r"<kbd>.*?</kbd>|<[^>]*>", " ", plain, flags=re.DOTALL)
    outside = re.sub(r"&[a-z]+;", " ", outside)
    assert re.findall(r"[^\W\d_]{2,}", f"{outside} {spoken}") == []


def test_every_text_that_is_named_is_there_and_every_other_is_used() -> None:
    named = set(NAMED.findall(SOURCES))
    sections = {section for section, name in named if not name}  # t.kind[name]: any of them
    sections |= {section for section, name in named if name == "get"}
    single = {(section, name) for section, name in named if name and name != "get"}
    there = {(section, name) for section, names in TEXTS.items() for name in names}
    assert {one for one in single if one[0] in TEXTS} - there == set()
    by_key = [name for call in re.findall(r"_refuse\((.+)\)", SOURCES) for name in re.findall(r"\"([a-z_]+)\"", call)]
    single |= {("access", name) for name in by_key} | {("when", name) for name in ("now", "minutes", "hours")}
    single |= {("when", name) for name in re.findall(r"\bt\.([a-z_]+)", (WEB / "dates.py").read_text())}
    assert {one for one in there if one[0] not in sections} - single == set()
