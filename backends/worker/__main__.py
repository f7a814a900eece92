"""The worker process: one model, framed messages on stdin and stdout.

Run as `python -P -m ingle.backends.worker PARENT_PID`. It ends when its stdin does, and with its
parent.
"""

from __future__ import annotations

import gc
import os
import queue
import sys
import threading
import traceback
from typing import TYPE_CHECKING, BinaryIO

from ingle.models.file_stamp import first_changed

from ..base.child_process import die_with_parent
from ..base.errors import LoadFailed
from ..base.framing import read_body
from ..base.load_spec import LoadSpec
from ..base.process_priority import yield_to_interactive
from ..confinement.confine import confine
from .worker_access import with_temporary_files, worker_access
from .worker_protocol import (
    FromWorker,
    Load,
    LoadFailure,
    Ready,
    ToWorker,
    decode_to_worker,
    encode_frame,
)

if TYPE_CHECKING:
    from .inbox import Inbox

_BROKEN = 3


class FrameChannel:
    """Frames on a pair of pipes; `send` may be called from any thread."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink
        self._lock = threading.Lock()

    def send(self, message: FromWorker) -> None:
        """Write one frame."""
        frame = encode_frame(message)
        with self._lock:
            self._sink.write(frame)
            self._sink.flush()

    def receive(self) -> ToWorker | None:
        """Return the next message, None at the end; raises ValueError for a broken frame."""
        try:
            return decode_to_worker(read_body(self._source))
        except EOFError:
            return None


def main() -> int:
    """Load the model of the first message and serve it until the daemon ends the worker."""
    die_with_parent(int(sys.argv[1]))
    yield_to_interactive()
    channel = _claim_stdio()
    first = channel.receive()
    if not isinstance(first, Load):
        return 2
    if first.spec.confine:
        confine(with_temporary_files(worker_access(first.spec), first.spec))
    inbox: Inbox = queue.SimpleQueue()
    threading.Thread(target=_pump, args=(channel, inbox), name="reader", daemon=True).start()
    try:
        return _serve(first, channel, inbox)
    except BrokenPipeError:
        return 0  # the daemon is gone


def _serve(load: Load, channel: FrameChannel, inbox: Inbox) -> int:
    # Imported late: confinement covers only threads that libraries start after it.
    from .model_loader import load_model

    try:
        with load_model(load.spec, channel.send, inbox) as (loop, info):
            # Checked after native code has opened the files.
            _check_unchanged(load.spec)
            channel.send(Ready(info))
            gc.freeze()  # the collector need not walk long-lived objects between two tokens
            loop.run()
    except LoadFailed as error:
        channel.send(LoadFailure(error.code, error.message, error.hint))
        return 1
    return 0


def _check_unchanged(spec: LoadSpec) -> None:
    """Raise `LoadFailed` if a file changed since its header was read."""
    changed = first_changed(spec.stamps)
    if changed is not None:
        raise LoadFailed(
            f"{changed} changed while the model was loaded.",
            hint="Try again once nothing writes to it any more.",
        )


def _pump(channel: FrameChannel, inbox: Inbox) -> None:
    """Put messages into the inbox until stdin ends, and end the process then."""
    status = _BROKEN
    try:
        while (message := channel.receive()) is not None:
            inbox.put(message)
        status = 0
    except ValueError:
        traceback.print_exc()
    finally:
        # The step thread may be in native code for seconds, and its results have no reader.
        os._exit(status)


def _claim_stdio() -> FrameChannel:
    """Return the channel on stdin and stdout; output of libraries goes to stderr from now on."""
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return FrameChannel(sys.stdin.buffer, sink)


if __name__ == "__main__":
    status = _BROKEN
    try:
        status = main()
    except Exception:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        # The reader thread holds the lock of stdin, so a regular exit would abort.
        os._exit(status)
