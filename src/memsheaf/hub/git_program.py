"""The git program on one bare repository of ours: run without prompts, hooks, signatures or clean-up of its own.

The user's configuration for reaching a remote applies: ssh keys, agents and settings, credential helpers, proxies,
`insteadOf`. Settings that would change the result do not. Git runs in a session of its own: it has no terminal to ask
at, and a time-out ends it together with its children.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from tempfile import TemporaryFile
from typing import IO
from urllib.parse import quote, unquote

from memsheaf.errors import HubRefused, HubUnreachable, MemsheafError
from memsheaf.hub import time_left
from memsheaf.text.neutralize import one_line

REMOTE = "memsheaf-hub"
"""What the remote is called on the command line: its address, which may hold a password, is not on it."""
INSTALL_GIT = "Install git 2.31 or newer (https://git-scm.com/downloads), then run this again."
INSTALL_SSH = (
    "Install OpenSSH (`apt install openssh-client`, `dnf install openssh-clients`), or take an https:// address."
)
TOKEN = 8
"""From how many characters on a name is taken out of what git says: it may be a token."""

_SETTINGS = {
    "core.hooksPath": os.devnull, "core.fsmonitor": "false", "core.askPass": "", "core.logAllRefUpdates": "false",
    "credential.interactive": "false", "diff.orderFile": os.devnull, "fetch.fsckObjects": "false",
    "fetch.prune": "false", "fetch.pruneTags": "false", "fetch.recurseSubmodules": "false",
    "fetch.writeCommitGraph": "false", "gc.auto": "0", "gc.packRefs": "false", "log.mailmap": "false",
    "log.showRoot": "true", "log.showSignature": "false", "maintenance.auto": "false", "push.followTags": "false",
    "push.gpgSign": "false", "push.negotiate": "false", "push.pushOption": "", "push.recurseSubmodules": "no",
    "transfer.fsckObjects": "false",
}  # fmt: skip
_OURS = {
    "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "", "SSH_ASKPASS": "false", "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_DEFAULT_REF_FORMAT": "files", "LC_ALL": "C",
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
}  # fmt: skip
_HELPER = """!f() { test "$1" = get && test "$MEMSHEAF_GIT_LOGIN" && printf '%s\\n' "$MEMSHEAF_GIT_LOGIN"; }; f"""
_KEPT = re.compile(r"(?!GIT_)|GIT_(SSH|SSL_|HTTP_|PROXY_|CONFIG_(GLOBAL|SYSTEM|NOSYSTEM)$|EXEC_PATH)")
_REFUSED = re.compile(
    r"(?i)permission|denied|(?<![\w/-])40[13]\b|authentication|not granted|could not read (username|password)"
    r"|not allowed|dubious ownership|read-only|unauthorized|host key verification|protected branch|prohibited"
)
_CANNOT_RUN = re.compile(rb"(?m)^error: cannot run ([^\s:]+): No such file")
_HEARD = re.compile(rb"(?m)^remote: (?:error: |fatal: )?([^%\r\n]+)$")
_NO_NEWS = re.compile(
    r"(?i)could not read from remote|^please make sure|^and the repository exists|^\S* *$|^hint:|^fast-import:"
    r"|hung up unexpectedly"
)


class LocalGitFailed(Exception):
    """Git failed on the local copy of the hub, which can be fetched again."""


class GitProgram:
    """Git, on the bare repository in a folder, for one remote."""

    def __init__(self, folder: str, url: str, shown: str, timeout: float) -> None:
        self.folder = folder
        self._timeout = timeout
        self.heard = ""  # the first line of what the remote said last, progress apart
        self._shown = shown
        self._url, name, password = split_login(url)  # for a helper of ours: no list of processes shows it
        self._secrets = [one for one in (password, name if len(name) >= TOKEN else "") if one]
        settings = _SETTINGS | {f"remote.{REMOTE}.url": self._url, f"credential.{self._url}.helper": _HELPER}
        login = f"username={name}\npassword={password}" if name or password else ""
        if name:  # what the user's own helpers are asked for
            settings[f"credential.{self._url}.username"] = name
        self._environment = {name: value for name, value in os.environ.items() if _KEPT.match(name)}
        self._environment |= _OURS | {"GIT_DIR": folder, "GIT_CONFIG_COUNT": str(len(settings))}
        self._environment["MEMSHEAF_GIT_LOGIN"] = login
        for number, (key, value) in enumerate(settings.items()):
            self._environment |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}

    def make_repository(self) -> None:
        """Make the repository if it is not there. Raises LocalGitFailed, OSError."""
        if not os.path.isfile(os.path.join(self.folder, "HEAD")):
            self.remove_repository()
            os.makedirs(self.folder, mode=0o700)
            self.local("init", "--quiet", "--bare", "--template=")

    def remove_repository(self) -> None:
        """Remove it with all that it holds. Raises OSError when something is left."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self.folder)

    def local(self, *words: str, given: bytes = b"") -> bytes:
        """Return what git prints about our own copy. Raises LocalGitFailed."""
        with self._start(words, stdin=PIPE if given else DEVNULL) as process:
            answer, said = process.communicate(given or None)
        if process.returncode:
            raise LocalGitFailed(self._told(said, f"git {words[0]} ended with {process.returncode}"))
        return answer

    @contextmanager
    def talk(self, *words: str) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
        """Git at work: what it reads and what it writes. Raises LocalGitFailed."""
        with TemporaryFile() as said, self._start(words, stdin=PIPE, stderr=said) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                yield process.stdin, process.stdout
                process.stdin.close()
                ended = process.wait()
            except (BrokenPipeError, IndexError, ValueError):  # it ended before it answered
                process.kill()
                ended = -1
            if ended:
                said.seek(0)
                raise LocalGitFailed(self._told(said.read(), f"git {words[0]} ended with {ended}"))

    def blobs(self, names: Sequence[str], limit: int) -> Iterator[tuple[str, bytes | None]]:
        """The texts of these objects, None for those that are larger than the limit. Raises LocalGitFailed."""
        with TemporaryFile() as wanted:
            wanted.write("".join(f"{name}\n" for name in names).encode())
            wanted.seek(0)
            with self._start(("cat-file", "--batch", "--buffer"), stdin=wanted) as process:
                assert process.stdout is not None
                for name in names:
                    words = process.stdout.readline().split()
                    if len(words) != 3:
                        raise LocalGitFailed(f"the object {name} is missing")
                    size = int(words[2])
                    data = process.stdout.read(size + 1)[:-1] if size <= limit else None
                    for start in range(0, size + 1 if data is None else 0, 1 << 20):
                        process.stdout.read(min(size + 1 - start, 1 << 20))
                    yield name, data

    def ask(self, *words: str) -> tuple[int, bytes, str]:
        """Talk with the remote: how git ended, what it printed, and the line that says why it failed.

        Raises HubRefused when git or ssh is not installed, HubUnreachable when it says nothing for the time-out;
        LocalGitFailed.
        """
        if re.match(r"-|\w+::", self._url):
            raise HubRefused(f"{self._shown!r} is an address at which git would run a program")
        seen, silent = 0, HubUnreachable(f"{self._shown} does not answer")
        if not time_left(self._timeout):
            raise silent
        with self._start(words) as process:
            while True:
                try:
                    answer, said = process.communicate(timeout=time_left(self._timeout))
                    break
                except TimeoutExpired as late:
                    if len(late.stderr or b"") == seen or not time_left(self._timeout):
                        raise silent from None
                    seen = len(late.stderr or b"")
        if missing := _CANNOT_RUN.search(said):
            raise HubRefused(f"{os.fsdecode(missing[1])} is not installed", hint=INSTALL_SSH)
        why = self._told(said, f"git ended with {process.returncode}")
        heard = _HEARD.search(said)
        self.heard = one_line(heard[1].decode("utf-8", "replace"), 200) if heard else ""
        if process.returncode and (os.fsencode(self.folder) in said or b"did not send all necessary objects" in said):
            raise LocalGitFailed(why)  # of what is wrong there git says where, but for an object that is missing
        return process.returncode, answer, why

    def failure(self, why: str, *, refused: bool = False) -> MemsheafError:
        """The error for what git said of a remote; `refused` when it answered."""
        if "(non-fast-forward)" in why:
            hint = "An erasure replaces the history: allow forced pushes to the branches memsheaf/*, then sync again."
            return HubRefused(f"{self._shown} does not let a history be replaced", hint=hint)
        if "shallow roots" in why:
            return HubRefused(
                f"{self._shown} is a shallow clone, without most of the history",
                hint="Run `git fetch --unshallow` there, or take the repository that it was cloned from.",
            )
        if f"'{REMOTE}'" in why:
            return HubRefused("this git is too old", hint=INSTALL_GIT)
        if refused or _REFUSED.search(why):
            found = HubRefused(f"{self._shown}: {why}")
            found.lacks_permission = refused and bool(_REFUSED.search(why))
            found.is_of_commit = refused and not found.lacks_permission
            found.hint = f"Try it by hand: git ls-remote {self._shown}"
            if refused:
                found.hint = "Let this machine push to the branches memsheaf/*, then run `memsheaf hub sync`."
            return found
        return HubUnreachable(f"{self._shown}: {why}")

    @contextmanager
    def _start(
        self, words: Sequence[str], *, stdin: int | IO[bytes] = DEVNULL, stderr: int | IO[bytes] = PIPE
    ) -> Iterator[Popen[bytes]]:
        try:
            process = Popen(
                ["git", *words], stdin=stdin, stdout=PIPE, stderr=stderr, env=self._environment, cwd=self.folder,
                start_new_session=True,
            )  # fmt: skip
        except FileNotFoundError:
            if not os.path.isdir(self.folder):
                raise LocalGitFailed("the folder is gone") from None
            raise HubRefused("git is not installed", hint=INSTALL_GIT) from None
        ended = False
        try:
            yield process
            ended = process.poll() is not None
        finally:
            if not ended:
                _end_group(process)
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe:
                    with suppress(OSError):
                        pipe.close()

    def _told(self, said: bytes, otherwise: str) -> str:
        """The last line of an error message, without passwords."""
        lines = re.split(r"[\r\n]+", said.decode("utf-8", "replace"))
        news = [line for line in lines if not _NO_NEWS.search(line)] or [line for line in lines if line.strip()]
        text = re.sub(r"^((fatal|error|remote): *)+", "", news[-1]) if news else otherwise
        for secret in self._secrets:
            text = text.replace(secret, "***").replace(quote(secret, safe=""), "***")
        return one_line(re.sub(r"(?<=://)[^\s/@]*@", "", text), 300)


