"""The process that verifies one model, run as `python -P -m` with this module's name.

Two engines and a stranger's file are loaded here, none of which belongs into a daemon or a command.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from importlib.util import find_spec
from typing import BinaryIO

import msgspec

from ingle.models.errors import ModelError

from ..errors import BackendError, LoadFailed
from ..parent_death import die_with_parent
from .messages import Failed, Message, VerificationSpec

_BROKEN = 3


def main() -> int:
    """Verify what the first line of stdin names; 0 where there is a report."""
    die_with_parent(int(sys.argv[1]))
    sink = _claim_stdout()
    spec = msgspec.json.decode(sys.stdin.buffer.readline(), type=VerificationSpec)
    threading.Thread(target=_end_with_stdin, name="reader", daemon=True).start()

    def send(message: Message) -> None:
        sink.write(msgspec.json.encode(message) + b"\n")
        sink.flush()

    try:
        if find_spec("torch") is None:
            raise LoadFailed(
                "The engine to verify needs PyTorch, which is not installed.",
                hint="Install ingle with its extra `cuda`: pip install 'ingle[cuda]'.",
            )
        from .verification import verify

        send(verify(spec, send))
    except (BackendError, ModelError) as error:
        send(Failed(error.code, error.message, error.hint))
        return 1
    except BrokenPipeError:
        return 0  # nobody wants to know any more
    return 0


def _claim_stdout() -> BinaryIO:
    """Keep fd 1 for messages: whatever a library prints goes to stderr."""
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return sink


def _end_with_stdin() -> None:
    """The reader thread: the other may be deep in native code when nobody waits for it any more."""
    while sys.stdin.buffer.read(4096):
        continue
    os._exit(0)


if __name__ == "__main__":
    status = _BROKEN
    try:
        status = main()
    except Exception:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        # The reader thread sits in a read of stdin, whose lock a regular exit would abort for.
        os._exit(status)
