"""API keys of providers: in the system's keyring, else in a private file."""

from __future__ import annotations

import queue
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from ingle.models.durable_folder import make_durable_folder
from ingle.models.struct_preparation import prepared

from ...stores.atomic_file import write_atomically
from .provider_errors import ProviderError

KEYRING_SECONDS = 5.0
"""Seconds that the system's keyring may take; some wait for a dialog that is not visible."""

_KEY = re.compile(r"[\x21-\x7e]{1,4096}")

Place = Literal["keyring", "file"]
T = TypeVar("T")


class _Entry(msgspec.Struct, frozen=True):
    place: Place
    key: str = ""


class _File(msgspec.Struct, frozen=True):
    version: int = 1
    keys: dict[str, _Entry] = {}


class ProviderKeys:
    """Stores one key per provider, and where it is; blocks while the keyring is used."""

    def __init__(self, state: Path, *, use_keyring: bool = True) -> None:
        """`state` is ingle's state folder; its path distinguishes installations in the keyring."""
        self.path = state / "provider-keys.json"
        self._service = f"ingle {state}"
        self._use_keyring = use_keyring

    def place(self, provider: str) -> Place | None:
        """Return where the key is; None if there is none. Does not use the keyring."""
        entry = self._read().keys.get(provider)
        return entry.place if entry is not None else None

    def get(self, provider: str) -> str | None:
        """Return the key, None if there is none; raises `ProviderError`."""
        entry = self._read().keys.get(provider)
        if entry is None or entry.place == "file":
            return entry.key if entry is not None else None
        import keyring

        return _in_time(lambda: keyring.get_password(self._service, provider))

    def set(self, provider: str, key: str) -> Place:
        """Store a key, and return where; raises `ProviderError`."""
        key = key.strip()
        if not _KEY.fullmatch(key):
            raise ProviderError(
                "That cannot be a key: it is empty, too long, or contains blanks.",
                hint="Copy it once more from the provider's page.",
            )
        place: Place = (
            "keyring" if self._use_keyring and self._to_keyring(provider, key) else "file"
        )
        entry = _Entry(place, key if place == "file" else "")
        self._write({**self._read().keys, provider: entry})
        return place

    def remove(self, provider: str) -> bool:
        """Delete the key; returns whether there was one."""
        keys = dict(self._read().keys)
        entry = keys.pop(provider, None)
        if entry is None:
            return False
        if entry.place == "keyring":
            import keyring

            _in_time(lambda: keyring.delete_password(self._service, provider))
        self._write(keys)
        return True

    def _to_keyring(self, provider: str, key: str) -> bool:
        """Whether a keyring stored it and returns it."""
        import keyring

        def keep() -> bool:
            keyring.set_password(self._service, provider, key)
            return keyring.get_password(self._service, provider) == key

        try:
            return _in_time(keep)
        except ProviderError:
            return False  # none, locked, or silent: use the file

    def _read(self) -> _File:
        try:
            if sys.platform != "win32" and self.path.stat().st_mode & 0o077:
                raise ProviderError(
                    f"Other users can read {self.path}.",
                    hint=f"`chmod 600 {self.path}`, and get new keys from the providers.",
                )
            return msgspec.json.decode(self.path.read_bytes(), type=prepared(_File))
        except FileNotFoundError:
            return _File()
        except OSError as error:
            raise ProviderError(f"{self.path} cannot be read: {error.strerror}.") from error
        except (msgspec.MsgspecError, UnicodeDecodeError):
            # Without its content: it may contain a key.
            raise ProviderError(
                f"{self.path} is damaged.", hint="Remove it, and set the keys again."
            ) from None

    def _write(self, keys: dict[str, _Entry]) -> None:
        try:
            make_durable_folder(self.path.parent, mode=0o700)
            write_atomically(self.path, msgspec.json.encode(_File(keys=keys)))
        except OSError as error:
            raise ProviderError(f"{self.path} cannot be written: {error.strerror}.") from error


def _in_time(call: Callable[[], T]) -> T:
    """Return the keyring's answer; raises `ProviderError` if it fails or takes too long."""
    answers: queue.Queue[T | Exception] = queue.Queue()

    def ask() -> None:
        try:
            answers.put(call())
        except Exception as error:  # each keyring has its own errors
            answers.put(error)

    # A daemon thread that is not joined: a keyring that hangs must not block the daemon.
    threading.Thread(target=ask, daemon=True, name="keyring").start()
    try:
        answer = answers.get(timeout=KEYRING_SECONDS)
    except queue.Empty:
        answer = TimeoutError("it does not answer")
    if isinstance(answer, Exception):
        raise ProviderError(
            f"The system's keyring cannot be used: {type(answer).__name__}.",
            hint="Unlock it, or store the key in a file: `ingle provider key NAME --file`.",
        )
    return answer
