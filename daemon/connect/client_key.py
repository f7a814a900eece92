"""The API key of a connected program: found in its files, created, and revoked."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..access.api_keys import KeyLimitation, KeyRing, KeyStore
from ..config_editing.document_path import CannotEdit
from ..http.route_access import Scope
from .client_program import ClientProgram
from .settings_file import SettingsFile

ENOUGH = KeyLimitation(scopes=(Scope.INFERENCE, Scope.READ))
"""The scope that an editor or an agent needs: use models and list them."""

_KEY = re.compile(r"ingle-[a-z2-7]{52}")


def present_key(store: KeyStore, files: Sequence[SettingsFile]) -> str | None:
    """Return a valid key that is already written in a file."""
    ring = KeyRing(store)
    for file in files:
        try:
            text = file.read() or ""
        except CannotEdit:
            continue  # the code that edits the file reports it
        for key in _KEY.findall(text):
            record = ring.find(key)
            if record is not None and not ring.expired(record):
                return key
    return None


def make_key(store: KeyStore, client: ClientProgram) -> tuple[str, str]:
    """Return the name of a new key, and the key; an earlier one of the program is revoked.

    Raises `KeyFailure`.
    """
    revoke_key(store, client)
    record, key = store.create(_name(client), limitation=ENOUGH)
    return record.name, key


def revoke_key(store: KeyStore, client: ClientProgram) -> bool:
    """Revoke the program's key; False if it has none. Raises `KeyFailure`."""
    found = has_key(store, client)
    if found:
        store.revoke(_name(client))
    return found


def has_key(store: KeyStore, client: ClientProgram) -> bool:
    """Whether a key was created for it, possibly stored where ingle cannot look."""
    return any(record.name == _name(client) for record in store.list())


def _name(client: ClientProgram) -> str:
    return f"connect {client.name}"
