"""Imitates `ingle serve` in startup tests: takes the lock, listens, answers three endpoints.

`slow` waits between lock and socket, `broken` fails with an error message, `mute` fails silently,
`silent` never listens, `portless` could not bind its port, `old` reports an earlier version.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler
from importlib import metadata
from socketserver import UnixStreamServer
from threading import Thread

from ingle.daemon.settings.paths import find_paths


class Handler(BaseHTTPRequestHandler):
    """Answers `/health`, the status, and the shutdown."""

    def setup(self) -> None:
        super().setup()
        self.client_address = ("unix", 0)

    address: str | None = "127.0.0.1:4645"
    version = metadata.version("ingle")

    def do_GET(self) -> None:
        self._answer(
            {
                "status": "ok",
                "pid": os.getpid(),
                "version": self.version,
                "address": self.address,
                "models": [],
            }
        )

    def do_POST(self) -> None:
        self._answer({})
        Thread(target=self.server.shutdown).start()

    def _answer(self, value: dict[str, object]) -> None:
        content = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def main(behaviour: str) -> int:
    """Serve until asked to stop; returns 1 when another process holds the lock."""
    paths = find_paths(os.environ)
    if behaviour == "broken":
        print("Error: The port is taken.\nUse --port.", file=sys.stderr)
        return 1
    if behaviour == "mute":
        return 1
    if behaviour == "portless":
        Handler.address = None
    if behaviour == "old":
        Handler.version = "0.0.1"
    if behaviour == "silent":
        time.sleep(30)
    with paths.lock.open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Error: Another one runs.", file=sys.stderr)
            return 1
        if behaviour == "slow":
            time.sleep(0.5)
        paths.socket.unlink(missing_ok=True)
        with UnixStreamServer(str(paths.socket), Handler) as server:
            server.serve_forever(0.01)
        paths.socket.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
