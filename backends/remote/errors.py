"""What can go wrong between us and a provider.

RemoteError               (a `BackendError`)
├── NotCleared            nobody allowed this request to leave
├── RemoteForbidden       the settings say that nothing leaves at all
├── CannotExpress         the provider's protocol has no words for something in the request
├── ProviderUnreachable   no connection, or no answer in time
├── ProviderRefused       the provider answered with an error
└── ProviderMisbehaved    the answer is not what the protocol says
"""

from __future__ import annotations

from ..base.errors import BackendError


class RemoteError(BackendError):
    """A request that a provider did not answer."""

    code = "remote_error"


class NotCleared(RemoteError):
    """The request is not the one that was looked at; no byte of it left."""

    code = "not_cleared"


class RemoteForbidden(RemoteError):
    """`offline` is set, so that no remote model can be made at all."""

    code = "offline"


class CannotExpress(RemoteError):
    """The provider could not be asked for this; a model on this machine can. No byte left."""

    code = "remote_cannot_express"


class ProviderUnreachable(RemoteError):
    """No connection, or silence for longer than the provider's time-outs allow."""

    code = "provider_unreachable"


class ProviderRefused(RemoteError):
    """The provider answered with an error; `status` is HTTP's."""

    code = "provider_refused"

    def __init__(self, message: str, *, status: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class ProviderMisbehaved(RemoteError):
    """The answer is too large, not UTF-8, not JSON, or not what the protocol says."""

    code = "provider_misbehaved"
