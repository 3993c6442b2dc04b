from __future__ import annotations

import os
from pathlib import Path

import pytest

from memsheaf.config import POLICIES, Settings, load
from memsheaf.errors import BadSettings, Changed, Refused
from memsheaf.scope import Scope, resolve
from memsheaf.work.settings_file import SettingsFile


def loaded(tmp_path: Path, toml: str | bytes = "", **environment: str) -> Settings:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_bytes(toml.encode() if isinstance(toml, str) else toml)
    return load({"MEMSHEAF_HOME": str(home), "HOME": str(tmp_path), **environment})


def test_without_a_file_or_a_variable_everything_has_a_default(tmp_path: Path) -> None:
    settings = load({"HOME": str(tmp_path)}, platform="linux")

    home, cache = str(tmp_path / ".memsheaf"), str(tmp_path / ".cache" / "memsheaf")
    assert settings == Settings(home, cache, state=str(tmp_path / ".local" / "state" / "memsheaf"))
    assert (settings.scope, settings.retention_days, settings.tools) == ("project", 30.0, True)
    assert not any(tmp_path.iterdir()), "reading settings creates nothing"


def test_the_file_is_the_users_choice(tmp_path: Path) -> None:
    settings = loaded(tmp_path, 'scope = "agent/me"\nretention_days = 7.5\ntools = false\n[projects]\n"/a" = "/b"\n')

    assert (settings.scope, settings.retention_days, settings.tools) == ("agent/me", 7.5, False)
    assert settings.projects == (("/a", "/b"),)


def test_the_environment_comes_before_the_file(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        'scope = "user"\nretention_days = 7\ntools = true\n',
        MEMSHEAF_SCOPE="team/x",
        MEMSHEAF_RETENTION_DAYS="0",
        MEMSHEAF_TOOLS="off",
        MEMSHEAF_CACHE="/somewhere/else",
        MEMSHEAF_PROJECT="/chosen",
    )

    assert (settings.scope, settings.retention_days, settings.tools) == ("team/x", 0.0, False)
    assert (settings.cache, settings.project) == ("/somewhere/else", "/chosen")


@pytest.mark.parametrize(("platform", "cache"), [
    ("linux", ".cache/memsheaf"), ("darwin", "Library/Caches/memsheaf"), ("win32", "AppData/Local/memsheaf/Cache"),
])  # fmt: skip
def test_the_cache_is_where_the_platform_keeps_caches(platform: str, cache: str, tmp_path: Path) -> None:
    assert load({"HOME": str(tmp_path)}, platform=platform).cache == os.path.join(str(tmp_path), *cache.split("/"))


def test_cache_and_state_are_in_a_home_that_is_named_unless_they_are_named_themselves(tmp_path: Path) -> None:
    beside = {"XDG_CACHE_HOME": "/elsewhere", "XDG_STATE_HOME": "/elsewhere"}

    settings = loaded(tmp_path, **beside)
    named = loaded(tmp_path, **beside, MEMSHEAF_CACHE="/c", MEMSHEAF_STATE="/s")

    home = str(tmp_path / "home")
    assert (settings.cache, settings.state) == (os.path.join(home, "cache"), os.path.join(home, "state"))
    assert (named.cache, named.state) == ("/c", "/s")


