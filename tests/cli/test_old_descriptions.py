"""Memories whose description an earlier version made: "When it is about deploy, Fridays, standup"."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from memsheaf import Settings, Sheaf

Run = Callable[..., tuple[int, str, str]]

# As earlier versions wrote them: by `remember` or the chat, by rules from a conversation, and by an import.
TYPED = """\
---
name: We deploy on Fridays
description: When it is about deploy, Fridays, after, standup
type: project
created: 2026-10-02
updated: 2026-10-02
source: user
---
We deploy on Fridays, after the standup. Ask Kim first.
"""
LEARNED = """\
---
name: Prefers pnpm over npm
description: When it is about prefers, pnpm, npm
type: user
created: 2026-10-02
updated: 2026-10-02
source: extraction
conversation: "1f3a#2"
---
The user prefers pnpm over npm.
"""
GERMAN = """\
---
name: Wir deployen freitags
description: Wenn es um deployen, freitags, Standup geht
type: project
created: 2026-10-02
updated: 2026-10-02
source: user
---
Wir deployen freitags nach dem Standup.
"""
CHINESE = """\
---
name: 部署在每周五
description: 涉及部署时
type: project
created: 2026-10-02
updated: 2026-10-02
source: user
---
部署在每周五。
"""
JAPANESE = """\
---
name: デプロイは金曜日
description: デプロイのとき
type: project
created: 2026-10-02
updated: 2026-10-02
source: import:claude-code
---
デプロイは金曜日です。
"""
OF_AGENT = """\
---
name: Editor
description: When it is about vim
type: user
created: 2026-10-02
updated: 2026-10-02
source: agent
---
The user edits with vim.
"""
OF_MODEL = """\
---
name: Release checklist
description: When it is about preparing a release or answering questions on one
type: user
created: 2026-10-02
updated: 2026-10-02
source: extraction
---
The user keeps the checklist in the wiki.
"""
MADE = {
    "project_we-deploy-on-fridays.md": (TYPED, "We deploy on Fridays, after the standup"),
    "user_prefers-pnpm-over-npm.md": (LEARNED, "The user prefers pnpm over npm"),
    "project_wir-deployen-freitags.md": (GERMAN, "Wir deployen freitags nach dem Standup"),
    "project_部署在每周五.md": (CHINESE, "部署在每周五"),
    "project_デプロイは金曜日.md": (JAPANESE, "デプロイは金曜日です"),
}
WRITTEN = {
    "user_editor.md": (OF_AGENT, "When it is about vim"),
    "user_release-checklist.md": (
        OF_MODEL,
        "When it is about preparing a release or answering questions on one",
    ),
}


@pytest.fixture
def user(environment: dict[str, str]) -> Path:
    """The folder of the user, with files of an earlier version."""
    folder = Path(environment["MEMSHEAF_HOME"], "user")
    folder.mkdir(parents=True)
    for path, (text, _) in {**MADE, **WRITTEN}.items():
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def test_list_search_and_catalog_show_the_first_sentence_and_the_files_stay(user: Path, run: Run) -> None:
    before = {path.name: path.read_bytes() for path in user.glob("*_*.md")}
    listed = json.loads(run("list", "--json", "--scope", "user")[1])["memories"]

    expected = {path: shown for path, (_, shown) in {**MADE, **WRITTEN}.items()}
    assert {row["path"]: row["description"] for row in listed} == expected
    assert "The user prefers pnpm over npm" in run("search", "pnpm", "--scope", "user")[1]
    catalog = (user / "MEMORY.md").read_text(encoding="utf-8")
    assert "We deploy on Fridays, after the standup" in catalog
    assert catalog.count("When it is about") == len(WRITTEN)
    assert {path.name: path.read_bytes() for path in user.glob("*_*.md")} == before


def test_a_secret_in_the_text_does_not_get_into_the_catalog(user: Path, run: Run) -> None:
    text = TYPED.replace("We deploy on Fridays, after", "The password is Corr3ct-H0rse-Fake, after")
    (user / "project_we-deploy-on-fridays.md").write_text(text, encoding="utf-8")

    assert "Corr3ct" not in run("list", "--scope", "user")[1]
    assert "Corr3ct" not in (user / "MEMORY.md").read_text(encoding="utf-8")


def test_recall_finds_such_a_memory_by_the_words_of_its_sentence(
    user: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    settings = Settings(environment["MEMSHEAF_HOME"], environment["MEMSHEAF_CACHE"], embedder="none")
    with Sheaf.open(settings=settings, cwd=str(tmp_path / "work"), by="user") as layers:
        rows = layers.search("when do we deploy?")
        assert rows[0].row.description == "We deploy on Fridays, after the standup"
        assert not [
            row for row in layers.search("When it is about") if row.ref.path in {f"user:{path}" for path in MADE}
        ]
