"""The history of a root: `.history/history.db` has every commit with its texts, and what belongs to them.

A commit is decided when its transaction is on the medium, which is the only flush that it waits for. Its files are
flushed later, and then it is called flushed: no power cut can undo it any more. The text of a version is there once,
however many changes name it. Where a path was left is the last change of that path.

The files are the only truth about the present. A database that is damaged or no history is set aside for a new one.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from itertools import groupby, takewhile

from memsheaf.errors import NotInHistory, PathRefused
from memsheaf.guard.paths import CATALOG, is_memory_path
from memsheaf.store import ABSENT, Commit, CommitStep, CommitSummary, Revision, Version, version_of
from memsheaf.store.safe_dir import READ, Folder
from memsheaf.store.sqlite_file import SIDE_FILES, Damaged, Database

DATABASE = "history.db"
DATABASE_FILES = (DATABASE, *(DATABASE + suffix for suffix in SIDE_FILES))
JOURNAL = f"{DATABASE}-journal"
SUPER_JOURNAL_MARK = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"  # at the end of a journal that names another file
FLUSHED = 2  # the state of commits that came with their files; that of others says nothing
COMMITS_PER_QUERY = 20
COMMITS_PER_DROP = 500
OTHERS = "@"  # how the author of a commit begins that another member of a team made: `@ana`
HUB, JOINED = "hub", "joined the hub"  # author of a commit that merges with a hub; reason of the first one
ERASED = "erased a memory"  # the reason of a commit that left the history without others
RENAMING = ("rename ", "replace ")  # how the reasons of commits begin that give a memory another name
MIGRATIONS = (
    """
CREATE TABLE commits (n INTEGER PRIMARY KEY, id TEXT NOT NULL, at TEXT NOT NULL, author TEXT NOT NULL,
  why TEXT NOT NULL, undoes TEXT NOT NULL, boot TEXT NOT NULL, state INTEGER NOT NULL) STRICT;
CREATE INDEX commits_by_id ON commits (id);
CREATE TABLE changes (n INTEGER NOT NULL, place INTEGER NOT NULL, path TEXT NOT NULL, before TEXT NOT NULL,
  after TEXT NOT NULL, PRIMARY KEY (n, place)) STRICT, WITHOUT ROWID;
