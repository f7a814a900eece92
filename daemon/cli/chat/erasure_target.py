"""The executor of `ingle forget`: the running daemon, else the files directly."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

import msgspec

from ...client.sync_client import DaemonClient
from ...errors import RequestError
from ...retention.erasure import erase, places_for
from ...retention.forget_request import ForgetRequest, Forgotten, selection_of
from ...server.instance_lock import AlreadyRunning, InstanceLock
from ...settings.config import Config
from ..command_errors import CommandError
from ..daemon_launcher import running_daemon

_PATIENCE = 120.0
"""Seconds that the daemon may take: models write their caches before they end."""


class ErasureTarget(Protocol):
    """Erases everything but chats; a daemon also holds data in memory."""

    has_memory: bool

    def forget(self, request: ForgetRequest) -> Forgotten:
        """Erase; raises `CommandError`."""
        ...


@contextmanager
def open_target(config: Config) -> Generator[ErasureTarget]:
    """Yield the daemon, or the files, which no daemon can start to use before the context ends.

    Raises `CommandError`.
    """
    client = running_daemon(config)
    if client is not None:
        yield _Daemon(client)
        return
    config.paths.make_private()
    lock = InstanceLock(config.paths.lock)
    try:
        lock.acquire()
    except AlreadyRunning as error:
        raise CommandError(
            "A daemon holds this home, but does not answer.", "Try again in a moment."
        ) from error
    try:
        yield _Files(config)
    finally:
        lock.release()


class _Daemon:
    has_memory = True

    def __init__(self, client: DaemonClient) -> None:
        self._client = client

    def forget(self, request: ForgetRequest) -> Forgotten:
        body = msgspec.to_builtins(request)
        answer = self._client.post("/ingle/v1/forget", body, timeout=_PATIENCE)
        return msgspec.convert(answer, Forgotten)


class _Files:
    has_memory = False

    def __init__(self, config: Config) -> None:
        self._config = config

    def forget(self, request: ForgetRequest) -> Forgotten:
        selection = selection_of(request, self._config.paths)
        places = places_for(selection, request.places)
        try:
            erased = erase(self._config, selection, places, dry_run=request.dry_run)
        except (OSError, RequestError) as error:
            raise CommandError(f"Not everything could be erased: {error}.") from error
        return Forgotten(dry_run=request.dry_run, erased=erased)
