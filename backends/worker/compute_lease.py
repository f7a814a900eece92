"""Models that compute on the same processors take turns."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

LONGEST_WAIT = 5.0
"""Seconds. A courtesy, not a duty: one that computes for longer, or hangs, keeps nobody else from
working. It is well below the time after which a silent worker is taken for dead."""


class ComputeLease:
    """The right to compute, held for one step at a time by one of several processes.

    Two that decode at once slow each other several times over: the threads of a model wait for one
    another at every operation, and the system gives the processors to the other's. So a step is
    computed under a lock. Whoever wants it next holds a second lock, the turnstile, while waiting:
    the one that has just computed finds that taken, and two busy workers strictly alternate. The
    kernel frees the locks of a process that dies. Not thread-safe.
    """

    def __init__(self, path: Path, longest_wait: float = LONGEST_WAIT) -> None:
        """All who pass the same path share one lease; raises `OSError` where it cannot be made."""
        self._longest_wait = longest_wait
        self._main = _LockFile(path)
        try:
            self._turnstile = _LockFile(path.with_name(path.name + ".next"))
        except BaseException:
            self._main.close()
            raise
        self._waiter: _Waiter | None = None
        self._held = False

    def acquire(self) -> bool:
        """Wait for the turn, at most `longest_wait`; returns whether another one had it.

        While that one still computes after this time, nobody waits for it again.
        """
        if (self._waiter is None or not self._waiter.busy) and self._turnstile.try_lock():
            self._held = self._main.try_lock()
            if self._held:
                self._turnstile.unlock()
                return False
        # An interruptible wait needs a thread of its own: no lock that dies with its holder can
        # be waited for with a time limit, and asking again and again disturbs who computes.
        self._waiter = self._waiter or _Waiter(self._turnstile, self._main)
        self._held = self._waiter.wait(self._longest_wait)
        return True

    def release(self) -> None:
        """Let the next one compute; does nothing where the wait was in vain."""
        if self._held:
            self._held = False
            self._main.unlock()

    def close(self) -> None:
        """Give everything back."""
        self.release()
        if self._waiter is None or self._waiter.stop():
            self._turnstile.close()
            self._main.close()


class _Waiter:
    """Waits for the locks in a thread, so that somebody can lose patience."""

    def __init__(self, turnstile: _LockFile, main: _LockFile) -> None:
        self._turnstile = turnstile
        self._main = main
        self._asked = threading.Semaphore(0)
        self._granted = threading.Semaphore(0)
        self._state = threading.Lock()
        self._abandoned = False
        self._stopped = False
        self.busy = False
        """Whether the thread is still at it."""
        self._thread = threading.Thread(target=self._run, name="compute lease", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Whether the main lock is taken now; not where an earlier wait has not ended."""
        if self.busy:
            return False
        self.busy = True
        self._asked.release()
        if self._granted.acquire(timeout=seconds):
            return True
        with self._state:
            self._abandoned = self.busy
            return not self.busy and self._granted.acquire(blocking=False)

    def stop(self) -> bool:
        """End the thread; False where it cannot be reached before its wait ends."""
        self._stopped = True
        if self.busy:
            return False
        self._asked.release()
        self._thread.join()
        return True

    def _run(self) -> None:
        while self._asked.acquire() and not self._stopped:
            self._turnstile.lock()
            self._main.lock()
            self._turnstile.unlock()
            with self._state:
                self.busy = False  # before the other thread can ask again
                if self._abandoned:
                    self._abandoned = False
                    self._main.unlock()
                else:
                    self._granted.release()


class _LockFile:
    """A file that is locked and unlocked many times, and stays open in between."""

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        self._fd = os.open(path, flags, 0o600)
        self._locked = False

    def try_lock(self) -> bool:
        """Take the lock if nobody has it."""
        try:
            if sys.platform == "win32":
                msvcrt.locking(self._fd, msvcrt.LK_NBLCK, 1)
            else:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):  # what Unix and Windows say for "taken"
            return False
        self._locked = True
        return True

    def lock(self) -> None:
        """Wait until the lock is taken; one that it has already stays so."""
        if self._locked:
            return
        if sys.platform == "win32":
            while not self.try_lock():  # its own wait asks once a second
                time.sleep(0.001)
        else:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            self._locked = True

    def unlock(self) -> None:
        """Give the lock back."""
        self._locked = False
        if sys.platform == "win32":
            msvcrt.locking(self._fd, msvcrt.LK_UNLCK, 1)
        else:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file, and with it the lock."""
        os.close(self._fd)
