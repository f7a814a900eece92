"""What routing needs of the ways out of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ingle.backends.base.backend import Backend
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.remote.clearance import Clearance
from ingle.backends.remote.providers import Provider


class EgressGateway(Protocol):
    """Providers, their keys and budgets, and a backend for each request that was cleared."""

    def providers(self) -> Sequence[Provider]:
        """Those that the owner set up; raises what has a `message` where the list is wrong."""
        ...

    def trouble(self, provider: Provider) -> str:
        """Why a provider cannot be asked now; empty where it can."""
        ...

    async def backend(self, clearance: Clearance, request: GenerateRequest) -> Backend:
        """A backend for this very request, once; raises `BackendError` and `RequestError`."""
        ...


class NoEgress:
    """A machine that nothing leaves."""

    def providers(self) -> Sequence[Provider]:
        """None."""
        return ()

    def trouble(self, provider: Provider) -> str:
        """There is no provider to have any."""
        return "ingle is offline."

    async def backend(self, clearance: Clearance, request: GenerateRequest) -> Backend:
        """Never called, since there is no provider."""
        raise AssertionError("there is no way out")
