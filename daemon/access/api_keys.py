"""API keys: created by `ingle key`, stored as digests, and verified by the daemon."""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import os
import re
import secrets
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

import msgspec

from ingle.models.durable_folder import make_durable_folder
from ingle.models.file_lock import FileLock
from ingle.models.file_stamp import FileStamp
from ingle.models.struct_preparation import prepared

from ..client.client_errors import UserError
from ..http.route_access import Scope
from ..stores.atomic_file import write_atomically
from .permission import Permission

log = logging.getLogger("ingle.daemon")

PREFIX = "ingle-"
"""Prefix of every key; clients that need none send made-up words instead."""

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._@-]{0,62}[A-Za-z0-9])?")
_SECRET_BYTES = 32
_RATE = re.compile(r"([0-9]{1,7})/(s|m|h|d)")
_RATE_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST_KEY = 256
_USE_RESOLUTION = 3600
_LOCK_SECONDS = 5.0


class KeyFailure(UserError):
    """A key cannot be created, found or stored; the message is a sentence for the user."""


class RequestRate(msgspec.Struct, frozen=True):
    """A rate limit: at most `requests` in `seconds`."""

    requests: int
    seconds: int

    @classmethod
    def parse(cls, text: str) -> RequestRate:
        """Parse a rate such as "60/m"; raises `ValueError`."""
        found = _RATE.fullmatch(text.strip().lower())
        if found is None or not 0 < int(found[1]) <= 10**6:
            raise ValueError(text)
        return cls(int(found[1]), _RATE_UNITS[found[2]])

    @property
    def short(self) -> str:
        """The rate as it is written in settings: "60/m"."""
        unit = next((name for name, s in _RATE_UNITS.items() if s == self.seconds), None)
        return f"{self.requests}/{unit or f'{self.seconds}s'}"


class KeyLimitation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Restrictions of a key; the defaults restrict nothing.

    `models` are patterns of full names; `route` says where requests may be answered.
    """

    scopes: tuple[Scope, ...] = tuple(Scope)
    models: tuple[str, ...] = ()
    route: Literal["any", "local"] = "any"
    rate: RequestRate | None = None


UNLIMITED = KeyLimitation()


class KeyRecord(KeyLimitation, frozen=True, kw_only=True):
    """A stored key: times in Unix seconds, `digest` is the SHA-256 of the key in hex."""

    id: str
    name: str
    digest: str
    created: int
    expires: int | None = None

    def expired(self, now: float) -> bool:
        """Whether the key has expired at this time."""
        return self.expires is not None and now >= self.expires

    def permission(self) -> Permission:
        """Return the permission of a request with this key."""
        return Permission(
            key=self.name,
            scopes=frozenset(self.scopes),
            models=self.models,
            cloud=self.route == "any",
        )


class _KeyFile(msgspec.Struct, frozen=True, kw_only=True):
    version: int = 1
    keys: list[KeyRecord] = []


class KeyStore:
    """The key file in the state folder: readable by its owner only, replaced as a whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._used_path = path.with_name("keys-used.json")

    def list(self) -> list[KeyRecord]:
        """Return all keys, oldest first; raises `KeyFailure` for a damaged file."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise KeyFailure(f"{self.path} cannot be read: {error.strerror}.") from error
        try:
            return msgspec.json.decode(content, type=prepared(_KeyFile)).keys
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise KeyFailure(
                f"{self.path} is damaged: {error}.",
                "Remove it, and make new keys: those in it cannot be used.",
            ) from error

    def create(
        self,
        name: str = "",
        lifetime: float | None = None,
        limitation: KeyLimitation = UNLIMITED,
    ) -> tuple[KeyRecord, str]:
        """Create a key; returns its record and the key itself, which is not stored.

        `lifetime` is in seconds, None for a key that does not expire. Raises `KeyFailure`.
        """
        if name and not NAME.fullmatch(name):
            raise KeyFailure(
                f"{name!r} cannot be a key's name.",
                "Use up to 64 letters, digits, spaces, dots, dashes, underscores and @.",
            )
        key, now = _new_key(), int(time.time())
        with self._locked():
            keys = self.list()
            names = {record.name for record in keys}
            if name in names:
                raise KeyFailure(
                    f"There is a key called '{name}' already.",
                    f"`ingle key revoke {name}` revokes it; or choose another name.",
                )
            record = KeyRecord(
                id=secrets.token_hex(4),
                name=name or next(n for i in range(1, 10**6) if (n := f"key-{i}") not in names),
                digest=_digest(key),
                created=now,
                expires=None if lifetime is None else now + max(1, round(lifetime)),
                **msgspec.structs.asdict(limitation),
            )
            self._write([*keys, record])
        return record, key

    def rotate(self, reference: str, lifetime: float | None = None) -> tuple[KeyRecord, str]:
        """Replace a key by a new one with the same name and restrictions; raises `KeyFailure`.

        Without a `lifetime`, in seconds, it expires when the old one would have.
        """
        key, now = _new_key(), int(time.time())
        with self._locked():
            keys = self.list()
            old = _find(keys, reference)
            if lifetime is None and old.expired(now):
                raise KeyFailure(
                    f"The key '{old.name}' has expired.",
                    "Say how long the new one lasts: `--expires 90d`.",
                )
            record = msgspec.structs.replace(
                old,
                digest=_digest(key),
                created=now,
                expires=old.expires if lifetime is None else now + max(1, round(lifetime)),
            )
            self._write([record if one is old else one for one in keys])
        return record, key

    def revoke(self, reference: str) -> KeyRecord:
        """Delete the key of that name or id, and return it; raises `KeyFailure`."""
        with self._locked():
            keys = self.list()
            found = _find(keys, reference)
            self._write([key for key in keys if key is not found])
        return found

    def last_used(self) -> dict[str, int]:
        """Return the hour of each key's last use, in Unix seconds, by id."""
        try:
            return msgspec.json.decode(self._used_path.read_bytes(), type=dict[str, int])
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return {}  # only informative; the daemon writes a new file

    def note_use(self, times: dict[str, int]) -> None:
        """Store when keys were last used; raises `OSError`."""
        write_atomically(self._used_path, msgspec.json.encode(times))

    def _write(self, keys: list[KeyRecord]) -> None:
        try:
            write_atomically(
                self.path, msgspec.json.format(msgspec.json.encode(_KeyFile(keys=keys)))
            )
        except OSError as error:
            raise KeyFailure(
                f"{self.path} cannot be written: {error.strerror}.",
                "Nothing has changed. Make room there, or get the right to write.",
            ) from error

    def _locked(self) -> FileLock:
        lock = FileLock(self.path.with_suffix(".lock"))
        deadline = time.monotonic() + _LOCK_SECONDS
        try:
            make_durable_folder(self.path.parent, mode=0o700)
            while not lock.try_acquire():
                if time.monotonic() > deadline:
                    raise KeyFailure("Another `ingle key` does not end.", "Try again.")
                time.sleep(0.02)
        except OSError as error:
            raise KeyFailure(f"{self.path.parent} cannot be written: {error.strerror}.") from error
        return lock


