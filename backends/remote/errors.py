"""Errors of requests to remote providers.

RemoteError               (a `BackendError`)
├── NotCleared            the router did not clear this request
├── RemoteForbidden       the settings forbid all remote models
├── CannotExpress         the provider's protocol has no field for something in the request
├── ProviderUnreachable   no connection, or no answer in time
├── ProviderRefused       the provider answered with an error
└── ProviderMisbehaved    the answer is not what the protocol says
"""

from __future__ import annotations

from ..base.errors import BackendError


class RemoteError(BackendError):
    """A request to a provider failed."""

    code = "remote_error"


class NotCleared(RemoteError):
    """The request is not the one that was cleared; nothing was sent."""

    code = "not_cleared"


class RemoteForbidden(RemoteError):
    """The setting `offline` forbids every remote model."""

    code = "offline"


class CannotExpress(RemoteError):
    """The provider's protocol cannot express the request; a local model can. Nothing was sent."""

    code = "remote_cannot_express"


class ProviderUnreachable(RemoteError):
    """No connection, or no data within the provider's timeouts."""

    code = "provider_unreachable"


class ProviderRefused(RemoteError):
    """The provider answered with an error; `status` is the HTTP status."""

    code = "provider_refused"

    def __init__(self, message: str, *, status: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class ProviderMisbehaved(RemoteError):
    """The answer is too large, not UTF-8, not JSON, or violates the protocol."""

    code = "provider_misbehaved"
