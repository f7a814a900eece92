"""The only place where requests to providers begin; `offline` disables it."""

from __future__ import annotations

from collections.abc import Callable

from .clearance import Clearance
from .errors import RemoteForbidden
from .metered_connection import Meter
from .providers import Provider
from .receipt import Receipt
from .remote_backend import BeforeSend, RemoteBackend
from .served_models import ServedModel, list_served_models


class RemoteBackends:
    """Creates remote backends, unless the machine is set to offline.

    When offline, the constructor raises, so no code path to a provider exists.
    """

    def __init__(self, *, offline: bool) -> None:
        if offline:
            raise RemoteForbidden(
                "ingle is offline: no remote model can be used.",
                hint="Unset `offline` in the settings, or use a model on this machine.",
            )

    def make(
        self,
        provider: Provider,
        model: str,
        key: str | None,
        clearance: Clearance,
        on_receipt: Callable[[Receipt], None],
        *,
        before_send: BeforeSend,
    ) -> RemoteBackend:
        """Return a backend for the one request that was cleared; raises `NotCleared`."""
        return RemoteBackend(provider, model, key, clearance, on_receipt, before_send=before_send)

    async def served_models(
        self, provider: Provider, key: str | None, meter: Meter
    ) -> list[ServedModel]:
        """Ask the provider for its models, counting bytes in `meter`; raises `RemoteError`."""
        return await list_served_models(provider, key, meter)
