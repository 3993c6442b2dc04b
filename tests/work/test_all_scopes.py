"""Every scope of a person by its key, each root opened once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memsheaf import Settings, Sheaf
from memsheaf.errors import NotFound
from memsheaf.scope import KnownScope, private_root
from memsheaf.sheaf import AllScopes
from memsheaf.state.trust import accept

FACT = ("Deploys on Friday", "when we deploy", "project", "Deploys happen on Friday mornings.")


def repository(folder: Path) -> Path:
    (folder / ".git").mkdir(parents=True)
    return folder


def save(settings: Settings, cwd: Path, *scopes: str) -> None:
    with Sheaf.open(settings=settings, cwd=str(cwd), by="user") as layers:
        for scope in scopes:
            layers.only(scope).write(*FACT)


def test_every_scope_has_a_key_and_keys_lead_back(settings: Settings, tmp_path: Path) -> None:
    here, other, kept = (repository(tmp_path / name) for name in ("here", "other", "kept"))
    save(settings, here, "user", "project", "task/login", "agent/writer", "team/core")
    save(settings, other, "project", "session/one")
    (kept / ".memory").mkdir()
    accept(settings.home, str(kept))
    save(settings, kept, "project")
    there = "project~" + Path(private_root(settings.home, str(other / ".git"))).name

    with AllScopes(settings, str(here)) as scopes:
        found = {one.key: one for one in scopes.list()}
        shared = next(key for key in found if key.startswith("project~kept-"))
        keys = ["user", "project", "task~login", there, f"{there}~session~one", shared, "agent~writer", "team~core"]
        assert list(found) == keys
        assert (found[there].title, found[shared].title) == ("other", "kept")
        root = found[there].root
        session = KnownScope(
            f"{there}~session~one", "other: session/one", "session", f"{root}/sessions/one", project=root
        )
        assert found[session.key] == session
        assert [scopes.find(key) for key in keys] == list(found.values())
        assert [scopes.sheaf(scope).root for scope in found.values()] == [scope.root for scope in found.values()]
        assert all(scopes.sheaf(scope).list() for scope in found.values())
        assert len(scopes.by_root) == len(keys)
        own = scopes.sheaf(found["user"]).own
        assert scopes.around(found[there]).only("user").own is own is scopes.around(found["project"]).only("user").own
        assert scopes.around(found["task~login"]).scopes() == ["task/login", "project", "user"]
        trees = [scopes.tree(found[key]) for key in ("task~login", shared, "user")]
        assert trees == [str(here), str(kept), ""]
        AllScopes(settings, str(other)).close()
        assert scopes.tree(found[there]) == str(other)
        outside = f"project~{Path(found['project'].root).name}"
        assert scopes.find(outside) == found["project"]
        assert scopes.find(f"{outside}~task~login") == found["task~login"]
        (kept / ".memory").rename(kept / "gone")
        for key in ("", "agent~nobody", "project~", "task~../x", "project~x~y", "TASK~login", "task~Login", shared):
            with pytest.raises(NotFound):
                scopes.find(key)


def test_projects_of_one_name_are_told_apart(settings: Settings, tmp_path: Path) -> None:
    one, two = (repository(tmp_path / name / "app") for name in ("a", "b"))
    save(settings, one, "project")
    save(settings, two, "project")
    AllScopes(settings, str(two)).close()
    with AllScopes(settings, str(one)) as scopes:
        assert [scope.title for scope in scopes.list()] == ["user", f"app ({one})", f"app ({two})"]


def test_links_in_a_checkout_show_no_scopes_of_others(settings: Settings, tmp_path: Path) -> None:
    here = repository(tmp_path / "here")
    (here / ".memory").mkdir()
    accept(settings.home, str(here))
    (tmp_path / "elsewhere" / "secret").mkdir(parents=True)
    (here / ".memory" / "tasks").symlink_to(tmp_path / "elsewhere")
    with AllScopes(settings, str(here)) as scopes:
        assert [scope.key for scope in scopes.list()] == ["user", "project"]
        with pytest.raises(NotFound):
            scopes.find("task~secret")


def test_threads_open_each_root_once(settings: Settings, work: Path) -> None:
    save(settings, work, "user", "project", "agent/writer")
    with AllScopes(settings, str(work)) as scopes, ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(scopes.sheaf, scopes.list() * 8))
        assert len({id(sheaf.own) for sheaf in opened}) == 3
        assert all(len(rows) == 1 for rows in pool.map(lambda sheaf: sheaf.list(), opened))


def test_a_home_that_is_no_folder_has_scopes_without_names(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file", "utf-8")
    with AllScopes(
        Settings(str(tmp_path / "home"), str(tmp_path / "cache")), str(tmp_path), read_only=True
    ) as scopes:
        assert [one.key for one in scopes.list()] == ["user", "project"]


def test_settings_without_a_state_directory_leave_nothing_in_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, other, elsewhere = repository(tmp_path / "here"), repository(tmp_path / "other"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    bare = Settings(str(tmp_path / "home"), str(tmp_path / "cache"), embedder="none")

    for tree in (here, other):
        save(bare, tree, "project")
        AllScopes(bare, str(tree)).close()
    with AllScopes(bare, str(here)) as scopes:
        there = next(one for one in scopes.list() if one.title == "other")
        assert scopes.tree(there) == str(other)

    assert list(elsewhere.iterdir()) == []
