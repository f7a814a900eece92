"""The tool host, run as `python -P -m` by a client in its own folder: frames on stdin and stdout.

It ends when its stdin closes, and leaves no process behind.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import BinaryIO

import msgspec

from ingle.backends.base.framing import frame, read_body

from ..client.tool_types import FromHost, HostError, StartHost, ToHost
from ..settings.paths import find_paths
from .host_session import HostSession

_MOST_BYTES = 64 * 2**20
_END_SECONDS = 15.0
_DECODER = msgspec.msgpack.Decoder(ToHost)
_Put = Callable[[ToHost | None], None]


def main() -> int:
    """Serve the client until it ends."""
    # Libraries would log what servers send.
    logging.basicConfig(level=logging.CRITICAL, stream=sys.stderr)
    logging.getLogger("ingle.tools").setLevel(logging.ERROR)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for the client
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not be among the frames
    return asyncio.run(_serve(sink))


async def _serve(sink: BinaryIO) -> int:
    def send(message: FromHost) -> None:
        try:
            sink.write(frame(msgspec.msgpack.encode(message)))
            sink.flush()
        except BrokenPipeError:
            os._exit(0)  # the client is gone; guards end what runs

    inbox: asyncio.Queue[ToHost | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def put(message: ToHost | None) -> None:
        loop.call_soon_threadsafe(inbox.put_nowait, message)

    threading.Thread(target=_read, args=(put,), name="reader", daemon=True).start()
    start = await inbox.get()
    if not isinstance(start, StartHost):
        send(HostError("The client and its tool host do not fit together. Install ingle again."))
        return 2
    try:
        session = HostSession(start, find_paths(os.environ).config, send)
    except OSError as error:
        send(HostError(f"{start.folder} cannot be used: {error.strerror}. Choose another folder."))
        return 1
    while (message := await inbox.get()) is not None:
        session.handle(message)
    # Killing takes moments; only a process that cannot be killed reaches this.
    loop.call_later(_END_SECONDS, os._exit, 1)
    await session.close()
    return 0


def _read(put: _Put) -> None:
    """Pass messages on until stdin ends; a frame that is none ends it too."""
    try:
        while True:
            put(_DECODER.decode(read_body(sys.stdin.buffer, _MOST_BYTES)))
    except EOFError:
        put(None)
    except (ValueError, msgspec.MsgspecError) as error:
        print(f"The client sent what is no message: {error}", file=sys.stderr, flush=True)
        put(None)


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    # The reader holds the lock of stdin, and threads may still search: no regular exit.
    os._exit(status)