@pytest.mark.parametrize(
    "toml",
    [
        "scope = ", "scope = 3", 'scope = ""', "retention_days = -1", "retention_days = nan", "retention_days = inf",
        'retention_days = "soon"', 'tools = "perhaps"', "tools = 2", "projects = 3", "[projects]\na = 3",
        "colour = 'red'", "embedder = 'none'", "[embedder]\nname = 3", "[embedder]\nname = ''",
        "[embedder]\nmodel = 'x'", "[embedder]\nurl = ['x']",
        "[[embedder]]\nname = 'none'", "model = 'x'",
        "scope = 'nobody'", "[learning.scopes]\nnobody = 'auto'", "[spend]\ntokens_per_day = 1.5",
        "[chat]\ncontext_tokens = 0", "[teams]\na = 'core'", "[projects]\na = '/b'",
        "[spend]\ntokens_per_day = 2026-11-15",
        "[model]\nname = 3", "[model]\nname = 'openai:m'\nkey = 'sk-123'", "learning = 3",
        "[learning]\npolicy = 'often'", "teams = 3", "[teams]\n'/a' = 3", "[teams]\n'/a' = '../user'", "hub = 3",
        "[hub]\noffline = 'maybe'", "[hub]\nstart_seconds = -1", "[hub]\nurl = 'x'",
        "[learning]\npolicies = 3", "[learning]\nscopes = 3", "[learning.scopes]\nuser = 'often'", "spend = 3",
        "[spend]\ntokens_per_day = -1", "[spend]\ntokens_per_day = 'many'", "[spend]\ntokens_per_day = true",
        "[spend]\ntokens = 3", "dream = true", "[dream]\nenabled = 'perhaps'", "[dream]\nhours = inf",
        f"[dream]\nhours = {10**400}",
        b'scope = "\xff"', b"\xff\xfe", b"\0",
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_used_is_named_instead_of_guessed(toml: str | bytes, tmp_path: Path) -> None:
    with pytest.raises(BadSettings):
        loaded(tmp_path, toml)


def test_an_unknown_setting_is_told_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match=r"retension_days.*retention_days"):
        loaded(tmp_path, "retension_days = 3")


@pytest.mark.parametrize(
    "name",
    ["MEMSHEAF_SCOPE", "MEMSHEAF_RETENTION_DAYS", "MEMSHEAF_TOOLS", "MEMSHEAF_CACHE", "MEMSHEAF_PROJECT",
     "MEMSHEAF_EMBEDDER", "MEMSHEAF_EMBEDDER_URL", "MEMSHEAF_EMBEDDER_KEY", "MEMSHEAF_STATE", "MEMSHEAF_MODEL",
     "MEMSHEAF_MODEL_URL", "MEMSHEAF_MODEL_KEY", "MEMSHEAF_POLICY"],
)  # fmt: skip
def test_an_empty_variable_counts_as_unset(name: str, tmp_path: Path) -> None:
    assert loaded(tmp_path, "", **{name: ""}) == loaded(tmp_path)


def embedder(settings: Settings) -> tuple[str, str, str]:
    return settings.embedder, settings.embedder_url, settings.embedder_key


TABLE = '[embedder]\nname = "openai-compatible:m"\nurl = "https://host.example/v1"\nkey = "HOST_KEY"\n'


def test_an_embedder_is_chosen_in_the_file(tmp_path: Path) -> None:
    assert embedder(loaded(tmp_path)) == ("auto", "", "")
    assert embedder(loaded(tmp_path, "[embedder]")) == ("auto", "", "")
    assert embedder(loaded(tmp_path, '[embedder]\nname = "none"')) == ("none", "", "")
    assert embedder(loaded(tmp_path, TABLE)) == ("openai-compatible:m", "https://host.example/v1", "HOST_KEY")


def test_an_embedder_named_in_the_environment_takes_neither_address_nor_key_from_the_file(tmp_path: Path) -> None:
    assert embedder(loaded(tmp_path, TABLE, MEMSHEAF_EMBEDDER="ollama:m")) == ("ollama:m", "", "")
    chosen = loaded(
        tmp_path, TABLE, MEMSHEAF_EMBEDDER="openai:m", MEMSHEAF_EMBEDDER_URL="https://a/v1", MEMSHEAF_EMBEDDER_KEY="A"
    )
    assert embedder(chosen) == ("openai:m", "https://a/v1", "A")


def test_address_and_key_in_the_environment_come_before_those_in_the_file(tmp_path: Path) -> None:
    settings = loaded(tmp_path, TABLE, MEMSHEAF_EMBEDDER_URL="https://a/v1", MEMSHEAF_EMBEDDER_KEY="A")
    assert embedder(settings) == ("openai-compatible:m", "https://a/v1", "A")


@pytest.mark.parametrize(
    "key",
    ["sk-proj-4f9a0c77e1", "AIzaSyD4f9a0c77e1", "jina_4f9a0c77e1", "4F9A0C77", "A B", "A=B", "$A", "A" * 65, "Ä"],
)
def test_a_key_in_place_of_its_variable_is_refused_and_not_shown(key: str, tmp_path: Path) -> None:
    for toml, environment in (
        (f'[embedder]\nname = "openai:m"\nkey = "{key}"', {}),
        ("", {"MEMSHEAF_EMBEDDER": "openai:m", "MEMSHEAF_EMBEDDER_KEY": key}),
    ):
        with pytest.raises(BadSettings, match="the name of an environment variable") as caught:
            loaded(tmp_path, toml, **environment)
        assert key not in f"{caught.value} {caught.value.hint}"


def test_a_file_that_cannot_be_read_is_an_error_and_not_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "config.toml").mkdir()

    with pytest.raises(BadSettings):
        load({"MEMSHEAF_HOME": str(tmp_path), "HOME": str(tmp_path)})


