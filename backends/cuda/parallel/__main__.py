"""The process of a rank: framed messages on stdin and stdout.

Run as `python -P -m ingle.backends.cuda.parallel PARENT_PID`. It ends when its stdin does, and with
its parent.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import traceback

from ingle.models.errors import ModelError

from ...base.child_process import die_with_parent
from ...base.errors import LoadFailed
from ...base.framing import read_body
from .messages import (
    FromFollower,
    LoadPart,
    PartFailed,
    PartLoaded,
    ToFollower,
    rank_frame,
    to_follower,
)

_BROKEN = 3


def main() -> None:
    """Load the part of the first message, and do what the following ones say."""
    die_with_parent(int(sys.argv[1]))
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of libraries
    inbox = queue.SimpleQueue[ToFollower]()
    threading.Thread(target=_pump, args=(inbox,), daemon=True).start()

    def send(message: FromFollower) -> None:
        sink.write(rank_frame(message))
        sink.flush()

    first = inbox.get()
    assert isinstance(first, LoadPart)
    # Imported late: the first rank need not wait for it to send its message.
    from .follower_runner import open_follower

    try:
        runner = open_follower(first, lambda: send(PartLoaded()))
    except LoadFailed as error:
        send(PartFailed(error.code, error.message, error.hint))
        os._exit(1)
    except ModelError as error:
        send(PartFailed(LoadFailed.code, error.message, error.hint))
        os._exit(1)
    send(runner.ready)
    while True:
        answer = runner.obey(inbox.get())
        if answer is not None:
            send(answer)


def _pump(inbox: queue.SimpleQueue[ToFollower]) -> None:
    """Put messages into the inbox until stdin ends, and end the process then."""
    status = _BROKEN
    try:
        while True:
            inbox.put(to_follower.decode(read_body(sys.stdin.buffer)))
    except EOFError:
        status = 0
    except ValueError:
        traceback.print_exc()
    finally:
        # The main thread may wait for another rank, which has ended.
        os._exit(status)


if __name__ == "__main__":
    try:
        main()
    except Exception:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(_BROKEN)  # the thread that reads holds the lock of stdin
