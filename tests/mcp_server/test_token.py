"""The token of the HTTP server: made once, shown once, read by nobody else."""

from __future__ import annotations

import os
import stat
import sys
import threading
from pathlib import Path

import pytest

from memsheaf.errors import MemsheafError, Refused
from memsheaf.mcp.http_bind import TOKEN_FILE, TOKEN_LEAST, VARIABLE, load_token

sys.path.append(str(Path(__file__).parent))

TOKEN = "a-token-that-is-long-enough-for-anybody"


@pytest.fixture
def state(tmp_path: Path) -> str:
    return str(tmp_path / "deep" / "state")


def test_it_is_made_once_and_kept_for_its_owner_alone(state: str) -> None:
    first, again = load_token(state, {}), load_token(state, {})
    assert first.is_new
    assert not again.is_new
    assert again.text == first.text
    assert len(first.text) >= TOKEN_LEAST
    assert stat.S_IMODE(os.stat(first.file).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(state).st_mode) == 0o700


def test_a_new_one_takes_the_place_of_the_old(state: str) -> None:
    old = load_token(state, {})
    new = load_token(state, {}, renew=True)
    assert new.is_new
    assert new.text != old.text
    assert load_token(state, {}).text == new.text
    assert stat.S_IMODE(os.stat(new.file).st_mode) == 0o600


def test_two_that_start_at_once_agree(state: str) -> None:
    found = list[str]()
    threads = [threading.Thread(target=lambda: found.append(load_token(state, {}).text)) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16
    assert len(set(found)) == 1


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_one_that_others_can_read_is_refused(state: str, mode: int) -> None:
    file = load_token(state, {}).file
    os.chmod(file, mode)
    with pytest.raises(Refused, match="others") as caught:
        load_token(state, {})
    assert f"chmod 600 {file}" in caught.value.hint
    os.chmod(file, 0o600)
    assert not load_token(state, {}).is_new


@pytest.mark.parametrize(
    "text", ["", "short", "with a blank in the middle of a text that is long", "\xff" * 50, "x" * 4096]
)
def test_what_is_no_token_is_refused_and_not_shown(state: str, text: str) -> None:
    file = Path(load_token(state, {}).file)
    file.write_text(text, "latin-1")
    with pytest.raises(Refused) as caught:
        load_token(state, {})
    assert "--new-token" in caught.value.hint
    assert not text or text not in f"{caught.value}{caught.value.hint}"
    assert load_token(state, {}, renew=True).is_new


def test_a_link_is_not_followed(state: str, tmp_path: Path) -> None:
    Path(state).mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(TOKEN)
    elsewhere.chmod(0o600)
    (Path(state) / TOKEN_FILE).symlink_to(elsewhere)
    with pytest.raises(MemsheafError):
        load_token(state, {})
    assert load_token(state, {}, renew=True).is_new
    assert elsewhere.read_text() == TOKEN


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_file_is_refused(state: str, kind: str) -> None:
    Path(state).mkdir(parents=True, mode=0o700)
    place = Path(state) / TOKEN_FILE
    place.mkdir(mode=0o700) if kind == "folder" else os.mkfifo(place, 0o600)
    with pytest.raises(MemsheafError):
        load_token(state, {})


def test_that_of_the_environment_counts_and_nothing_is_written(state: str) -> None:
    assert load_token(state, {VARIABLE: TOKEN}) == (TOKEN, "", False)
    assert not os.path.exists(state)
    with pytest.raises(Refused, match=VARIABLE):
        load_token(state, {VARIABLE: TOKEN}, renew=True)


@pytest.mark.parametrize(
    "text", ["short", "x" * (TOKEN_LEAST - 1), "x" * 513, "with blanks " * 5, "ü" * 40, "x" * 40 + "\n"]
)
def test_one_of_the_environment_that_is_none_is_refused_and_not_shown(state: str, text: str) -> None:
    with pytest.raises(Refused) as caught:
        load_token(state, {VARIABLE: text})
    assert text not in f"{caught.value}{caught.value.hint}"
