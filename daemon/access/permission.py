"""Permissions of a request: everything, or what its API key allows."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Generator, MutableMapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

import msgspec

from ..errors import Forbidden
from ..http.route_access import Scope

ADMISSION = "admission"
"""The key in the state of a WebSocket's ASGI scope, see `admitted_request`."""


def admitted_request(scope: MutableMapping[str, Any]) -> AbstractContextManager[None]:
    """Return the context of one request over a WebSocket: its permission, and its place in limits.

    Entering it raises `RequestError` if the client may not send it (any more).
    """
    return scope["state"][ADMISSION]()


class KeyNotAllowed(Forbidden):
    """A valid key does not allow this."""

    code = "key_not_allowed"


class Permission(msgspec.Struct, frozen=True, kw_only=True):
    """The permission of one request; without a `key` it is the owner's, and allows everything.

    Empty `models` allow all; patterns have `*` and `?`. With `cloud` a request may leave this
    machine if the routing policy allows it. With `fetches` pictures may be given by addresses.
    """

    key: str | None = None
    scopes: frozenset[Scope] = frozenset(Scope)
    models: tuple[str, ...] = ()
    cloud: bool = True
    fetches: bool = False

    @property
    def restricted(self) -> bool:
        """Whether it depends on the model or the route, which some requests do not have."""
        return bool(self.models) or not self.cloud

    def check_scope(self, needed: Collection[Scope]) -> None:
        """Raise `KeyNotAllowed` unless it has one of these scopes, or `admin`."""
        if Scope.ADMIN in self.scopes or not self.scopes.isdisjoint(needed):
            return
        raise KeyNotAllowed(
            f"The key '{self.key}' may not do this: it is for {_listed(sorted(self.scopes))}.",
            hint=f"`ingle key new --scope {min(needed)}` creates one that may.",
        )

    def check_unrestricted(self) -> None:
        """Raise `KeyNotAllowed` if the key is limited to some models or a route."""
        if self.restricted:
            raise KeyNotAllowed(
                f"The key '{self.key}' may not do this: it is for some models or one route only.",
                hint="Use a key without `--model` and `--route`, or the unix socket.",
            )

    def allows_model(self, name: str) -> bool:
        """Whether it allows the model of this full name."""
        name = _plain(name)
        return not self.models or any(_matches(name, pattern) for pattern in self.models)

    def check_model(self, *names: str) -> None:
        """Raise `KeyNotAllowed` unless it allows one of a model's names."""
        if any(self.allows_model(name) for name in names):
            return
        raise KeyNotAllowed(
            f"The key '{self.key}' may not use this model; it may use {_listed(self.models)}.",
            hint="`GET /v1/models` lists them.",
            param="model",
        )

    def allows_remote(self, name: str) -> bool:
        """Whether a request may leave for this model, as `provider/model`, if the policy agrees."""
        return self.cloud and self.allows_model(name)


OWNER = Permission()

_CURRENT: ContextVar[Permission] = ContextVar("permission", default=OWNER)
"""Permission of the current request, inherited by the threads and tasks that it starts."""


def current_permission() -> Permission:
    """Return the permission of the current request; the owner's outside of requests."""
    return _CURRENT.get()


@contextmanager
def use_permission(permission: Permission) -> Generator[None]:
    """Set the current permission while the context lasts."""
    token = _CURRENT.set(permission)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def _matches(name: str, pattern: str) -> bool:
    # Brackets are not wildcards here: paths may contain them.
    return fnmatch.fnmatchcase(name, _plain(pattern).replace("[", "[[]"))


def _plain(name: str) -> str:
    return name.strip().lower()


def _listed(words: Sequence[str]) -> str:
    return ", ".join(f"'{word}'" for word in words)
