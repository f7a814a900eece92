"""The other side of `ChildTask`: what its process runs."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NoReturn, TypeVar

import msgspec

from ingle.models.errors import ModelError

from ..base.child_process import die_with_parent
from ..base.errors import BackendError
from ..confinement.access_policy import AccessPolicy
from ..confinement.confine import confine
from .child_task import Failed

S = TypeVar("S", bound=msgspec.Struct)
Send = Callable[[msgspec.Struct], None]

_BROKEN = 3


def run_task(
    spec_type: type[S],
    work: Callable[[S, Send], msgspec.Struct],
    workplace: Callable[[S], AccessPolicy],
) -> NoReturn:
    """Do `work` on what the first line of stdin says, tell its result, and end the process.

    It is done with the files of its `workplace` and those of the folder it starts in.
    """
    status = _BROKEN
    try:
        status = _run(spec_type, work, workplace)
    except Exception:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        # The reader thread sits in a read of stdin, whose lock a regular exit would abort for.
        os._exit(status)


def _run(
    spec_type: type[S],
    work: Callable[[S, Send], msgspec.Struct],
    workplace: Callable[[S], AccessPolicy],
) -> int:
    die_with_parent(int(sys.argv[1]))
    sink = _claim_stdout()
    spec = msgspec.json.decode(sys.stdin.buffer.readline(), type=spec_type)
    confine(workplace(spec).with_folder(Path.cwd()))
    threading.Thread(target=_end_with_stdin, name="reader", daemon=True).start()

    def send(message: msgspec.Struct) -> None:
        sink.write(msgspec.json.encode(message) + b"\n")
        sink.flush()

    try:
        send(work(spec, send))
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
