"""The only place where remote backends are made, and where `offline` makes that impossible."""

from __future__ import annotations

from collections.abc import Callable

from .clearance import Clearance
from .errors import RemoteForbidden
from .providers import Provider
from .receipt import Receipt
from .remote_backend import Departing, RemoteBackend


class RemoteBackends:
    """Makes backends, unless the owner said that this machine is offline.

    It cannot be made at all then: whoever has none has no way out.
    """

    def __init__(self, *, offline: bool) -> None:
        if offline:
            raise RemoteForbidden(
                "ingle is offline: no model elsewhere can be asked.",
                hint="`offline` in the settings says so; a model on this machine can answer.",
            )

    def make(
        self,
        provider: Provider,
        model: str,
        key: str | None,
        clearance: Clearance,
        on_receipt: Callable[[Receipt], None],
        *,
        on_departure: Departing,
    ) -> RemoteBackend:
        """A backend for the one request that was cleared; raises `NotCleared`."""
        return RemoteBackend(provider, model, key, clearance, on_receipt, on_departure=on_departure)
