"""Install and uninstall over generated settings files: the person's bytes come back, whatever was in them."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hosts.settings_corpus import MARK, READERS, make_text
from memsheaf.hosts.installing import HOSTS, Placement, make_targets
from memsheaf.hosts.json_edit import find_ours
from memsheaf.hosts.settings_files import RECORD, SettingsFiles, SettingsTarget
from memsheaf.state import State

SEEDS = range(300 if os.environ.get("MEMSHEAF_LONG") else 100)


def all_targets(home: Path) -> list[SettingsTarget]:
    place = Placement(["memsheaf"], {"HOME": str(home)})
    return [target for name in HOSTS for target in make_targets(name, place)]


def without_ours(value: Any, target: SettingsTarget) -> Any:
    """A value as it is when nothing of it is ours, empty containers and the version of the file apart."""
    tree = target.ours
    if "version" in tree:
        value = {key: held for key, held in value.items() if key != "version"}
    if target.format == "toml":
        tree = {"mcp_servers": {"memsheaf": {}}}
    if target.format == "yaml":
        [(parent, held)] = target.ours.items()
        if isinstance(held, list):
            rest = [one for one in value.get(parent) or [] if one["name"] != "memsheaf"]
        else:
            rest = {name: one for name, one in (value.get(parent) or {}).items() if name != "memsheaf"}  # type: ignore[assignment]
        return prune({**value, parent: rest})
    for path, _ in sorted(find_ours(value, tree), key=lambda found: str(found[0]), reverse=True):
        inner = value
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = None
    return prune(value)


def prune(value: Any) -> Any:
    """Without what is empty, groups of hooks among it."""
    if isinstance(value, dict):
        kept = {key: prune(held) for key, held in value.items()}
        kept = {key: held for key, held in kept.items() if held not in (None, {}, [])}
        return {} if "hooks" in value and not kept.get("hooks") and set(kept) <= {"matcher"} else kept
    return [one for one in map(prune, value) if one not in (None, {}, [])] if isinstance(value, list) else value


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_there_comes_back(seed: int, tmp_path: Path) -> None:
    rng = Random(seed)
    home = tmp_path / "home"
    targets = all_targets(home)
    target = targets[seed % len(targets)]
    files, path = SettingsFiles(str(tmp_path / "state")), Path(target.path)
    text = make_text(rng, target.format, target.ours)
    is_there = target.format != "text" and rng.random() < 0.93
    mode = rng.choice([0o600, 0o644, 0o640])
    if is_there:
        path.parent.mkdir(parents=True)
        real = tmp_path / "dotfiles" / path.name if rng.random() < 0.15 else path
        real.parent.mkdir(parents=True, exist_ok=True)
        real.write_bytes(text.encode())
        real.chmod(mode)
        if real != path:
            path.symlink_to(os.path.relpath(real, path.parent))
    before = snapshot(tmp_path)
    had_ours = is_there and "memsheaf" in text.replace("memsheaf: no", "")
    read = READERS[target.format]

    done = files.apply(target)

    plain = text.strip("\ufeff \t\r\n")
    if target.strict_reader and is_there and target.format == "json" and plain and not is_json(plain):
        assert "strict JSON" in done.problem
        assert snapshot(tmp_path) == before
        return
    assert not done.problem
    installed = path.read_bytes().decode()
    assert path.is_symlink() == (str(path) in before["links"])
    assert not is_there or stat.S_IMODE(path.stat().st_mode) == mode
    if target.format != "text":
        assert without_ours(read(installed), target) == without_ours(read(text if is_there else ""), target)
        assert "memsheaf" in installed
        if target.format == "json" and is_json(text):
            json.loads(installed)  # no comment nor trailing comma came in
    again = files.apply(target)
    assert not again.is_change
    assert path.read_bytes().decode() == installed
    assert (
        "memsheaf" not in json.dumps(sorted(os.listdir(path.parent)))
        or target.format == "text"
        or path.stem == "memsheaf"
    )

    story = rng.choice(["as it is", "as it is", "edited elsewhere", "edited within", "record lost"])
    removal = target._replace(wanted=None)
    if story == "edited elsewhere" and MARK in text and is_there:
        assert installed.count(MARK) == text.count(MARK)
        path.write_bytes(installed.replace(MARK, "another mind").encode())
        assert not files.apply(removal).problem
        if not had_ours:
            assert path.read_bytes().decode() == text.replace(MARK, "another mind")
    elif story == "edited within" and target.format == "json":
        edited = re.sub(r'("memsheaf":)', r'"mine": 1, \1', installed, count=1)
        edited = re.sub(r'("hooks"\s*:\s*\[)', r'\1{"command": "mine"},', edited, count=1)
        path.write_bytes(edited.encode())
        expected = without_ours(read(path.read_bytes().decode()), target)
        assert not files.apply(removal).problem
        assert without_ours(read(path.read_bytes().decode() if path.exists() else ""), target) == expected
    elif story == "record lost" and target.format != "text":
        shutil.rmtree(tmp_path / "state")
        assert not files.apply(removal).problem
        left = path.read_bytes().decode() if path.exists() else ""
        assert without_ours(read(left), target) == without_ours(read(text if is_there else ""), target)
        assert left.strip("\ufeff{} \t\r\n") or not path.exists()
    else:
        assert not files.apply(removal).problem
        if had_ours:
            assert without_ours(read(path.read_bytes().decode()), target) == without_ours(read(text), target)
        else:
            assert snapshot(tmp_path) == before
    assert not files.apply(removal).is_change
    left = path.read_bytes().decode() if path.exists() else ""
    if story == "record lost" and is_there and read(text):  # the permission may be the person's own
        left = left.replace('"mcp__memsheaf"', "")
    assert "memsheaf" not in left.replace("memsheaf: no", "")
    assert left.count("# behind it") == (text.count("# behind it") if is_there else 0)


@pytest.mark.parametrize("damaged", [[], {"files": [1], "folders": {"a": 1}}, {"files": {"x": 7}, "folders": [3]}])
def test_a_damaged_record_is_as_good_as_none(damaged: object, tmp_path: Path) -> None:
    target = next(one for one in all_targets(tmp_path / "home") if one.format == "json")
    path = Path(target.path)
    path.parent.mkdir(parents=True)
    path.write_text('{"mine": 1}')
    assert not SettingsFiles(str(tmp_path / "state")).apply(target).problem
    State(str(tmp_path / "state" / "install")).save(RECORD, damaged)
    assert not SettingsFiles(str(tmp_path / "state")).apply(target._replace(wanted=None)).problem
    assert json.loads(path.read_text()) == {"mine": 1}


@pytest.mark.parametrize("edited", [False, True])
def test_the_record_of_an_earlier_version_gives_the_file_back(edited: bool, tmp_path: Path) -> None:
    text = '{\n    // mine\n    "model": "x",\n    "permissions": {"allow": ["Bash(ls)"]},\n}\n'
    target = next(one for one in all_targets(tmp_path / "home") if "permissions" in one.ours)
    target = target._replace(strict_reader="")
    path = Path(target.path)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    SettingsFiles(str(tmp_path / "state")).apply(target)
    notes = State(str(tmp_path / "state" / "install"))
    record = notes.load(RECORD)
    for edit in record["files"][str(path)]["edits"]:
        edit |= {"before": "0" * 64, "created": [["hooks"], ["permissions", "allow", "mcp__memsheaf"]]}
    notes.save(RECORD, None)
    notes.write("edits.json", json.dumps(record).encode())  # where earlier versions kept it
    if edited:
        path.write_text(path.read_text().replace('"x"', '"y"'))

    assert not SettingsFiles(str(tmp_path / "state")).apply(target._replace(wanted=None)).problem

    assert path.read_text() == text.replace('"x"', '"y"' if edited else '"x"')


@pytest.mark.parametrize("theirs", [{"model": "x"}, {"hooks": {"Stop": []}}, {"hooks": {}, "version": 1}])
def test_a_file_that_its_host_wrote_anew_has_the_same_value_after_uninstalling(theirs: Any, tmp_path: Path) -> None:
    target = next(one for one in all_targets(tmp_path / "home") if "version" in one.ours and one.host == "cursor")
    path = Path(target.path)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(theirs))
    files = SettingsFiles(str(tmp_path / "state"))
    files.apply(target)
    path.write_text(json.dumps(json.loads(path.read_text()), indent=4))

    assert not files.apply(target._replace(wanted=None)).problem

    assert json.loads(path.read_text()) == theirs


def test_hooks_that_are_there_keep_their_numbers_which_codex_knows_trusted_ones_by(tmp_path: Path) -> None:
    theirs = {"hooks": [{"type": "command", "command": "true"}]}
    path = tmp_path / ".codex" / "hooks.json"
    path.parent.mkdir()
    for text in (json.dumps({"hooks": {"Stop": [theirs]}}), json.dumps({"hooks": {"Stop": [theirs]}}, indent=2)):
        path.write_text(text, encoding="utf-8")
        files = SettingsFiles(str(tmp_path / "state"))
        [target] = [
            one
            for one in make_targets("codex", Placement(["memsheaf"], {"HOME": str(tmp_path)}))
            if one.path == str(path)
        ]
        files.apply(target)
        first, second = json.loads(path.read_text(encoding="utf-8"))["hooks"]["Stop"]
        assert (first, "memsheaf hook" in json.dumps(second)) == (theirs, True)
        files.apply(target._replace(wanted=None))
        assert path.read_text(encoding="utf-8") == text


@pytest.mark.long
def test_many_more_come_back(tmp_path: Path) -> None:
    for seed in range(len(SEEDS), 4000):
        test_what_was_there_comes_back(seed, tmp_path / str(seed))
        shutil.rmtree(tmp_path / str(seed))


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def snapshot(root: Path) -> dict[str, Any]:
    """Every file with its bytes and mode, every link and folder; the state directory apart."""
    found: dict[str, Any] = {"files": {}, "links": {}, "folders": []}
    for folder, names, leaves in os.walk(root):
        names[:] = [name for name in names if name != "state"]
        found["folders"] += [os.path.join(folder, name) for name in names]
        for path in (Path(folder, name) for name in leaves):
            if path.is_symlink():
                found["links"][str(path)] = os.readlink(path)
            else:
                found["files"][str(path)] = (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
    found["folders"].sort()
    return found
