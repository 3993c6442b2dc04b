"""Take away what Windows lacks, for every Python process that has this folder on its PYTHONPATH.

The standard library is loaded first, since its own code for this system needs these names. What is left is what our
code would find on Windows: no POSIX modules, functions, signals or sockets, and `msvcrt` for locks. Paths stay those
of this system, so this is no substitute for a run on Windows.
"""

from __future__ import annotations

import _socket
import asyncio
import concurrent.futures
import ctypes
import fcntl
import http.client
import importlib
import logging.handlers
import multiprocessing
import os
import random
import selectors
import shutil
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import sysconfig
import tempfile
import types
import urllib.request
import uuid
import webbrowser

LOADED = (asyncio, concurrent.futures, ctypes, http.client, importlib, logging.handlers, multiprocessing, random,
          selectors, sqlite3, ssl, tempfile, urllib.request, uuid, webbrowser)  # fmt: skip
MODULES = ["fcntl", "pwd", "grp", "resource", "termios", "tty", "pty", "syslog"]
FUNCTIONS = [
    *("getuid", "geteuid", "getgid", "getegid", "getgroups", "getpgid", "getpgrp", "getsid", "setsid", "setpgid"),
    *("fork", "forkpty", "killpg", "posix_spawn", "posix_spawnp", "wait", "waitid", "nice", "getpriority"),
    *("setpriority", "PRIO_PROCESS", "chown", "fchown", "lchown", "fchmod", "fchdir", "mkfifo", "sync", "fdatasync"),
    *("statvfs", "fstatvfs", "uname", "sysconf", "getloadavg", "sched_getaffinity", "sched_setaffinity", "pread"),
    *("pwrite", "readv", "writev", "pipe2", "memfd_create", "copy_file_range", "posix_fallocate", "posix_fadvise"),
    *("register_at_fork", "openpty", "ttyname", "ctermid", "O_NOFOLLOW", "O_DIRECTORY", "O_CLOEXEC", "O_NONBLOCK"),
    *("O_SYNC", "O_DSYNC", "O_PATH", "POSIX_SPAWN_OPEN", "POSIX_SPAWN_DUP2"),
]
SIGNALS = [
    *("SIGKILL", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGPIPE", "SIGURG", "SIGCHLD", "SIGCONT"),
    *("SIGWINCH", "SIGTSTP", "setitimer", "getitimer", "ITIMER_REAL", "alarm", "pthread_sigmask", "pthread_kill"),
    *("siginterrupt", "sigwait", "sigpending"),
]


def _lock(handle: int, mode: int, size: int) -> None:
    fcntl.flock(handle, fcntl.LOCK_UN if mode == 0 else fcntl.LOCK_EX | fcntl.LOCK_NB)


sysconfig.get_config_vars()  # kept from now on
for name in MODULES:
    sys.modules[name] = None  # type: ignore[assignment]  # importing it raises ImportError
for module, names in ((os, FUNCTIONS), (signal, SIGNALS), (socket, ["AF_UNIX"]), (_socket, ["AF_UNIX"])):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
for capabilities in (os.supports_dir_fd, os.supports_fd):
    capabilities.clear()
subprocess.Popen.kill = subprocess.Popen.terminate  # type: ignore[method-assign]
shutil._winapi = types.SimpleNamespace(NeedCurrentDirectoryForExePath=lambda name: False)  # type: ignore[attr-defined]
msvcrt = types.ModuleType("msvcrt")
vars(msvcrt).update(locking=_lock, LK_UNLCK=0, LK_LOCK=1, LK_NBLCK=2)
sys.modules["msvcrt"] = msvcrt
sys.platform = "win32"