class KeyRing:
    """Verifies keys for the daemon; reloads the file when it has changed."""

    def __init__(self, store: KeyStore, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._now = now
        self._stamp: FileStamp | None = None
        self._keys: list[KeyRecord] = []
        self._used: dict[str, int] = {}

    def find(self, key: str) -> KeyRecord | None:
        """Return the record of a key, even an expired one; None for an unknown key."""
        self._refresh()
        if len(key) > _LONGEST_KEY:
            return None
        digest = _digest(key)
        found = None
        for record in self._keys:
            # Compare every record, each in constant time, so that the delay reveals nothing.
            if hmac.compare_digest(record.digest, digest):
                found = record
        return found

    def expired(self, record: KeyRecord) -> bool:
        """Whether the key has expired now."""
        return record.expired(self._now())

    def note_use(self, record: KeyRecord) -> None:
        """Record the hour of use; stored once an hour for each key, and errors are only logged."""
        hour = int(self._now()) // _USE_RESOLUTION * _USE_RESOLUTION
        if self._used.get(record.id) == hour:
            return
        self._used[record.id] = hour
        ids = {key.id for key in self._keys}
        times = {**self._store.last_used(), **self._used}
        try:
            self._store.note_use({key: hour for key, hour in times.items() if key in ids})
        except OSError as error:
            log.warning("The last use of a key cannot be stored: %s", error.strerror)

    def _refresh(self) -> None:
        try:
            found = self._store.path.stat()
        except OSError:
            self._stamp, self._keys = None, []
            return
        stamp = FileStamp.of(self._store.path, found)
        if stamp == self._stamp:
            return
        self._stamp, self._keys = stamp, []
        if sys.platform != "win32" and (found.st_mode & 0o022 or found.st_uid != os.geteuid()):
            log.warning("No key is accepted: other users can write %s", self._store.path)
            return
        try:
            self._keys = self._store.list()
        except KeyFailure as error:
            log.warning("No key is accepted: %s", error.message)


def _find(keys: Iterable[KeyRecord], reference: str) -> KeyRecord:
    found = next((key for key in keys if reference in (key.name, key.id)), None)
    if found is None:
        raise KeyFailure(f"There is no key '{reference}'.", "`ingle key list` shows all.")
    return found


def _new_key() -> str:
    secret = base64.b32encode(secrets.token_bytes(_SECRET_BYTES)).decode()
    return PREFIX + secret.rstrip("=").lower()


def _digest(key: str) -> str:
    # One round of SHA-256 is enough: keys have 256 random bits, so a slow hash would not protect
    # better, and each request is looked up.
    return hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()
