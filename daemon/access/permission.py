"""What the sender of a request may do: everything, or what its key was made for."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from ..errors import Forbidden
from ..http.route_access import Scope


class KeyNotAllowed(Forbidden):
    """A valid key that was not made for this."""

    code = "key_not_allowed"


@dataclass(frozen=True, kw_only=True)
class Permission:
    """What one request may do; without a `key` it is the owner's own, who may do everything.

    No `models` stand for all; patterns have `*` and `?`. With `cloud` a request may leave this
    machine where the routing policy lets it.
    """

    key: str | None = None
    scopes: frozenset[Scope] = frozenset(Scope)
    models: tuple[str, ...] = ()
    cloud: bool = True

    @property
    def restricted(self) -> bool:
        """Whether it depends on the model or the route, which some requests do not name."""
        return bool(self.models) or not self.cloud

    def check_scope(self, needed: Collection[Scope]) -> None:
        """Pass where it has one of those, or may do everything; raises `KeyNotAllowed`."""
        if Scope.ADMIN in self.scopes or not self.scopes.isdisjoint(needed):
            return
        raise KeyNotAllowed(
            f"The key '{self.key}' may not do this: it is for {_listed(sorted(self.scopes))}.",
            hint=f"`ingle key new --scope {min(needed)}` makes one that may.",
        )

    def check_unrestricted(self) -> None:
        """Refuse what would reach past the key's models or route; raises `KeyNotAllowed`."""
        if self.restricted:
            raise KeyNotAllowed(
                f"The key '{self.key}' may not do this: it is for some models or one route only.",
                hint="Use a key without `--model` and `--route`, or the unix socket.",
            )

    def allows_model(self, name: str) -> bool:
        """Whether it may use the model of this full name."""
        name = _plain(name)
        return not self.models or any(_matches(name, pattern) for pattern in self.models)

    def check_model(self, *names: str) -> None:
        """Pass where one of a model's names is covered; raises `KeyNotAllowed`."""
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
"""Of the request that runs: what it starts, be it in a thread or a task, has the same one."""


def current_permission() -> Permission:
    """That of the request on whose behalf this runs; the owner's where there is none."""
    return _CURRENT.get()


@contextmanager
def use_permission(permission: Permission) -> Generator[None]:
    """Do what is done inside on behalf of somebody."""
    token = _CURRENT.set(permission)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def _matches(name: str, pattern: str) -> bool:
    # A bracket is no wildcard here: names of models have none, and paths may.
    return fnmatch.fnmatchcase(name, _plain(pattern).replace("[", "[[]"))


def _plain(name: str) -> str:
    return name.strip().lower()


def _listed(words: Sequence[str]) -> str:
    return ", ".join(f"'{word}'" for word in words)
