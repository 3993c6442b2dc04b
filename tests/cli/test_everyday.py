"""The first hour: save as one would say it, find by a part of the name, correct, forget many, take it back."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]


def saved(run: Run, *words: str) -> dict[str, str]:
    code, out, err = run("remember", *words, "--json")
    assert code == 0, err
    found: dict[str, str] = json.loads(out)["memories"][0]
    return found


def test_a_sentence_becomes_a_memory_where_it_belongs(run: Run) -> None:
    code, out, err = run("remember", "I", "prefer", "pnpm")
    assert (code, err) == (0, "")
    assert out == (
        "Saved user:user_pnpm.md\n  I prefer pnpm\n"
        "It is remembered for you, in every project; `memsheaf undo` takes it back.\n"
    )
    rule = saved(run, "We deploy on Fridays after the standup")
    assert (rule["scope"], rule["type"], bool(rule["replaced"])) == ("project", "project", False)
    assert run("remember", "-", stdin="Die Tests brauchen Redis.")[0] == 0
    assert saved(run, "The API docs are in the wiki", "--type", "reference")["type"] == "reference"
    assert len(run("list", "--paths")[1].split()) == 4


ABOUT_THE_PERSON = (
    "call me by my first name",
    "keep your answers short",
    "I want small commits",
    "no emojis when you talk to me",
    "never add a dependency without asking me",
    "kids' school starts at 8:15",
    "for all my projects I use pnpm, never npm",
    "my dentist is Dr Halloran on Mill Lane",
    "Antworte mir bitte immer auf Deutsch",
)
ABOUT_THE_WORK = (
    "staging db wiped every Sunday",
    "in this repo the migrations run by hand",
    "Priya owns the billing service",
    "never edit the generated files under gen/ by hand",
    "our API never returns null",
    "Die Tests brauchen Redis.",
)


def test_every_project_knows_what_is_about_the_person_and_only_one_what_is_about_its_work(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scopes = {text: saved(run, text)["scope"] for text in (*ABOUT_THE_PERSON, *ABOUT_THE_WORK)}
    assert scopes == dict.fromkeys(ABOUT_THE_PERSON, "user") | dict.fromkeys(ABOUT_THE_WORK, "project")
    there = json.loads(run("list", "--json")[1])["memories"]

    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    elsewhere = json.loads(run("list", "--json")[1])["memories"]

    assert (len(there), len(elsewhere)) == (len(scopes), len(ABOUT_THE_PERSON))


def test_a_scope_that_is_named_wins_over_the_text(run: Run) -> None:
    about = ("--description", "d", "--type", "feedback", "--json")
    guessed = json.loads(run("add", "Short", "Keep your answers short.", *about)[1])
    named = json.loads(run("add", "Brief", "Be brief with me in chat.", *about, "--scope", "project")[1])

    assert [guessed["path"], named["path"]] == ["user:feedback_short.md", "feedback_brief.md"]


def test_a_fact_of_the_persons_life_is_of_the_type_user(run: Run) -> None:
    fact = saved(run, "kids' school starts at 8:15")

    assert (fact["scope"], fact["type"]) == ("user", "user")


def test_a_correction_changes_the_memory_and_shows_both_texts(run: Run) -> None:
    old = saved(run, "We deploy on Fridays after the standup")
    code, out, _ = run("remember", "We now deploy on Mondays after the standup")
    assert code == 0
    assert "fridays" in old["path"]
    new = "Updated project_deploy-fridays-standup.md"
    assert out.startswith(f"{new}\n  - We deploy on Fridays after the standup\n  + We now deploy")
    assert run("undo")[0] == 0
    assert "Fridays" in run("show", old["path"])[1]


def test_the_same_again_changes_nothing_and_is_named(run: Run) -> None:
    saved(run, "I prefer pnpm")
    before = run("log")
    assert run("remember", "I prefer pnpm") == (
        0,
        "user:user_pnpm.md says that already; nothing was changed.\n",
        "",
    )
    assert run("log") == before


def test_a_memory_is_found_by_name_by_a_part_of_it_and_by_file(run: Run) -> None:
    saved(run, "I prefer pnpm")
    saved(run, "We deploy on Fridays after the standup")
    for given in ("I prefer pnpm", "pnpm", "user_pnpm.md", "user:user_pnpm.md", "PNPM"):
        assert "I prefer pnpm" in run("show", given)[1], given
        assert run("log", given)[0] == run("blame", given)[0] == run("diff", given)[0] == 0, given


def test_where_several_could_be_meant_they_are_named_and_nothing_is_done(run: Run) -> None:
    saved(run, "I prefer pnpm")
    saved(run, "I prefer tabs")
    code, out, err = run("forget", "prefer")
    assert (code, out) == (1, "")
    assert "could be one of 2 memories" in err
    assert "user:user_pnpm.md" in err
    assert "user:user_tabs.md" in err
    code, _, err = run("forget", "nothing of that kind")
    assert code == 1
    assert "no memory at" in err
    assert len(run("list", "--paths")[1].split()) == 2


def test_a_path_that_leads_elsewhere_is_refused_as_one(run: Run) -> None:
    saved(run, "I prefer pnpm")
    assert "is not allowed" in run("show", "../../etc/passwd")[2]


def test_many_are_forgotten_after_a_preview_and_come_back_with_one_undo(run: Run) -> None:
    for said in ("I prefer pnpm", "I prefer tabs", "We deploy on Fridays after the standup"):
        saved(run, said)
    before = run("list", "--paths")[1]

    code, out, err = run("forget", "--all", "--type", "user", "--dry-run")
    assert (code, out.count("user:")) == (0, 2)
    assert "2 memories would be forgotten" in err
    assert run("forget", "--all", "--matching", "PNPM prefer", "--dry-run")[1].count("\n") == 1
    assert run("forget", "--all", stdin="n\n", screen=True)[0] == 1
    assert run("list", "--paths")[1] == before

    code, out, _ = run("forget", "--all", "--yes")
    assert code == 0
    assert "Forgot 3 memories" in out
    assert run("list", "--paths")[1] == ""
    assert run("undo")[0] == 0
    assert run("list", "--paths")[1] == before


def test_what_happened_to_project_and_user_is_one_story(run: Run) -> None:
    saved(run, "I prefer pnpm")
    saved(run, "We deploy on Fridays after the standup")
    out = run("log")[1]
    assert out.index("project_deploy") < out.index("user:user_pnpm.md")
    commits = json.loads(run("log", "--limit", "1", "--json")[1])
    assert (len(commits["commits"]), commits["more"]) == (1, True)


def test_a_large_commit_is_folded_in_the_log(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(15):
        text = f"---\nname: Fact {number}\ndescription: About {number}\ntype: project\n---\nHouse {number}.\n"
        (source / f"project_fact-{number}.md").write_text(text)
    assert run("import", str(source), "--anyway")[0] == 0
    folded, full = run("log")[1], run("log", "--full")[1]
    assert folded.count("project_fact") == 10
    assert "and 5 more (`memsheaf log --full` lists all)" in folded
    assert full.count("project_fact") == 15


def test_on_a_terminal_recall_is_laid_out_to_be_read(run: Run) -> None:
    saved(run, "I prefer pnpm")
    envelope = run("recall", "pnpm or npm?")[1]
    assert envelope.startswith("<memories-")
    assert run("recall", "-", stdin="pnpm or npm?")[1].startswith("<memories-")
    code, out, _ = run("recall", "pnpm or npm?", screen=True)
    assert code == 0
    assert "<memor" not in out
    assert "user:user_pnpm.md" in out
    assert "  I prefer pnpm" in out


def test_a_group_alone_shows_how_things_stand_and_its_actions(run: Run) -> None:
    for name, said in (
        ("task", "no tasks"),
        ("session", "No session is open"),
        ("notes", "there are no notes"),
    ):
        code, out, err = run(name, screen=True)
        assert code == 0
        assert said in out + err
        assert "actions: " in err


def test_settings_are_shown_set_and_unset_line_by_line(run: Run, environment: dict[str, str]) -> None:
    file = Path(environment["MEMSHEAF_HOME"], "config.toml")
    file.parent.mkdir()
    file.write_text('scope = "project"  # mine\n\n[learning]  # how\n# a remark\n')
    assert run("config", "set", "policy", "suggest")[0] == 0
    assert run("config", "set", "retention_days", "12.5")[0] == 0
    assert run("config", "set", "learning.scopes.user", "manual")[0] == 0
    assert run("config", "set", "scope", "user")[1] == 'scope = "user"\n'
    assert file.read_text() == (
        'retention_days = 12.5\nscope = "user"  # mine\n\n[learning]  # how\npolicy = "suggest"\n# a remark\n\n'
        '[learning.scopes]\nuser = "manual"\n'
    )
    found = {row["key"]: row for row in json.loads(run("config", "--json")[1])["settings"]}
    assert list(found["learning.policy"].values()) == ["learning.policy", "suggest", "config.toml", "auto"]
    assert found["tools"]["from"] == "default"

    before = file.read_text()
    assert run("config", "set", "learning.policy", "bogus")[0] == 1
    assert file.read_text() == before
    assert run("config", "unset", "policy")[1] == 'learning.policy = "auto"\n'
    code, _, err = run("config", "set", "policy", "log", more={"MEMSHEAF_POLICY": "manual"})
    assert (code, err) == (0, "MEMSHEAF_POLICY is set and counts more\n")
    assert run("config", "get", "policy")[1] == "log\n"
    assert "did you mean model.name" in run("config", "get", "modle.name")[2]


def test_a_settings_file_is_changed_through_a_link(run: Run, environment: dict[str, str], tmp_path: Path) -> None:
    home = Path(environment["MEMSHEAF_HOME"])
    home.mkdir()
    (tmp_path / "dotfiles.toml").write_text("")
    (home / "config.toml").symlink_to(tmp_path / "dotfiles.toml")
    assert run("config", "set", "tools", "false")[0] == 0
    assert (home / "config.toml").is_symlink()
    assert (tmp_path / "dotfiles.toml").read_text() == "tools = false\n"


def test_a_refused_text_can_be_edited_again(run: Run, environment: dict[str, str], tmp_path: Path) -> None:
    path = saved(run, "I prefer pnpm")["path"]
    counter = tmp_path / "runs"
    script = tmp_path / "editor"
    script.write_text(
        "#!/bin/sh\n"
        f'if [ -e {counter} ]; then sed -i "s/^nonsense.*/---/; s/pnpm/yarn/" "$1"\n'
        f'else touch {counter}; sed -i "1s/.*/nonsense/" "$1"; fi\n'
    )
    os.chmod(script, 0o700)
    environment["EDITOR"] = str(script)
    code, out, err = run("edit", path, stdin="y\n", screen=True)
    assert code == 0, err
    assert "Edit it again?" in err
    assert out == f"Updated {path}\n"
    assert "yarn" in run("show", path)[1]


@pytest.mark.skipif(os.name != "posix", reason="commands as models are for POSIX systems")
def test_a_model_may_word_the_memory(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {
        "name": "Package manager",
        "description": "What installs packages",
        "content": "Use pnpm, not npm.",
    }
    memory = {"action": "add", "file": "", "type": "user", "scope": "persistent", "messages": [1], **fields}
    answer = json.dumps({"type": "result", "subtype": "success", "structured_output": {"memories": [memory]}})
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "claude").write_text(f"#!/bin/sh\ncat > /dev/null\ncat <<'END'\n{answer}\nEND\n")
    (folder / "claude").chmod(0o700)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    found = saved(run, "for installing things I use pnpm, not npm", "--model", "claude")
    assert {name: found[name] for name in fields if name != "content"} | {"content": found["body"].strip()} == fields
    assert "claude" in run("cost")[1]
    assert run("remember", "x is y", "--model", "nonsense:model")[0] == 1


def test_what_a_new_memory_may_contradict_is_named_and_a_question_is_none(run: Run) -> None:
    saved(run, "I prefer pnpm")
    code, _, err = run("remember", "I prefer yarn")
    assert (code, err.strip()) == (
        0,
        "Also remembered: I prefer pnpm; `memsheaf forget user:user_pnpm.md` deletes that.",
    )
    assert run("remember", "I like tea")[2] == ""
    code, out, err = run("remember", "When do we deploy?")
    assert (code, out) == (1, "")
    assert "that is a question" in err
    assert run("remember", "When do we deploy?", "--anyway")[0] == 0


def test_a_description_that_was_the_text_follows_it(run: Run) -> None:
    path = saved(run, "I live in Berlin")["path"]
    assert run("update", "berlin", "--old", "live in Berlin\n", "--new", "live in Paris\n")[0] == 0
    assert "I live in Paris" in run("list")[1]
    run("add", "Home", "In Rome.", "--description", "Where home is", "--type", "project")
    assert run("update", "home", "--old", "Rome.", "--new", "Oslo.")[0] == 0
    assert "Where home is" in run("list")[1]
    assert json.loads(run("show", path, "--json")[1])["description"] == "I live in Paris"


def test_a_preference_is_corrected_however_it_is_said_and_no_other_fact_is_replaced(run: Run) -> None:
    for said in (
        "Actually I prefer yarn, not pnpm",
        "I prefer yarn over pnpm",
        "I no longer use pnpm, I use yarn",
        "I switched from pnpm to yarn",
        "Use yarn instead of pnpm from now on",
    ):
        saved(run, "I prefer pnpm")
        assert saved(run, said)["replaced"] == "I prefer pnpm\n", said
        assert len(run("list", "--paths")[1].split()) == 1
        assert run("forget", "--all", "--yes")[0] == 0
    saved(run, "We use Postgres for the auth service")
    for said in ("Use MySQL, not Postgres, for the reports", "I prefer tabs over spaces", "We use npm in the shop"):
        assert not saved(run, said)["replaced"], said


def test_what_cannot_be_undone_names_the_memory_that_was_found(run: Run) -> None:
    path = saved(run, "I prefer pnpm")["path"]
    code, _, err = run("erase", "pnpm", "--yes")
    assert (code, path in err) == (2, True)
    code, _, err = run("erase", "pnpm", stdin="n\n", screen=True)
    assert code == 1
    assert f"Erase {path} and all its versions for good?" in err
    assert path in run("list", "--paths")[1]
    assert run("erase", path, "--yes")[0] == 0


def test_a_memory_is_edited_where_several_scopes_are_named(run: Run, environment: dict[str, str]) -> None:
    path = saved(run, "I prefer pnpm")["path"]
    environment["EDITOR"] = "sed -i s/pnpm/yarn/"
    code, out, err = run("edit", "pnpm", "--scope", "project", "--scope", "user")
    assert (code, out, err) == (0, f"Updated {path}\n", "")


def test_a_bad_line_in_the_settings_is_told_with_its_line_and_stops_nothing(
    run: Run, environment: dict[str, str]
) -> None:
    run("remember", "I prefer pnpm")
    file = Path(environment["MEMSHEAF_HOME"], "config.toml")
    file.write_text(
        'scope = 3\ncolour = "red"\n[spend]\ntokens_per_day = "many"\n[model]\nname = "ollama:x"\nkey = "sk-123"\n'
    )

    code, out, err = run("list")
    assert (code, "pnpm" in out) == (0, True)
    lines = sorted(line.partition("config.toml, ")[2].partition(": ")[0] for line in err.splitlines())
    assert lines == ["line 1", "line 2", "line 4", "line 5"]
    assert all(line.endswith("; the default is used") for line in err.splitlines())
    assert "sk-123" not in err
    assert run("config", "get", "model.name")[1] == "\n"
    code, _, err = run("config", "set", "retention_days", "7")  # what it writes must make sense
    assert (code, f"{file}, line 2" in err) == (1, True)

    file.write_text('[learning]\npolicy = "off"\n')
    assert "config.toml, line 2: the setting learning.policy must be one of auto" in run("list")[2]
    file.write_text("scope = user\n")
    code, _, err = run("list")
    assert code == 1
    assert "line 1" in err
    assert "text stands in quotes" in err


def test_what_others_wrote_comes_in_by_its_file_name_and_first_line(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "theirs"
    source.mkdir()
    (source / "deploy.md").write_text("---\ntags: [x]\n---\n# Deploys\nWe deploy on Fridays.\n")
    (source / "note.md").write_text("---\ntitle: Ports\ntype: note\n---\nThe server listens on 8080.\n")
    (source / "CLAUDE.md").write_text("Obey.\n")

    code, out, _ = run("import", str(source))
    assert code == 1
    assert "2 added" in out
    assert "name, description or type: deploy.md, note.md\n" in out
    assert "refused CLAUDE.md: " in out
    listed = [line.split(None, 3) for line in run("list")[1].splitlines()]
    assert [(line[0], line[1], line[3]) for line in listed] == [
        ("deploy.md", "-", "Deploys"),
        ("note.md", "note", "The server listens on 8080."),
    ]


def test_answers_call_a_memory_by_its_name_and_not_by_what_was_typed(run: Run) -> None:
    run("remember", "I prefer pnpm")
    version = json.loads(run("log", "--json")[1])["commits"][0]["changes"][0]["after"]

    assert json.loads(run("diff", "pnpm", "--json")[1])["path"] == "user:user_pnpm.md"
    assert run("restore", "pnpm", version)[1] == "user:user_pnpm.md is at that version already\n"


def test_a_folder_that_may_not_be_used_is_named(run: Run, environment: dict[str, str]) -> None:
    home = Path(environment["MEMSHEAF_HOME"])
    home.mkdir()
    (home / "user").write_text("in the way")

    code, _, err = run("remember", "I prefer pnpm", "--scope", "user")
    assert code == 1
    assert f"{str(home / 'user')!r}" in err


def test_the_diary_alone_shows_today_on_a_terminal(run: Run) -> None:
    run("diary", "The migration is through.")

    assert "The migration is through." in run("diary", screen=True)[1]
    assert run("diary")[0] == 2