CREATE INDEX changes_by_path ON changes (path, n);
CREATE TABLE texts (version TEXT PRIMARY KEY, data BLOB NOT NULL) STRICT;
CREATE TABLE tombstones (n INTEGER PRIMARY KEY, line BLOB NOT NULL) STRICT;
CREATE TABLE uses (n INTEGER PRIMARY KEY, day TEXT NOT NULL, path TEXT NOT NULL) STRICT;
CREATE TABLE catalogs (n INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE old_files (name TEXT PRIMARY KEY, size INTEGER NOT NULL, skipped INTEGER NOT NULL) STRICT;
CREATE TABLE facts (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT""",
    """
CREATE INDEX changes_by_before ON changes (before, n);
CREATE INDEX changes_by_after ON changes (after, n)""",
)
_ID = re.compile(r"[0-9a-f]{1,15}")
_VERSION = re.compile(r"([0-9a-f]{64})?")
_STEP = "SELECT n, place, before, after FROM commits JOIN changes USING (n) WHERE id = ? AND path = ?"
_UNFLUSHED = f"n > (SELECT ifnull(max(value), 0) FROM facts WHERE name = 'flushed') AND state < {FLUSHED}"
_ADD_COMMIT = """
INSERT INTO commits (n, id, at, author, why, undoes, boot, state)
SELECT CASE WHEN last < 1 << 62 THEN last + 1 END, ?, ?, ?, ?, ?, ?, ?
FROM (SELECT max(ifnull((SELECT max(n) FROM commits), 0), ifnull((SELECT max(n) FROM changes), 0)) AS last)"""
"""A copy that was made in between may have the changes of commits that it lacks."""
_GIVEN = "(SELECT value FROM json_each(?1))"
_HEAD = "(SELECT after FROM changes WHERE path = {} ORDER BY n DESC, place DESC LIMIT 1)"
_ALL_HEADS = f"""
WITH RECURSIVE known (path) AS (
  SELECT min(path) FROM changes
  UNION ALL SELECT (SELECT min(path) FROM changes WHERE path > known.path) FROM known WHERE path IS NOT NULL)
SELECT path, {_HEAD.format("known.path")} AS version FROM known WHERE path IS NOT NULL"""
_NOT_DROPPED = f"""
SELECT n, at FROM commits WHERE n > (SELECT ifnull(max(value), 0) FROM facts WHERE name = 'dropped')
ORDER BY n LIMIT {COMMITS_PER_DROP}"""
_DROP_TEXTS = """
DELETE FROM texts WHERE version IN (
  SELECT before FROM changes WHERE n BETWEEN ?1 AND ?2 UNION SELECT after FROM changes WHERE n BETWEEN ?1 AND ?2)
AND NOT EXISTS (SELECT 1 FROM changes WHERE before = version AND n > ?2)
AND NOT EXISTS (SELECT 1 FROM changes AS last WHERE last.after = version AND NOT EXISTS (
  SELECT 1 FROM changes WHERE path = last.path AND (n, place) > (last.n, last.place)))"""
"""Not dropped are the texts that a later commit retired, and those that a path was left at."""
_COMMITS = """
SELECT commits.n, id, at, author, why, undoes, path, before, after, old.data, new.data
FROM commits LEFT JOIN changes ON changes.n = commits.n {of_path}
LEFT JOIN texts AS old ON old.version = before LEFT JOIN texts AS new ON new.version = after
WHERE commits.n IN ({chosen}) ORDER BY commits.n {order}, place"""

_SUMMARIES = """
SELECT commits.n, id, at, author, why, undoes, path, before, after,
  EXISTS (SELECT 1 FROM texts WHERE version IN (before, after))
FROM commits JOIN changes USING (n) WHERE path LIKE '%.md'
AND commits.n > ifnull((SELECT n FROM commits WHERE at < ?1 ORDER BY n DESC LIMIT 1), 0)
AND (?2 IN ('', id) OR undoes <> '' OR instr(why, ?2))
ORDER BY commits.n DESC, place"""
_AUTHOR = (
    "SELECT author FROM changes JOIN commits USING (n) WHERE path = ? AND after = ?"
    f" AND NOT (author = 'user' AND why = '{JOINED}') ORDER BY n DESC LIMIT 1"
)


class History(Database):
    """One connection to a history, for any thread. Whoever changes it holds the lock of the store."""

    name = DATABASE
    migrations = MIGRATIONS

    @classmethod
    def check_files(cls, folder: Folder, *, create: bool) -> None:
        """Raise Damaged for files that SQLite must not open: a journal of a stranger names a file that it deletes."""
        for name in DATABASE_FILES:
            with suppress(FileNotFoundError):
                if not stat.S_ISREG(folder.stat(name).st_mode):
                    raise Damaged(f"{name} is not a plain file")
        with suppress(FileNotFoundError, PathRefused):
            fd, status = folder.open_stat(JOURNAL, READ)
            try:
                os.lseek(fd, max(0, status.st_size - len(SUPER_JOURNAL_MARK)), os.SEEK_SET)
                if os.read(fd, len(SUPER_JOURNAL_MARK)) == SUPER_JOURNAL_MARK:
                    if create:
                        folder.unlink(JOURNAL)
                    raise Damaged(f"{JOURNAL} names another file")
            finally:
                os.close(fd)

    # Commits

    def add(self, commit: Commit, boot: str, state: int = 0) -> None:
        """Add a commit: from here on it will be carried out, whatever happens."""
        words = [_encodable(word) for word in (commit.id, commit.at, commit.by, commit.why, commit.undoes, boot)]
        texts = [
            (version, data)
            for step in commit.revisions
            for version, data in ((step.before, step.old), (step.after, step.new))
            if data is not None
        ]
        with self.writing() as db:
            n = int(db.execute(_ADD_COMMIT, (*words, state)).lastrowid or 0)
            steps = [(n, place, *step[:3]) for place, step in enumerate(commit.revisions)]
            db.executemany("INSERT INTO changes VALUES (?, ?, ?, ?, ?)", steps)
            db.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?)", texts)

    def mark_flushed(self) -> None:
        """Note that no power cut can undo what was committed."""
        with self.writing(durable=False) as db:
            db.execute("INSERT OR REPLACE INTO facts SELECT 'flushed', ifnull(max(n), 0) FROM commits")

    def is_suspect(self, boot: str) -> bool:
        """Return True if a commit was made before a reboot, and not flushed."""
        return bool(self.rows(f"SELECT 1 FROM commits WHERE {_UNFLUSHED} AND (boot <> ?1 OR ?1 = '') LIMIT 1", boot))

    def to_flush(self) -> list[Commit]:
        """Return the commits that a power cut could still undo, oldest first."""
        return [commit for _, commit in self._select(f"SELECT n FROM commits WHERE {_UNFLUSHED}", order="ASC")]

    def paths_to_flush(self) -> set[str]:
        """Return the paths that a power cut could still undo changes of."""
        rows = self.rows(f"SELECT path FROM commits JOIN changes USING (n) WHERE {_UNFLUSHED}")
        return {path for (path,) in rows}

    def last_id(self) -> str:
        """Return the id of the last commit, "" if there is none."""
        rows = self.rows("SELECT id FROM commits ORDER BY n DESC LIMIT 1")
        return str(rows[0][0]) if rows else ""

    def heads(self, paths: Collection[str] | None = None) -> dict[str, Version]:
        """Return the versions that all paths or these were left at; removed ones are left out."""
        if paths is None:
            rows = self.rows(_ALL_HEADS)
        else:
            rows = [row for path in paths for row in self.rows(f"SELECT ?1, {_HEAD.format('?1')}", path)]
        return {path: version for path, version in rows if version and is_version(version) and is_path(path)}

    def text(self, version: Version) -> bytes | None:
        """Return the text of a version, None if it is not there any more."""
        rows = self.rows("SELECT data FROM texts WHERE version = ?", version)
        return rows[0][0] if rows and _has_version(rows[0][0], version) else None

    def history(self, path: str | None = None, *, before: str = "") -> Iterator[Commit]:
        """Yield the commits before one, newest first; with `path`, those of that text with that one step."""
        chosen, of_path = "SELECT n FROM commits WHERE n < ?1", ""
        if path is not None:
            chosen, of_path = "SELECT DISTINCT n FROM changes WHERE path = ?2 AND n < ?1", "AND path = ?2"
        chosen += f" ORDER BY n DESC LIMIT {COMMITS_PER_QUERY}"
        end = self.rows("SELECT max(n) FROM commits WHERE id = ? AND id <> ''", before)[0][0] or 1 << 62
        while page := self._select(chosen, end, *([] if path is None else [path]), of_path=of_path):
            yield from (commit for _, commit in page if commit.revisions or path is None)
            end = page[-1][0]

    def trail(self, path: str) -> Iterator[Commit]:
        """Yield the commits of one text, newest first, also from when it had other names: each with that one step."""
        before = ""
        renamings: set[str] = set()  # the ids of a hostile history may lead back
        while path:
            older = ""
            for commit in self.history(path, before=before):
                yield commit
                if commit.revisions[0].before != ABSENT or commit.id in renamings:
                    continue
                if older := self._find_older_name(path, commit.id):
                    before = commit.id
                    renamings.add(before)
                    break
            path = older

    def steps_before_renaming(self, path: str) -> Iterator[tuple[str, str]]:
        """Yield the steps of a text under its older names: the id of each commit, and the name."""
        for commit in self.trail(path):
            step = commit.revisions[0]
            if step.path != path:
                yield commit.id, step.path
            if step.before == ABSENT and (older := self._find_older_name(step.path, commit.id)):
                yield commit.id, older  # where it ended

    def _find_older_name(self, path: str, commit_id: str) -> str:
        """Return the name from which a commit moved a text to this path; "" if it did not."""
        try:
            commit = original = self.find(commit_id)
            undone = {""}
            while original.undoes not in undone:
                undone.add(original.undoes)
                original = self.find(original.undoes)
        except NotInHistory:
            return ""
        came = [step.path for step in commit.revisions if step.before == ABSENT]
        went = [step.path for step in commit.revisions if step.after == ABSENT]
        is_renaming = original.why.startswith(RENAMING) and came == [path] and len(went) == 1
        return went[0] if is_renaming else ""

    def find_version(self, path: str, version: Version) -> bytes:
        """Return the text of the version that begins like this. Raises NotInHistory."""
        texts: dict[Version, bytes] = {}
        for commit in self.trail(path):
            for step in commit.revisions:
                for name, text in ((step.after, step.new), (step.before, step.old)):
                    if text is not None and name == version:
                        return text
                    if text is not None and name.startswith(version):
                        texts[name] = text
        if len(texts) == 1:
            return texts.popitem()[1]
        raise NotInHistory(f"the history holds {len(texts) or 'no'} versions {version[:12]!r} of {path!r}")

    def last_standing(self, *, except_by: str = "", events: bool = True) -> Commit:
        """Return the newest commit that was not undone and can be: no undo, and nothing that a hub replaced since.

        Raises:
            NotInHistory: there is none left.
        """
        undone: set[str] = set()
        came: set[str] = set()  # from the hub
        for commit in self.history():
            paths = {step.path for step in commit.revisions}
            if commit.id in undone:
                continue
            if commit.undoes:
                undone.add(commit.undoes)
            elif commit.by == HUB or commit.by.startswith(OTHERS):
                came |= paths
            elif commit.by == except_by or commit.why == JOINED:
                continue
            elif paths and came.isdisjoint(paths) and (events or any(path.endswith(".md") for path in paths)):
                return commit
        raise NotInHistory("nothing is left to undo")

    def summaries(self, since: str, group: str = "") -> list[CommitSummary]:
        """Return the commits about Markdown files from a moment on, newest first, without texts.

        With a `group`, those that name it, and undos.
        """
        summaries = []
        by_commit = groupby(self.rows(_SUMMARIES, since, group), key=lambda row: row[:6])
        for (_, id, at, by, why, undoes), rows in by_commit:
            steps = tuple(CommitStep(row[6], row[7], row[8], bool(row[9])) for row in rows if is_path(row[6]))
            if steps:
                summaries.append(CommitSummary(id, at, by, why, undoes, steps))
        return summaries

    def authors(self, files: Collection[tuple[str, Version]]) -> dict[tuple[str, Version], str]:
        """Return who made the last commit that brought each of these versions of a path, as far as it is known.

        What a folder had when it joined a hub was written before.
        """
        return {file: author for file in files for (author,) in self.rows(_AUTHOR, *file)}

    def find(self, commit_id: str) -> Commit:
        """Return the newest commit with this id, or the only one whose id begins like this. Raises NotInHistory."""
        rows = self.rows("SELECT max(n) FROM commits WHERE id = ?", commit_id)
        if rows[0][0] is None:
            rows = self.rows("SELECT n FROM commits WHERE id >= ?1 AND id < ?1 || 'g'", _encodable(commit_id))
        found = self._select("SELECT ?", *rows[0]) if len(rows) == 1 else []
        if not found:
            raise NotInHistory(f"{len(rows) or 'no'} commits begin with {commit_id!r}")
        return found[0][1]

    def find_all(self, ids: Iterable[str]) -> dict[str, Commit]:
        """Return these commits, as far as they are there."""
        chosen = "SELECT max(n) FROM commits WHERE id = ?"
        return {id: commit for id in ids for _, commit in self._select(chosen, id)}

    def _select(
        self, chosen: str, *values: object, of_path: str = "", order: str = "DESC"
    ) -> list[tuple[int, Commit]]:
        sql = _COMMITS.format(of_path=of_path, chosen=chosen, order=order)
        found = []
        for head, rows in groupby(self.rows(sql, *values), key=lambda row: row[:6]):
            n, *words = head
            id, at, by, why, undoes = map(str, words)
            # a change that bit rot reached, or that somebody forged, is not ours to tell
            steps = tuple(step for row in rows if (step := decode_step(*row[6:])))
            found.append((n, Commit(id, at, by, why, steps, undoes)))
        return found

    def graft(self, commits: Collection[Commit]) -> int:
        """Add finished commits that another history had, oldest first, and return how many were new.

        Left out are the paths whose past came with others of these before.
        """
        known = {id for (id,) in self.rows("SELECT id FROM commits")}
        had = {step.path for commit in commits if commit.id in known for step in commit.revisions}
        fresh = [commit for commit in commits if commit.id not in known]
        with self.writing():
            for commit in fresh:
                steps = tuple(step for step in commit.revisions if step.path not in had)
                if steps or not commit.revisions:
                    self.add(commit._replace(revisions=steps), "", FLUSHED)
        return len(fresh)

    # Forgetting

    def forget(self, steps: Iterable[tuple[str, str]], names: Collection[str]) -> dict[Version, bytes]:
        """Remove all changes of these names, and these steps: each the id of a commit, and a path.

        Gives the texts that they had. One that another change names as well stays there.
        """
        with self.writing() as db:
            found: set[tuple[int, int, Version, Version]] = set()
            for name in names:
                found.update(self.rows("SELECT n, place, before, after FROM changes WHERE path = ?", name))
            for step in steps:
                found.update(self.rows(_STEP, *step))
            versions = json.dumps(
                sorted({version for row in found for version in row[2:] if version and is_version(version)})
            )
            texts: dict[Version, bytes] = dict.fromkeys(json.loads(versions), b"")
            texts.update(db.execute(f"SELECT version, data FROM texts WHERE version IN {_GIVEN}", (versions,)))
            db.executemany("DELETE FROM changes WHERE n = ? AND place = ?", [row[:2] for row in found])
            db.executemany(
                "DELETE FROM commits WHERE n = ?1 AND NOT EXISTS (SELECT 1 FROM changes WHERE n = ?1)",
                {row[:1] for row in found},
            )
            # a number may be given once more, and that commit is not flushed
            db.execute(
                "UPDATE facts SET value = min(value, (SELECT ifnull(max(n), 0) FROM commits))"
                " WHERE name IN ('flushed', 'dropped')"
            )
            db.execute(
                f"DELETE FROM texts WHERE version IN {_GIVEN} AND version NOT IN (SELECT before FROM changes"
                f" WHERE before IN {_GIVEN} UNION SELECT after FROM changes WHERE after IN {_GIVEN})",
                (versions,),
            )
        return texts

    def drop_texts(self, cutoff: str) -> tuple[int, bool]:
        """Drop texts that were retired before a moment; return how many, and True if more commits wait.

        It goes on behind the commits that it has seen before, and looks at a limited number of them.
        """
        due = [n for n, _ in takewhile(lambda row: row[1] < cutoff, self.rows(_NOT_DROPPED))]
        if not due:
            return 0, False
        with self.writing() as db:
            count = db.execute(_DROP_TEXTS, (due[0], due[-1])).rowcount
            db.execute("INSERT OR REPLACE INTO facts VALUES ('dropped', ?)", (due[-1],))
        return count, len(due) == COMMITS_PER_DROP

    def find_traces(self, versions: Collection[Version], pieces: Collection[bytes]) -> tuple[str, set[str]]:
        """Search for what was forgotten: why it may still be here, "" if it is not; and whose texts have pieces."""

        def has_piece(data: bytes) -> bool:
            return any(piece in data for piece in pieces)

        with self._lock:
            self._db.create_function("has_piece", 1, has_piece)
            holding = json.dumps(
                [row[0] for row in self.rows("SELECT version FROM texts WHERE has_piece(CAST(data AS BLOB))")]
            )
            sql = f"SELECT DISTINCT path FROM changes WHERE before IN {_GIVEN} OR after IN {_GIVEN}"
            telling = (
                "SELECT DISTINCT path FROM commits LEFT JOIN changes USING (n) WHERE has_piece(CAST(why AS BLOB))"
            )
            others = {path for (path,) in [*self.rows(sql, holding), *self.rows(telling)]}
            if None in others or self.rows(sql, json.dumps(list(versions))):
                return "it has the text", others - {None}
            if not others and has_piece(self.serialize()):
                return "it has the text", set()
            return ("" if self.empty_log() else "another process reads it, and its log cannot be emptied"), others

    # What is noted beside the commits

    def fact(self, name: str) -> str:
        """Return what was noted under a name, "" if nothing was."""
        rows = self.rows("SELECT value FROM facts WHERE name = ?", name)
        return str(rows[0][0]) if rows else ""

    def note_fact(self, name: str, value: str) -> None:
        """Note a value under a name."""
        with self.writing(durable=False) as db:
            db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))


def is_path(path: object) -> bool:
    """Return False for a path that no change of ours can have: a history that came with a folder may be hostile."""
    return isinstance(path, str) and (path == CATALOG or is_memory_path(path))


def is_commit_id(name: str) -> bool:
    """Return True if a commit can have this id."""
    return _ID.fullmatch(name) is not None


def decode_step(path: str, before: Version, after: Version, old: bytes | None, new: bytes | None) -> Revision | None:
    """Return what was stored of a change, without texts that bit rot reached; None if it is not one of ours."""
    if not is_path(path) or not is_version(before) or not is_version(after):
        return None
    old, new = (data if _has_version(data, version) else None for data, version in ((old, before), (new, after)))
    return Revision(path, before, after, old, new)


def is_version(version: object) -> bool:
    """Return False for what cannot be the version of a text, or of none."""
    return isinstance(version, str) and _VERSION.fullmatch(version) is not None


def _has_version(data: object, version: Version) -> bool:
    return isinstance(data, bytes) and version_of(data) == version


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