def test_the_most_specific_folder_decides_however_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "code" / "app").mkdir(parents=True)
    wide, narrow = tmp_path / "wide", tmp_path / "narrow"

    settings = loaded(tmp_path, f'[projects]\n"{tmp_path}/code" = "{wide}"\n"~/code/app" = "{narrow}"\n')

    assert resolve(Scope("project"), settings.places(str(tmp_path / "code" / "app"))) == str(narrow)
    assert resolve(Scope("project"), settings.places(str(tmp_path / "code"))) == str(wide)


def test_how_a_scope_learns_is_chosen_by_scope_by_layer_or_for_all(tmp_path: Path) -> None:
    def policy(scope: str, settings: Settings) -> str:
        return settings.policy_of(Scope.parse(scope))

    usual = loaded(tmp_path)
    assert [policy(scope, usual) for scope in ("user", "project", "team/a")] == ["auto", "auto", "suggest"]
    scopes = '[learning.scopes]\nuser = "suggest"\n"agent/me" = "auto"\nagent = "suggest"\n'
    chosen = loaded(tmp_path, f'[learning]\npolicy = "manual"\n{scopes}')
    assert [policy(scope, chosen) for scope in ("user", "project", "agent/me", "agent/you", "team/a")] == [
        "suggest", "manual", "auto", "suggest", "manual",
    ]  # fmt: skip
    named = loaded(tmp_path, '[learning.scopes]\n"team/a" = "auto"\n')
    assert policy("team/a", named) == "auto"
    assert (
        policy("user", loaded(tmp_path, '[learning.scopes]\nuser = "auto"\n', MEMSHEAF_POLICY="manual")) == "manual"
    )


def test_caps_and_gates_are_numbers_of_the_users(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path, "[spend]\ntokens_per_day = 5000\nseconds_per_run = 12\n[dream]\nenabled = false\nhours = 1\n"
    )

    assert (settings.spend.tokens_per_day, settings.spend.seconds_per_run) == (5_000, 12.0)
    assert (settings.dream.enabled, settings.dream.hours, settings.dream.files) == (False, 1.0, 10)


@pytest.mark.parametrize(
    ("platform", "place"),
    [("linux", ".local/state/memsheaf"), ("darwin", "Library/Application Support/memsheaf/State"),
     ("win32", "AppData/Local/memsheaf/State")],
)  # fmt: skip
def test_what_waits_is_kept_where_the_system_keeps_state(platform: str, place: str, tmp_path: Path) -> None:
    settings = load({"HOME": str(tmp_path)}, platform=platform)

    assert Path(settings.state) == tmp_path / place


def test_settings_are_changed_together_against_the_version_that_was_read(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('tools = true  # for agents\n\n[learning]\n# why\npolicy = "auto"\n')
    file = SettingsFile({"MEMSHEAF_HOME": str(tmp_path), "MEMSHEAF_RETENTION_DAYS": "5"})
    known = {one.key: one for one in file.all()}
    assert known["learning.policy"] == ("learning.policy", "auto", "auto", "config.toml", True, POLICIES)
    assert (known["retention_days"].origin, known["retention_days"].editable) == ("MEMSHEAF_RETENTION_DAYS", False)
    closed = [key for key, one in known.items() if not one.editable and key != "retention_days"]
    assert closed == ["embedder.url", "embedder.key", "model.name", "model.url", "model.key"]

    read = file.version
    file.set_from_page({"learning.policy": "suggest", "tools": "false", "dream.files": "20"}, expect=read)
    wanted = 'tools = false  # for agents\n\n[learning]\n# why\npolicy = "suggest"\n\n[dream]\nfiles = 20\n'
    assert path.read_text() == wanted
    with pytest.raises(Changed):
        file.set_from_page({"tools": "true"}, expect=read)
    with pytest.raises(BadSettings) as refused:
        file.set_from_page({"tools": "true", "dream.files": "many"}, expect=file.version)
    assert (refused.value.key, str(tmp_path) in refused.value.reason) == ("dream.files", False)
    for key, value in (("embedder.name", "openai:x"), ("model.name", "claude"), ("model.url", "http://x.test")):
        with pytest.raises(Refused):
            file.set_from_page({key: value}, expect=file.version)
    assert path.read_text() == wanted, "all or nothing"