def _end_group(process: Popen[bytes]) -> None:
    """Terminate a program and its children; git first gets time to remove its lock files."""
    for name in ("SIGTERM", "SIGKILL"):
        with suppress(OSError, AttributeError, TimeoutExpired):  # Windows has neither groups nor SIGKILL
            os.killpg(process.pid, getattr(signal, name))
            process.wait(1.0)
    process.kill()
    process.wait()


def split_login(url: str) -> tuple[str, str, str]:
    """An address as git gets it, and the name and the password that are not in it.

    >>> split_login("https://ana:t%20k@example.com/a.git")
    ('https://example.com/a.git', 'ana', 't k')
    >>> split_login("ssh://git:pw@example.com:22/a.git")
    ('ssh://git@example.com:22/a.git', '', 'pw')
    >>> split_login("git@example.com:ana/memory.git")
    ('git@example.com:ana/memory.git', '', '')
    """
    found = re.fullmatch(r"(?:(https?://)([^/:@]*)|(\w+://[^/:@]*))(?::([^/@]*))?(@?)(.*)", url, re.DOTALL)
    if not found or not found[5]:
        return url, "", ""
    place = found[1] + found[6] if found[1] else f"{found[3]}@{found[6]}"
    return place, unquote(found[2] or ""), unquote(found[4] or "")
