"""Interface through which routing sends requests to providers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ingle.backends.base.backend import RequestBackend
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.remote.clearance import Clearance
from ingle.backends.remote.providers import Provider


class EgressGateway(Protocol):
    """Providers with keys and budgets, and a backend for each cleared request."""

    def providers(self) -> Sequence[Provider]:
        """Return the configured providers; raises an error with a `message` if the list is
        invalid.
        """
        ...

    def trouble(self, provider: Provider) -> str:
        """Return why a provider cannot be used now; empty if it can."""
        ...

    async def backend(
        self, clearance: Clearance, request: GenerateRequest, *, retried: bool = True
    ) -> RequestBackend:
        """Return a single-use backend for this request, which tries again only if `retried`;
        raises `BackendError` and `RequestError`.
        """
        ...
