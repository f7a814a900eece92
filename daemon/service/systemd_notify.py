"""Notifies systemd that the daemon is ready, stopping, or alive (watchdog).

https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import MutableMapping


class ServiceNotifier:
    """Does nothing unless systemd asks for notifications; removes its variables from the
    environment.
    """

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        address = environ.pop("NOTIFY_SOCKET", "")
        # "@" stands for the zero byte of the abstract namespace; other address types are not
        # supported.
        self._address = address.replace("@", "\0", 1) if address.startswith("@") else address
        if not self._address.startswith(("/", "\0")):
            self._address = ""
        period, pid = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
        ours = pid in ("", str(os.getpid()))
        self._period = int(period) / 1e6 if period.isdecimal() and ours else 0.0

    def ready(self, status: str) -> None:
        """Report that connections are accepted."""
        self._tell(f"READY=1\nSTATUS={status}")

    def stopping(self) -> None:
        """Report that the shutdown has begun."""
        self._tell("STOPPING=1\nSTATUS=Running answers finish")

    async def watch(self) -> None:
        """Send watchdog notifications often enough, until cancelled."""
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
        except OSError:  # the manager is gone or busy; the daemon goes on
            return
