"""What was typed is not lost when a file changes its shape meanwhile; no text of a memory takes long."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from memsheaf import Sheaf
from memsheaf.web.markdown import render_markdown
from memsheaf.web.text_changes import compare_texts
from web.conftest import Serving
from web.test_access import settings_of
from web.web_site import csrf_of


@pytest.mark.parametrize("was_whole", [False, True])
def test_what_was_typed_is_kept_when_a_header_is_broken_or_mended_meanwhile(
    serving: Serving, tmp_path: Path, was_whole: bool
) -> None:
    home = tmp_path / "home"
    with Sheaf.open("user", settings=settings_of(home), by="user") as sheaf:
        path = sheaf.write("Harbour", "when it opens", "user", "The harbour opens at eight.").path
        file = Path(sheaf.root) / path
    sound = file.read_text("utf-8")
    broken = sound.replace("type: user", "type: [")
    file.write_text(broken if was_whole else sound, "utf-8")
    site = serving()
    token = csrf_of(site)
    version = re.findall(r'name="version" value="(.*?)"', site.ask("GET", f"/memory/user/{path}/edit").text)[0]
    file.write_text(sound if was_whole else broken, "utf-8")
    fields = {"name": "Harbour", "description": "when it opens", "kind": "user", "body": "It opens at ten."}
    whole = {"text": sound.replace("The harbour opens at eight.", "It opens at ten.")}
    typed = {"csrf": token, "version": version, **(whole if was_whole else fields)}
    conflict = site.ask("POST", f"/memory/user/{path}/edit", typed)
    assert conflict.status == 409
    shown = dict(re.findall(r'<input[^>]* name="(\w+)" value="(.*?)"', conflict.text.partition("<main")[2]))
    areas = dict(re.findall(r'<textarea[^>]* name="(\w+)"[^>]*>\n(.*?)</textarea>', conflict.text, re.DOTALL))
    answer = site.ask(
        "POST", f"/memory/user/{path}/edit", {name: unescape(value) for name, value in (shown | areas).items()}
    )
    assert answer.status == 303, answer.text
    with Sheaf.open("user", settings=settings_of(home), by="user") as sheaf:
        memory = sheaf.read(path)
    assert (memory.state, memory.name, memory.body.strip()) == ("ok", "Harbour", "It opens at ten.")


def test_no_text_of_a_memory_takes_long() -> None:
    assert render_markdown("![" * 100_000).startswith("<pre")
    assert compare_texts("\n" * 3_900, "\n" * 250_000)[1][0].is_changed
