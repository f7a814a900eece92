"""The other ranks of a divided model: processes of this one, which end together with it."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from ...base.child_process import child_environment, signal_name
from ...base.errors import EngineFault, LoadFailed, OutOfMemory
from ...base.framing import read_body
from ...base.load_spec import LoadSpec
from .messages import (
    FromFollower,
    LoadPart,
    PartFailed,
    PartLoaded,
    ToFollower,
    from_follower,
    rank_frame,
)

_MODULE = "ingle.backends.cuda.parallel"
_ERRORS = {error.code: error for error in (LoadFailed, OutOfMemory, EngineFault)}
_GRACE = 2.0
"""Seconds in which this rank reports by itself why another one failed."""
_BROKEN = 3


class RankTeam:
    """Starts the ranks 1 to `count` - 1 and talks to them.

    If one of them ends, so does this process, and by the same signal: a rank that waits for
    another within a step waits for ever.
    """

    def __init__(self, spec: LoadSpec, count: int) -> None:
        """They load their parts of `spec` at once; `receive` says when, or why not.

        Raises `LoadFailed`, and leaves no process, if one cannot be started.
        """
        self._is_closing = False
        self._failed: PartFailed | None = None
        self._lock = threading.Lock()
        self._file = MeetingFile()
        self.meeting = self._file.path
        """The file in which the ranks find one another."""
        self._replies = [queue.SimpleQueue[FromFollower]() for _ in range(1, count)]
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            for rank in range(1, count):
                self._processes.append(start_rank(rank, self._file))
                thread = threading.Thread(
                    target=self._follow, args=(rank, self._processes[-1]), daemon=True
                )
                thread.start()
            for rank, process in enumerate(self._processes, 1):
                self._write(process, rank_frame(LoadPart(spec, rank, count, self.meeting)))
        except BaseException as error:
            self.close()
            if isinstance(error, OSError | RuntimeError):  # no process or no thread more
                raise LoadFailed(
                    f"The processes of a model on {count} GPUs cannot be started: {error}.",
                    hint="Load it with a smaller tensor_parallel.",
                ) from error
            raise

    def send(self, message: ToFollower) -> None:
        """Send a message to all; they take messages in the order in which they are sent."""
        sent = rank_frame(message)
        with self._lock:
            for process in self._processes:
                self._write(process, sent)

    def send_each(self, messages: list[ToFollower]) -> None:
        """Send each rank its own message, that of rank 1 first."""
        with self._lock:
            for process, message in zip(self._processes, messages, strict=True):
                self._write(process, rank_frame(message))

    def receive(self) -> list[FromFollower]:
        """Wait for the next message of each; raises `LoadFailed` if one could not load its part."""
        found = [replies.get() for replies in self._replies]
        for each in found:
            if isinstance(each, PartFailed):
                raise _error(each)
        return found

    @contextmanager
    def ending_together(self) -> Generator[None]:
        """Let this process end by what ended a rank, rather than by what came of that here.

        Raises `LoadFailed` if a rank could not load its part.
        """
        try:
            yield
        except RuntimeError as error:
            time.sleep(_GRACE)
            if self._failed is not None:
                raise _error(self._failed) from error
            raise

    def close(self) -> None:
        """End the processes."""
        self._is_closing = True
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
            cast(BinaryIO, process.stdin).close()
        self._file.close()

    def _write(self, process: subprocess.Popen[bytes], sent: bytes) -> None:
        stdin = cast(BinaryIO, process.stdin)
        try:
            stdin.write(sent)
            stdin.flush()
        except BrokenPipeError:
            if not self._is_closing:
                time.sleep(_GRACE)  # the thread that follows the process ends this one
                raise

    def _follow(self, rank: int, process: subprocess.Popen[bytes]) -> None:
        """Pass on what a rank says until it ends, and end this process then."""
        is_loaded = False
        with cast(BinaryIO, process.stdout) as stream:
            try:
                while True:
                    message = from_follower.decode(read_body(stream))
                    is_loaded = is_loaded or isinstance(message, PartLoaded)
                    if isinstance(message, PartFailed):
                        self._failed = message
                    self._replies[rank - 1].put(message)
            except EOFError:
                status = process.wait()
            except (ValueError, msgspec.MsgspecError):  # it said what is no message
                process.kill()
                status = process.wait()
        if self._failed is not None:
            if not is_loaded:  # this rank waits for no sum yet, and learns of it by `receive`
                return
            time.sleep(2 * _GRACE)
        if self._is_closing:
            return
        how = signal_name(-status) if status < 0 else f"exit code {status}"
        if self._failed is not None:
            how = self._failed.message
        print(f"The process of rank {rank} ended: {how}.", file=sys.stderr, flush=True)
        if status < 0:
            os.kill(os.getpid(), -status)
            os.kill(os.getpid(), signal.SIGKILL)  # if the signal is ignored here
        os._exit(status or _BROKEN)


def _error(failed: PartFailed) -> LoadFailed:
    return _ERRORS.get(failed.code, LoadFailed)(failed.message, hint=failed.hint)


class MeetingFile:
    """A file by the same path in this process and in its children.

    On Linux it is in memory alone, since nothing could remove it after a hard kill.
    """

    def __init__(self) -> None:
        self.inherited: tuple[int, ...] = ()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if sys.platform == "linux":
            self.inherited = (os.memfd_create("ingle-ranks"),)
            self.path = f"/proc/self/fd/{self.inherited[0]}"
        else:
            self._folder = tempfile.TemporaryDirectory(
                prefix="ingle-ranks-", ignore_cleanup_errors=True
            )
            self.path = str(Path(self._folder.name) / "meeting")

    def close(self) -> None:
        for descriptor in self.inherited:
            os.close(descriptor)
        self.inherited = ()
        if self._folder is not None:
            self._folder.cleanup()


def start_rank(rank: int, meeting: MeetingFile) -> subprocess.Popen[bytes]:
    """Start the process of a rank, which sees the GPU of this number alone; raises OSError."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    devices = [str(rank)] if visible is None else visible.split(",")[rank : rank + 1]
    return subprocess.Popen(
        [sys.executable, "-P", "-X", "utf8", "-m", _MODULE, str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=meeting.inherited,
        cwd=os.path.abspath(os.sep),  # noqa: PTH100  # the root of whatever drive this is
        env=child_environment(os.environ) | {"CUDA_VISIBLE_DEVICES": ",".join(devices)},
    )
