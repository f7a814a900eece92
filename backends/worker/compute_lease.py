"""A lock under which models that compute on the same processors take turns."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

from ingle.models.file_lock import lock_open_file

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

LONGEST_WAIT = 5.0
"""Seconds after which a process computes without its turn, so that one that hangs blocks no other.

It is well below the time after which a worker that sends nothing is killed.
"""


class ComputeLease:
    """The right to compute, held for one step at a time by one of several processes.

    Two models that decode at once slow each other several times over: the threads of a model wait
    for each other at every operation, and the system gives the processors to the other model. So
    each step is computed under a lock. The next in line holds a second lock, the turnstile, while
    it waits: the process that has just computed finds it taken, so two busy workers strictly
    alternate. The kernel frees the locks of a process that dies. Not thread-safe.
    """

    def __init__(self, path: Path, longest_wait: float = LONGEST_WAIT) -> None:
        """All that pass the same path share one lease; raises `OSError` if it cannot be made."""
        self._longest_wait = longest_wait
        self._main = _LockFile(path)
        try:
            self._turnstile = _LockFile(path.with_name(path.name + ".next"))
        except BaseException:
            self._main.close()
            raise
        self._wait: _Wait | None = None
        self._held = False

    def acquire(self) -> bool:
        """Wait for the turn, at most `longest_wait`; return whether another process had it.

        While that one still computes after this time, it is not waited for again.
        """
        if self._wait is not None and self._wait.busy:
            return True
        if self._turnstile.try_lock():
            self._held = self._main.try_lock()
            if self._held:
                self._turnstile.unlock()
                return False
        # A wait with a time limit needs a thread: locks that are freed with their holder have no
        # time limit, and polling would disturb the process that computes.
        self._wait = _Wait(self._turnstile, self._main)
        self._held = self._wait.granted(self._longest_wait)
        return True

    def release(self) -> None:
        """Let the next process compute; does nothing if the lease was not obtained."""
        if self._held:
            self._held = False
            self._main.unlock()

    def close(self) -> None:
        """Release both locks, unless a wait for them has not ended."""
        self.release()
        if self._wait is None or not self._wait.busy:
            self._turnstile.close()
            self._main.close()


class _Wait:
    """One wait for the locks, in a thread, so that it can be abandoned."""

    def __init__(self, turnstile: _LockFile, main: _LockFile) -> None:
        self._turnstile = turnstile
        self._main = main
        self._state = threading.Lock()
        self._granted = threading.Event()
        self._abandoned = False
        self.busy = True
        """Whether the thread still uses the locks."""
        threading.Thread(target=self._run, name="compute lease", daemon=True).start()

    def granted(self, seconds: float) -> bool:
        """Return whether the main lock is taken in time; else it is released once it is."""
        self._granted.wait(seconds)
        with self._state:
            self._abandoned = not self._granted.is_set()
            return not self._abandoned

    def _run(self) -> None:
        self._turnstile.lock()
        self._main.lock()
        self._turnstile.unlock()
        with self._state:
            if self._abandoned:
                self._main.unlock()
            else:
                self._granted.set()
            self.busy = False


class _LockFile:
    """A file that is locked and unlocked many times, and stays open in between."""

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        self._fd = os.open(path, flags, 0o600)
        self._locked = False

    def try_lock(self) -> bool:
        """Take the lock if it is free; return whether it was."""
        self._locked = lock_open_file(self._fd)
        return self._locked

    def lock(self) -> None:
        """Wait until the lock is taken; does nothing if it is already held."""
        if self._locked:
            return
        if sys.platform == "win32":
            while not self.try_lock():  # its own wait asks once a second
                time.sleep(0.001)
        else:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            self._locked = True

    def unlock(self) -> None:
        """Release the lock."""
        self._locked = False
        if sys.platform == "win32":
            msvcrt.locking(self._fd, msvcrt.LK_UNLCK, 1)
        else:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file, and with it the lock."""
        os.close(self._fd)
