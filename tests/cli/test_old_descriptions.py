"""Memories whose description an earlier version made: "When it is about deploy, Fridays, standup"."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from memsheaf import Settings, Sheaf

Run = Callable[..., tuple[int, str, str]]


def earlier(name: str, description: str, body: str, *, kind: str = "project", source: str = "user") -> str:
    """A file as earlier versions wrote it."""
    dates = "created: 2026-10-02\nupdated: 2026-10-02\n"
    return f"---\nname: {name}\ndescription: {description}\ntype: {kind}\n{dates}source: {source}\n---\n{body}\n"


TYPED = earlier(
    "We deploy on Fridays",
    "When it is about deploy, Fridays, after, standup",
    "We deploy on Fridays, after the standup. Ask Kim first.",
)
PNPM = "The user prefers pnpm over npm"
LEARNED = earlier("Pnpm", "When it is about prefers, pnpm, npm", f"{PNPM}.", kind="user", source="extraction")
FREITAGS = "Wir deployen freitags nach dem Standup"
JAPANESE = earlier("デプロイは金曜日", "デプロイのとき", "デプロイは金曜日です。", source="import:claude-code")
OF_AGENT = earlier("Editor", "When it is about vim", "The user edits with vim.", kind="user", source="agent")
BY_HAND = "When it is about preparing a release or answering questions on one"
OF_MODEL = earlier(
    "Release checklist", BY_HAND, "The user keeps the checklist in the wiki.", kind="user", source="extraction"
)
MADE = {
    "project_we-deploy-on-fridays.md": (TYPED, "We deploy on Fridays, after the standup"),
    "user_prefers-pnpm-over-npm.md": (LEARNED, PNPM),
    "project_freitags.md": (
        earlier("Freitags", "Wenn es um deployen, freitags, Standup geht", f"{FREITAGS}."),
        FREITAGS,
    ),
    "project_部署在每周五.md": (earlier("部署在每周五", "涉及部署时", "部署在每周五。"), "部署在每周五"),
    "project_デプロイは金曜日.md": (JAPANESE, "デプロイは金曜日です"),
}
WRITTEN = {
    "user_editor.md": (OF_AGENT, "When it is about vim"),
    "user_release-checklist.md": (OF_MODEL, BY_HAND),
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
