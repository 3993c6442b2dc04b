from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from databases import history
from memsheaf.config import Settings
from memsheaf.index.database import database_for
from memsheaf.sheaf import Sheaf
from memsheaf.transfer import take_in
from trees import as_nobody

PLAIN = "---\nname: n\ndescription: d\ntype: user\n---\nbody\n"


@pytest.fixture
def later(settings: Settings) -> Iterator[Sheaf]:
    """A sheaf whose clock stands still a little in the future: no file is too new to trust."""
    now = time.time() + 60
    with Sheaf.open("user", settings=settings, clock=lambda: now) as sheaf:
        yield sheaf


def write(sheaf: Sheaf, path: str, text: str = PLAIN) -> str:
    place = os.path.join(sheaf.root, path)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    Path(place).write_text(text)
    return place


def fill(sheaf: Sheaf) -> None:
    for name in ("Alpha", "Beta", "Gamma"):
        sheaf.write(name, f"About {name}", "user", f"remarkable {name.lower()} words")
    sheaf.write("Delta", "Waiting", "project", "remarkable delta words", trust="unconfirmed")
    write(sheaf, "sub/free.md", "# Free\n\nremarkable free words\n")
    write(sheaf, "broken.md", "---\nname: [\n---\nremarkable broken words\n")
    sheaf.list()


def answers(sheaf: Sheaf) -> tuple[object, ...]:
    """What a sheaf says about itself, but for what the journal gained by looking."""
    return (
        sheaf.list(),
        sheaf.list(type="user"),
        sheaf.list(unconfirmed=True),
        sheaf.search("remarkable"),
        sheaf.search("delta"),
        sheaf.catalog(),
        sheaf.catalog(1),
        sheaf.prompt(),
        [(commit.id, commit.by, commit.why) for commit in sheaf.log()],
    )


def remove(place: str) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(place + suffix).unlink(missing_ok=True)


def truncate(place: str) -> None:
    os.truncate(place, 0)


