"""TLS for connections from other machines, with a certificate that is reloaded when it changes."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import stat
import sys
from collections.abc import Callable
from pathlib import Path

from ingle.models.file_stamp import FileStamp

from .peer import is_loopback
from .sockets import SocketError

log = logging.getLogger("ingle.daemon")

HANDSHAKE_SECONDS = 10.0
PAUSE_SECONDS = 0.2


class Certificate:
    """A certificate chain and its key as files; a renewed one is used from the next
    connection on.
    """

    def __init__(self, chain: Path, key: Path) -> None:
        """Raises `SocketError` if they cannot be used."""
        self._chain = chain
        self._key = key
        self._stamp = self._look()
        self._context = self._load()

    def context(self) -> ssl.SSLContext:
        """Return the context for the next handshake; broken files leave it unchanged."""
        try:
            stamp = self._look()
            if stamp != self._stamp:
                self._stamp = stamp
                self._context = self._load()
                log.info("Reloading the certificate %s", self._chain)
        except SocketError as error:
            log.warning("%s The previous certificate stays in use.", error.message)
        return self._context

    def _look(self) -> list[FileStamp]:
        try:
            return [FileStamp.of(path, path.stat()) for path in (self._chain, self._key)]
        except OSError as error:
            raise SocketError(
                f"{error.filename} cannot be read: {error.strerror}.",
                hint="`tls_cert` and `tls_key` must name files that you can read.",
            ) from error

    def _load(self) -> ssl.SSLContext:
        if sys.platform != "win32" and stat.S_IMODE(self._key.stat().st_mode) & 0o007:
            raise SocketError(
                f"Every user of this machine can read the private key {self._key}.",
                hint=f"`chmod 600 {self._key}`",
            )
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            # A passphrase prompt would wait at a terminal without a user.
            context.load_cert_chain(self._chain, self._key, password=lambda: b"")
        except (OSError, ssl.SSLError, ValueError) as error:
            raise SocketError(
                f"The certificate {self._chain} and the key {self._key} cannot be used: "
                f"{getattr(error, 'reason', None) or error}.",
                hint="Both are PEM files: the chain, and its own key without a password.",
            ) from error
        return context


class TLSListener:
    """Accepts a listener's connections: plain over loopback, else with TLS.

    At most `most` handshakes run at a time; further connections are closed without a reply.
    """

    def __init__(
        self,
        listener: socket.socket,
        certificate: Certificate,
        protocol: Callable[[], asyncio.Protocol],
        most: int,
    ) -> None:
        self._listener = listener
        self._certificate = certificate
        self._protocol = protocol
        self._most = most
        self._opening: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Accept until cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    accepted, _ = await loop.sock_accept(self._listener)
                except (
                    OSError
                ) as error:  # no descriptor is left, or the client has disconnected already
                    log.warning("Cannot accept a connection: %s", error.strerror)
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
                self._begin(accepted)
        finally:
            for task in self._opening:
                task.cancel()

    def _begin(self, accepted: socket.socket) -> None:
        try:
            plain = is_loopback(accepted.getsockname())
        except OSError:
            accepted.close()
            return
        if not plain and len(self._opening) >= self._most:
            accepted.close()
            return
        task = asyncio.create_task(self._open(accepted, plain=plain))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open(self, accepted: socket.socket, *, plain: bool) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                self._protocol,
                accepted,
                ssl=None if plain else self._certificate.context(),
                ssl_handshake_timeout=None if plain else HANDSHAKE_SECONDS,
            )
        except (OSError, ssl.SSLError) as error:
            log.debug("A TLS handshake failed: %s", error)
            accepted.close()
