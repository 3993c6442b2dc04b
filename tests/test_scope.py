from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cases import each_case
from memsheaf.config import Settings, load
from memsheaf.errors import ScopeRefused
from memsheaf.scope import NAMED_LAYERS, Places, Scope, find_repository, resolve
from memsheaf.sheaf import Sheaf
from memsheaf.state.trust import accept
from trees import git

CORPUS = os.path.join(os.path.dirname(__file__), "corpora", "traversal.json")
with open(CORPUS, encoding="utf-8") as file:
    PROJECTS: list[dict[str, Any]] = [case for case in json.load(file)["cases"] if case["surface"] == "project"]

PROJECT = Scope("project")


def repository(folder: Path) -> Path:
    """A repository with one commit."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "readme.txt").write_text("hello\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def root_of(cwd: Path, home: Path, scope: Scope = PROJECT, **more: Any) -> str:
    return resolve(scope, Places(str(home), str(cwd), **more))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "the home"


@pytest.mark.parametrize(
    "text", ["user", "project", "agent/researcher", "task/fix-login", "session/1f3a", "team/platform"]
)
def test_a_scope_reads_back_as_it_is_written(text: str) -> None:
    assert str(Scope.parse(text)) == text


@each_case(
    "text",
    ["", "/", "//", " ", "all", "*", "agent", "agent/", "/agent", "user/", "user/x", "project/", "project/x",
     "agent//x", "session/a/b", " user", "user ", "USER", "agents/x", "agent/\x00", "agent/x\n", "team/.",
     "team/..", "task/-x"],
)  # fmt: skip
def test_what_is_not_a_scope_is_refused_and_never_means_everything(text: str) -> None:
    with pytest.raises(ScopeRefused):
        Scope.parse(text)


@pytest.mark.parametrize("layer", NAMED_LAYERS)
@pytest.mark.parametrize("case", PROJECTS, ids=lambda case: f"{case['id']} {case['note']}")
def test_a_hostile_name_names_no_scope(case: dict[str, Any], layer: str, tmp_path: Path, home: Path) -> None:
    with pytest.raises(ScopeRefused):
        Scope.parse(f"{layer}/{case['input']}")
    with pytest.raises(ScopeRefused):
        root_of(tmp_path, home, Scope(layer, case["input"]))


@each_case("name", ["con", "NUL", "com1", "lpt9", "a" * 65, "é", "ａ", "a_b", "a.b", "a b", "a\\b", "~"])
def test_a_name_that_some_system_reads_otherwise_is_refused(name: str) -> None:
    with pytest.raises(ScopeRefused):
        Scope.parse(f"agent/{name}")


@pytest.mark.parametrize("layer", ["", "../../evil", "evil", "users", "session/..", "User"])
def test_a_scope_made_by_hand_may_not_invent_a_layer(layer: str, tmp_path: Path, home: Path) -> None:
    with pytest.raises(ScopeRefused):
        root_of(tmp_path, home, Scope(layer, "x"))
    with pytest.raises(ScopeRefused):
        root_of(tmp_path, home, Scope(layer))


def test_upper_and_lower_case_name_one_agent(tmp_path: Path, home: Path) -> None:
    assert Scope.parse("agent/Researcher") == Scope.parse("agent/researcher")
    assert root_of(tmp_path, home, Scope("agent", "Researcher")) == root_of(
        tmp_path, home, Scope("agent", "researcher")
    )


def test_every_scope_has_a_folder_of_its_own(tmp_path: Path, home: Path) -> None:
    scopes = ["user", "project", "agent/a", "agent/b", "team/a", "team/b", "task/a", "session/a"]

    roots = [root_of(tmp_path, home, Scope.parse(scope)) for scope in scopes]

    assert len(set(roots)) == len(roots)
    assert all(root.startswith(str(home) + os.sep) for root in roots)
    assert not home.exists(), "resolving creates nothing"


def test_worktrees_of_one_repository_share_a_project(tmp_path: Path, home: Path) -> None:
    main = repository(tmp_path / "my code" / "the app")
    git(main, "worktree", "add", "-q", str(tmp_path / "other place" / "a tree"), "-b", "side")
    git(main, "worktree", "add", "-q", str(main / "inside tree"), "-b", "inside")
    (tmp_path / "other place" / "a tree" / "deep down").mkdir()

    shared = root_of(main, home)

    assert root_of(tmp_path / "other place" / "a tree", home) == shared
    assert root_of(tmp_path / "other place" / "a tree" / "deep down", home) == shared
    assert root_of(main / "inside tree", home) == shared
    for layer in ("task", "session"):
        there, here = (
            root_of(place, home, Scope(layer, "x")) for place in (tmp_path / "other place" / "a tree", main)
        )
        assert there == here


def test_a_worktree_that_was_moved_still_shares(tmp_path: Path, home: Path) -> None:
    main = repository(tmp_path / "app")
    git(main, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "side")
    git(main, "worktree", "move", str(tmp_path / "tree"), str(tmp_path / "moved tree"))

    assert root_of(tmp_path / "moved tree", home) == root_of(main, home)


def test_worktrees_find_the_memory_that_the_main_checkout_keeps(tmp_path: Path, home: Path) -> None:
    main = repository(tmp_path / "app")
    (main / ".memory").mkdir()
    accept(str(home), str(main))
    git(main, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "side")

    assert root_of(tmp_path / "tree", home) == str(main / ".memory")


def test_worktrees_of_a_bare_repository_share_a_project(tmp_path: Path, home: Path) -> None:
    main = repository(tmp_path / "app")
    git(tmp_path, "clone", "-q", "--bare", str(main), str(tmp_path / "bare store.git"))
    for name in ("one", "two"):
        git(tmp_path / "bare store.git", "worktree", "add", "-q", str(tmp_path / name), "-b", name)

    assert root_of(tmp_path / "one", home) == root_of(tmp_path / "two", home)
    assert root_of(tmp_path / "one", home) != root_of(main, home)


def test_a_worktree_follows_its_repository_into_the_folder_the_user_chose(tmp_path: Path, home: Path) -> None:
    main = repository(tmp_path / "app")
    git(main, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "side")
    chosen = ((str(main), str(tmp_path / "notes")),)

    assert root_of(main, home, projects=chosen) == str(tmp_path / "notes")
    assert root_of(tmp_path / "tree", home, projects=chosen) == str(tmp_path / "notes")


def test_folders_that_are_not_one_repository_never_share(tmp_path: Path, home: Path) -> None:
    first, second = repository(tmp_path / "a" / "app"), repository(tmp_path / "b" / "app")
    git(tmp_path, "clone", "-q", str(first), str(tmp_path / "c"))
    for name in ("plain", "d/plain", "PLAIN"):
        (tmp_path / name).mkdir(parents=True)
    folders = [first, second, tmp_path / "c", tmp_path / "plain", tmp_path / "d" / "plain", tmp_path / "PLAIN"]

    assert len({root_of(folder, home) for folder in folders}) == len(folders)


def test_a_link_to_a_folder_is_that_folder(tmp_path: Path, home: Path) -> None:
    main = repository(tmp_path / "app")
    (tmp_path / "link").symlink_to(main)

    assert root_of(tmp_path / "link", home) == root_of(main, home)


def test_a_submodule_is_a_project_of_its_own(tmp_path: Path, home: Path) -> None:
    library = repository(tmp_path / "library")
    main = repository(tmp_path / "app")
    git(main, "submodule", "--quiet", "add", str(library), "vendor lib")
    (main / ".memory").mkdir()

    assert root_of(main / "vendor lib", home) not in {root_of(main, home), root_of(library, home)}
    assert find_repository(str(main / "vendor lib"))[0] == str(main / "vendor lib")


@pytest.mark.parametrize("target", [".git", ".git/worktrees/tree", ".git/worktrees", "."])
def test_a_git_file_that_points_at_a_foreign_repository_does_not_share_its_memory(
    target: str, tmp_path: Path, home: Path
) -> None:
    victim = repository(tmp_path / "victim")
    (victim / ".memory").mkdir()
    git(victim, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "side")
    forged = tmp_path / "forged"
    forged.mkdir()
    (forged / ".git").write_text(f"gitdir: {victim / target}\n")

    assert root_of(forged, home) != root_of(victim, home)
    assert not root_of(forged, home).startswith(str(victim))


def test_a_forged_worktree_folder_does_not_share_the_memory_it_names(tmp_path: Path, home: Path) -> None:
    victim = repository(tmp_path / "victim")
    (victim / ".memory").mkdir()
    for private in (tmp_path / "forged" / "private", tmp_path / "forged" / "worktrees" / "x"):
        private.mkdir(parents=True, exist_ok=True)
        (private / "commondir").write_text(f"{victim / '.git'}\n")
        (private / "gitdir").write_text(f"{tmp_path / 'forged' / '.git'}\n")
        (tmp_path / "forged" / ".git").write_text(f"gitdir: {private}\n")

        assert root_of(tmp_path / "forged", home) != root_of(victim, home)


@pytest.mark.parametrize("content", [b"", b"gitdir: \n", b"gitdir: \0\n", b"\xff\xfe", b"gitdir: ../.git\n" * 9000])
def test_a_git_file_that_says_nothing_useful_is_a_project_of_its_own(
    content: bytes, tmp_path: Path, home: Path
) -> None:
    repository(tmp_path / "app")
    (tmp_path / "app" / "odd").mkdir()
    (tmp_path / "app" / "odd" / ".git").write_bytes(content)

    assert root_of(tmp_path / "app" / "odd", home) != root_of(tmp_path / "app", home)


@pytest.mark.parametrize("link", [".memory", ".memory/tasks", ".memory/tasks/one"])
def test_a_link_that_came_with_a_repository_is_refused(link: str, tmp_path: Path, home: Path) -> None:
    app = repository(tmp_path / "app")
    accept(str(home), str(app))
    private = tmp_path / "private keys"
    private.mkdir()
    (app / link).parent.mkdir(parents=True, exist_ok=True)
    (app / link).symlink_to(private, target_is_directory=True)

    with pytest.raises(ScopeRefused):
        root_of(app, home, Scope("task", "one"))
    with pytest.raises(ScopeRefused):
        Sheaf.open(
            "task/one",
            settings=Settings(home=str(home), cache=str(tmp_path / "cache"), embedder="none"),
            cwd=str(app),
        )
    assert not any(private.iterdir())


def test_a_file_or_a_dead_link_in_the_place_of_memory_is_refused(tmp_path: Path, home: Path) -> None:
    app = repository(tmp_path / "app")
    accept(str(home), str(app))
    (app / ".memory").write_text("not a folder")
    with pytest.raises(ScopeRefused):
        root_of(app, home)

    (app / ".memory").unlink()
    (app / ".memory").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ScopeRefused):
        root_of(app, home)


def test_settings_inside_a_repository_are_not_read(tmp_path: Path, home: Path) -> None:
    app = repository(tmp_path / "app")
    evil = f'[projects]\n"{app}" = "{tmp_path / "private keys"}"\n'
    for place in ("config.toml", "memsheaf.toml", ".memsheaf/config.toml", ".memory/config.toml", ".memsheaf.toml"):
        (app / place).parent.mkdir(exist_ok=True)
        (app / place).write_text(evil)
    settings = load({"MEMSHEAF_HOME": str(home), "HOME": str(tmp_path)})
    accept(str(home), str(app))

    assert resolve(PROJECT, settings.places(str(app))) == str(app / ".memory")


def test_the_caller_comes_before_the_user_who_comes_before_the_repository_which_comes_before_home(
    tmp_path: Path, home: Path
) -> None:
    app = repository(tmp_path / "app")
    (app / ".memory").mkdir()
    accept(str(home), str(app))
    (home / "config.toml").write_text(f'[projects]\n"{app}" = "{tmp_path / "configured"}"\n')
    environment = {"MEMSHEAF_HOME": str(home), "HOME": str(tmp_path), "MEMSHEAF_PROJECT": str(tmp_path / "chosen")}

    def found() -> str:
        return resolve(PROJECT, load(environment).places(str(app)))

    assert found() == str(tmp_path / "chosen")
    del environment["MEMSHEAF_PROJECT"]
    assert found() == str(tmp_path / "configured")
    (home / "config.toml").unlink()
    assert found() == str(app / ".memory")
    (app / ".memory").rmdir()
    assert found().startswith(str(home / "projects" / "app-"))


def test_a_folder_chosen_by_the_user_holds_for_what_is_below_it_and_nothing_beside_it(
    tmp_path: Path, home: Path
) -> None:
    for name in ("code/app/src", "code/app-evil"):
        (tmp_path / name).mkdir(parents=True)
    chosen = ((str(tmp_path / "code" / "app"), str(tmp_path / "notes")),)

    assert root_of(tmp_path / "code" / "app" / "src", home, projects=chosen) == str(tmp_path / "notes")
    assert root_of(tmp_path / "code" / "app-evil", home, projects=chosen) != str(tmp_path / "notes")