def halve(place: str) -> None:
    os.truncate(place, os.path.getsize(place) // 2)


def garble(place: str) -> None:
    with open(place, "r+b") as file:
        file.write(os.urandom(os.path.getsize(place)))


def garble_all(place: str) -> None:
    for suffix in ("", "-wal"):
        if os.path.exists(place + suffix):
            garble(place + suffix)


def age(place: str) -> None:
    with sqlite3.connect(place) as db:
        db.execute("PRAGMA user_version = 987")
    db.close()


def strip(place: str) -> None:
    with sqlite3.connect(place) as db:
        db.execute("DROP TABLE entry")
    db.close()


def replace_by_text(place: str) -> None:
    remove(place)
    Path(place).write_text("this is not a database, but it is long enough to look at " * 100)


DAMAGES = [remove, truncate, halve, garble, garble_all, age, strip, replace_by_text]


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_answers_are_the_same_after_the_closed_index_was_damaged(
    damage: Callable[[str], None], settings: Settings
) -> None:
    with Sheaf.open("user", settings=settings) as sheaf:
        fill(sheaf)
        before = answers(sheaf)

    damage(database_for(sheaf.root, settings.cache))

    with Sheaf.open("user", settings=settings) as sheaf:
        assert answers(sheaf) == before
        sheaf.write("Later", "D", "user", "x")
        assert "user_later.md" in sheaf.catalog().text


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_answers_are_the_same_after_the_open_index_was_damaged(
    damage: Callable[[str], None], settings: Settings, sheaf: Sheaf
) -> None:
    fill(sheaf)
    before = answers(sheaf)

    damage(database_for(sheaf.root, settings.cache))

    assert answers(sheaf) == before
    sheaf.write("Later", "D", "user", "x")
    write(sheaf, "outside.md")
    assert "user_later.md" in sheaf.catalog().text
    assert "outside.md" in sheaf.catalog().text


@pytest.mark.parametrize("damage", [remove, truncate, garble, strip])
def test_a_change_is_kept_though_the_index_was_damaged_before_it(
    damage: Callable[[str], None], settings: Settings, sheaf: Sheaf
) -> None:
    fill(sheaf)

    damage(database_for(sheaf.root, settings.cache))
    sheaf.write("Later", "D", "user", "x")

    assert [commit.by for commit in sheaf.log("user_later.md")] == ["agent"]
    assert "user_later.md" in sheaf.catalog().text
    sheaf.undo()
    assert {row.path for row in sheaf.list()} >= {"user_alpha.md", "user_beta.md", "sub/free.md"}


def test_without_a_place_for_the_index_the_answers_are_the_same(settings: Settings, tmp_path: Path) -> None:
    with Sheaf.open("user", settings=settings) as sheaf:
        fill(sheaf)
        before = answers(sheaf)
    (tmp_path / "a file").write_text("")
    nowhere = Settings(home=settings.home, cache=str(tmp_path / "a file" / "cache"), embedder="none")

    with Sheaf.open("user", settings=nowhere) as sheaf:
        assert answers(sheaf) == before


def test_on_a_full_disk_the_answers_are_the_same_and_the_index_stays(sheaf: Sheaf, settings: Settings) -> None:
    fill(sheaf)
    expected = sheaf.list(), sheaf.search("remarkable")
    database = database_for(sheaf.root, settings.cache)
    write(sheaf, "new.md", PLAIN.replace("body", "body\n" * 10_000))
    before = os.stat(database).st_ino
    sheaf.own.index.query(
        lambda db: db.execute("PRAGMA max_page_count = 1")
    )  # SQLite says then what a full disk says

    rows = sheaf.list()

    assert [row for row in rows if row.path != "new.md"] == expected[0]
    assert [row.path for row in rows if row not in expected[0]] == ["new.md"]
    assert sheaf.search("remarkable") == expected[1]
    assert os.stat(database).st_ino == before


def test_a_lost_index_makes_no_history_of_its_own(settings: Settings, tmp_path: Path) -> None:
    with Sheaf.open("user", settings=settings) as sheaf:
        for name in ("one", "two", "three"):
            sheaf.write(name, "D", "user", name)
    elsewhere = Settings(home=settings.home, cache=str(tmp_path / "another"), embedder="none")

    with Sheaf.open("user", settings=elsewhere) as sheaf:
        sheaf.write("four", "D", "user", "x")
        sheaf.list()
        assert [commit.by for commit in sheaf.log()] == ["agent"] * 4
        sheaf.undo()
        assert [row.name for row in sheaf.list()] == ["one", "three", "two"]


def test_the_index_lives_in_the_cache_and_not_beside_the_files(sheaf: Sheaf, settings: Settings) -> None:
    fill(sheaf)

    assert os.path.dirname(database_for(sheaf.root, settings.cache)) == settings.cache
    assert not list(Path(sheaf.root).rglob("*.sqlite*"))


# noticing


def test_an_edit_of_the_same_size_with_its_time_set_back_is_noticed(later: Sheaf) -> None:
    place = write(later, "n.md", PLAIN)
    os.utime(place, (1e9, 1e9))
    later.list()
    before = os.stat(place)

    Path(place).write_text(PLAIN.replace("description: d", "description: e"))
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert (os.stat(place).st_size, os.stat(place).st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert later.own.index.look()
    assert "— e" in later.catalog().text
    assert [commit.by for commit in later.log("n.md")] == ["outside", "outside"]


def test_an_edit_right_after_our_own_write_is_noticed_and_journalled(sheaf: Sheaf) -> None:
    for number in range(20):
        memory = sheaf.write(f"N{number}", "D", "user", "ours")
        Path(sheaf.root, memory.path).write_text(memory.text.replace("ours", "them"))

        assert sheaf.catalog().total == number + 1
        assert [commit.by for commit in sheaf.log(memory.path)] == ["outside", "agent"]


@pytest.fixture
def large(later: Sheaf) -> Sheaf:
    """More files than the catalog shows: 300 old ones, dated so that n299.md ranks first."""
    for number in range(300):
        os.utime(write(later, f"n{number:03}.md", PLAIN.replace("name: n", f"name: n{number}")), (1e9, 1e9 + number))
    later.list()
    later.catalog()
    return later


def test_in_a_large_folder_a_new_file_is_noticed_at_once(large: Sheaf) -> None:
    write(large, "new.md", PLAIN.replace("name: n", "name: Brand new"))

    assert "Brand new" in large.catalog().text
    write(large, "deep/er/new.md", PLAIN.replace("name: n", "name: Deep new"))
    assert "Deep new" in large.catalog().text
    assert large.catalog().total == 302


QUESTIONS: dict[str, Callable[[Sheaf], object]] = {
    "list": lambda sheaf: sheaf.list(),
    "search": lambda sheaf: sheaf.search("brontosaurus"),
    "recall": lambda sheaf: sheaf.recall("where does the brontosaurus graze?"),
    "prompt": lambda sheaf: sheaf.prompt(),
    "log": lambda sheaf: list(sheaf.log()),
}


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_in_a_large_folder_any_edit_is_noticed_by_the_next_question(
    question: Callable[[Sheaf], object], large: Sheaf
) -> None:
    assert "](n000.md)" not in large.catalog().text
    with open(os.path.join(large.root, "n000.md"), "r+") as file:  # its folder stays as it is
        file.write(PLAIN.replace("body", "brontosaurus grazes"))

    question(large)

    assert [commit.by for commit in large.own.store.history("n000.md")] == ["outside", "outside"]
    assert "brontosaurus" in large.read("n000.md").body


def test_what_went_and_what_was_edited_without_an_index_are_both_journalled(settings: Settings) -> None:
    with Sheaf.open("user", settings=settings) as sheaf:
        gone = sheaf.write("First", "D", "user", "first")
        edited = sheaf.write("Second", "D", "user", "second")
    os.unlink(os.path.join(sheaf.root, gone.path))
    write(sheaf, edited.path, edited.text.replace("second", "third"))
    remove(database_for(sheaf.root, settings.cache))

    with Sheaf.open("user", settings=settings) as sheaf:
        for path in (gone.path, edited.path):
            assert [commit.by for commit in sheaf.log(path)] == ["outside", "agent"]


# several at once


def in_another_process(settings: Settings, code: str) -> str:
    start = "from memsheaf import Settings, Sheaf\nfrom memsheaf.config import Caps, Chat, Dream, Hooks, HubUse\n"
    start += f"sheaf = Sheaf.open('user', settings={settings!r})\n"
    command = [sys.executable, "-c", start + code + "\nsheaf.close()"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("shared", [True, False], ids=["one index", "two indexes"])
def test_two_processes_see_each_others_changes_and_journal_each_once(
    shared: bool, sheaf: Sheaf, settings: Settings, tmp_path: Path
) -> None:
    other = settings if shared else Settings(home=settings.home, cache=str(tmp_path / "another"), embedder="none")
    sheaf.write("Mine", "D", "user", "x")

    assert in_another_process(other, "sheaf.write('Theirs', 'D', 'user', 'x'); print(len(sheaf.list()))") == "2\n"
    assert [row.name for row in sheaf.list()] == ["Mine", "Theirs"]
    write(sheaf, "outside.md")
    assert "outside.md" in sheaf.catalog().text
    assert in_another_process(other, "print(sheaf.catalog().total)") == "3\n"
    sheaf.revise("user_theirs.md", "x", "y")
    assert in_another_process(other, "print(sheaf.search('y')[0].ref.path)") == "user_theirs.md\n"
    os.unlink(os.path.join(sheaf.root, "outside.md"))
    assert in_another_process(other, "print(sheaf.catalog().total)") == "2\n"

    assert sheaf.catalog().total == 2
    steps = [(commit.by, commit.revisions[0].path) for commit in sheaf.log()]
    assert steps == [
        ("outside", "outside.md"),
        ("agent", "user_theirs.md"),
        ("outside", "outside.md"),
        ("agent", "user_theirs.md"),
        ("agent", "user_mine.md"),
    ]


def test_writers_with_an_index_each_lose_nothing_and_agree_in_the_end(settings: Settings, tmp_path: Path) -> None:
    start = (
        "import sys\nfrom memsheaf import Settings, Sheaf\n"
        "with Sheaf.open('user', settings=Settings(home=sys.argv[1], cache=sys.argv[2], embedder='none')) as sheaf:\n"
        "    for n in range(8):\n"
        "        sheaf.write(f'{sys.argv[3]} {n}', 'D', 'user', 'x')\n"
        "        sheaf.prompt()\n"
    )
    command = [sys.executable, "-c", start, settings.home]
    workers = [subprocess.Popen([*command, str(tmp_path / f"c{n}"), f"w{n}"]) for n in range(3)]
    assert [worker.wait(60) for worker in workers] == [0, 0, 0]

    with Sheaf.open("user", settings=settings) as sheaf:
        page = sheaf.catalog()
        assert (page.total, len(sheaf.list())) == (24, 24)
        assert Path(sheaf.root, "MEMORY.md").read_text() == page.text
        assert [commit.by for commit in sheaf.log()] == ["agent"] * 24


def test_threads_may_share_a_sheaf(sheaf: Sheaf) -> None:
    def work(name: str) -> int:
        for number in range(6):
            sheaf.write(f"{name} {number}", "D", "user", f"words of {name}")
            sheaf.prompt()
        return len(sheaf.search(f"words {name}", limit=50))

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, ["one", "two", "three", "four"]))

    assert min(found) >= 6
    assert sheaf.catalog().total == 24
    assert [commit.by for commit in sheaf.log()] == ["agent"] * 24


def test_a_sheaf_for_reading_journals_nothing_and_a_later_one_does(settings: Settings, sheaf: Sheaf) -> None:
    memory = sheaf.write("First", "D", "user", "first")
    write(sheaf, memory.path, memory.text.replace("first", "second"))
    write(sheaf, "new.md")
    commits = len(list(sheaf.own.store.history()))

    with Sheaf.open("user", settings=settings, read_only=True) as reader:
        assert [row.path for row in reader.list()] == ["new.md", memory.path]
        assert reader.search("second")
        assert "new.md" in reader.catalog().text
        assert len(list(reader.log())) == commits
    with Sheaf.open("user", settings=settings) as writer:
        steps: list[Any] = [(commit.by, sorted(r.path for r in commit.revisions)) for commit in writer.log()]

    assert steps == [("outside", ["new.md", memory.path]), ("agent", [memory.path])]


def test_what_a_reader_noticed_first_is_journalled_by_the_next_look_of_a_writer(
    settings: Settings, later: Sheaf
) -> None:
    memory = later.write("First", "D", "user", "first")
    later.list()
    later.catalog()
    write(later, memory.path, memory.text.replace("first", "other"))

    now = time.time() + 60
    with Sheaf.open("user", settings=settings, read_only=True, clock=lambda: now) as reader:
        assert reader.search("other")
    later.catalog()

    assert [commit.by for commit in later.own.store.history(memory.path)] == ["outside", "agent"]


def test_a_file_that_went_while_nobody_looked_is_journalled_though_the_index_went_too(settings: Settings) -> None:
    with Sheaf.open("user", settings=settings) as sheaf:
        memory = sheaf.write("First", "D", "user", "first")
        sheaf.write("Second", "D", "user", "second")
    os.unlink(os.path.join(sheaf.root, memory.path))
    remove(database_for(sheaf.root, settings.cache))

    with Sheaf.open("user", settings=settings) as sheaf:
        assert [commit.by for commit in sheaf.log(memory.path)] == ["outside", "agent"]
        sheaf.undo(next(sheaf.log(memory.path)).id)
        assert sheaf.read(memory.path) == memory


def spoil_catalog(sheaf: Sheaf, settings: Settings) -> None:
    """Leave MEMORY.md as a power cut can: another text, and just the stamp that the index remembers."""
    place = Path(sheaf.root, "MEMORY.md")
    place.write_bytes(bytes(place.stat().st_size))
    found = place.stat()
    with sqlite3.connect(database_for(sheaf.root, settings.cache)) as db:
        stamp = (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)
        db.execute("UPDATE note SET value = ? WHERE name = 'catalog'", (str(stamp),))
    db.close()


@pytest.mark.parametrize("rebooted", [False, True])
def test_the_catalog_is_read_again_after_a_reboot(rebooted: bool, settings: Settings) -> None:
    """Within one boot the stamp is enough; after it a file that was not flushed may hold anything."""
    now = time.time() + 60
    with Sheaf.open("user", settings=settings, clock=lambda: now) as sheaf:
        sheaf.write("Tabs", "Indentation", "user", "Use tabs.")
        sheaf.prompt()
        text = sheaf.catalog().text
    spoil_catalog(sheaf, settings)
    if rebooted:
        with closing(sqlite3.connect(database_for(sheaf.root, settings.cache))) as db, db:
            assert db.execute("UPDATE note SET value = 'earlier' WHERE name = 'boot'").rowcount == 1

    with Sheaf.open("user", settings=settings, clock=lambda: now) as sheaf:
        sheaf.prompt()
        assert (sheaf.own.store.published("MEMORY.md") == text.encode()) == rebooted


def test_a_history_that_was_set_back_gets_what_is_in_the_folder(settings: Settings) -> None:
    with Sheaf.open("user", settings=settings) as sheaf:
        sheaf.write("First", "First", "user", "The first is red.")
        database = history(sheaf.root)
    backup = database.read_bytes()
    with Sheaf.open("user", settings=settings) as sheaf:
        sheaf.write("Second", "Second", "user", "The second is blue.")
    database.write_bytes(backup)

    with Sheaf.open("user", settings=settings) as sheaf:
        newest, oldest = sheaf.log()

    assert (newest.by, [step.path for step in newest.revisions]) == ("outside", ["user_second.md"])
    assert [step.path for step in oldest.revisions] == ["user_first.md"]


def test_after_an_import_what_others_do_is_noticed_at_once(sheaf: Sheaf, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    for number in range(30):
        (source / f"n{number:02}.md").write_text(PLAIN)
    take_in(sheaf.own, str(source))
    assert sheaf.catalog().total == 30
    write(sheaf, "more.md")
    assert sheaf.catalog().total == 31
    write(sheaf, "n05.md", PLAIN.replace("name: n", "name: E"))

    assert next(sheaf.log("n05.md")).by == "outside"
    assert [row.name for row in sheaf.list() if row.path == "n05.md"] == ["E"]


def test_a_folder_that_could_not_be_looked_into_for_a_moment_is_no_memory_afterwards(sheaf: Sheaf) -> None:
    place = os.path.join(sheaf.root, "facts", "a.md")
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with open(place, "w", encoding="utf-8") as file:
        file.write("---\nname: n\ndescription: d\ntype: project\n---\ntext\n")
    assert "facts/a.md" in [row.path for row in sheaf.list()]
    with as_nobody(Path(sheaf.root).parent.parent):
        os.chmod(os.path.dirname(place), 0)
        assert "facts" in [row.path for row in sheaf.list()]
        os.chmod(os.path.dirname(place), 0o700)

        assert [row.path for row in sheaf.list() if row.path.startswith("facts")] == ["facts/a.md"]
