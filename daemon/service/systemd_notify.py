"""`ServiceNotifier`: tells systemd that the daemon is ready, is stopping, and still alive.

https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import MutableMapping


class ServiceNotifier:
    """Silent where nobody asked for it; takes what asks out of the environment."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        address = environ.pop("NOTIFY_SOCKET", "")
        # "@" stands for the zero byte of the abstract namespace; other kinds are not spoken here.
        self._address = address.replace("@", "\0", 1) if address.startswith("@") else address
        if not self._address.startswith(("/", "\0")):
            self._address = ""
        period, pid = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
        ours = pid in ("", str(os.getpid()))
        self._period = int(period) / 1e6 if period.isdecimal() and ours else 0.0

    def ready(self, status: str) -> None:
        """Connections are accepted."""
        self._tell(f"READY=1\nSTATUS={status}")

    def stopping(self) -> None:
        """The end has begun."""
        self._tell("STOPPING=1\nSTATUS=Running answers finish")

    async def watch(self) -> None:
        """Say often enough that the event loop turns, until cancelled."""
        if not self._address or self._period <= 0:
            return
        while True:
            self._tell("WATCHDOG=1")
            await asyncio.sleep(self._period / 2)

    def _tell(self, text: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
                channel.setblocking(False)
                channel.sendto(text.encode(), self._address)
        except OSError:  # the manager is gone or busy; the daemon serves all the same
            return
