"""Resolves model names to routes and their targets."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ingle.backends.remote.providers import Provider
from ingle.models.file_stamp import FileStamp

from .policy import Policy
from .policy_file import PolicyError, load_policy
from .policy_tables import AUTO, RouteDefinition


class RouteTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The target of a name: a local model, and a remote one, whose `provider` is empty if there is
    none.

    `named`: the name chose the provider's model itself, so that no other may answer.
    """

    route: RouteDefinition
    local: str
    provider: str = ""
    model: str = ""
    named: bool = False

    @property
    def remote(self) -> str:
        """`provider/model`, or empty."""
        return f"{self.provider}/{self.model}" if self.provider else ""


class PolicySource:
    """The policy of a file, reloaded when the file changes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._seen: FileStamp | None = None
        self._policy: Policy | PolicyError | None = None

    def current(self) -> Policy:
        """Return the policy in force; raises `PolicyError` while the file is invalid."""
        with self._lock:
            stamp = FileStamp.find(self.path)
            if self._policy is None or stamp != self._seen:
                self._seen = stamp
                try:
                    self._policy = load_policy(self.path)
                except PolicyError as error:
                    self._policy = error
            if isinstance(self._policy, PolicyError):
                raise PolicyError(self._policy.message, self._policy.hint)
            return self._policy


class RouteResolver:
    """Resolves model names; `local_default` is the model of routes without one."""

    def __init__(self, policy: PolicySource, local_default: str) -> None:
        self._policy = policy
        self._local_default = local_default

    def find(self, name: str, providers: Sequence[Provider]) -> RouteTarget | None:
        """Return the target of a name; None if it is neither a route's nor a provider's model.

        While the policy is invalid, `auto` is the only route.
        """
        name = name.strip()
        try:
            routes = self._policy.current().routes
        except PolicyError:
            routes = Policy().routes
        known = routes.get(name.lower())
        if known is not None:
            return self.of_route(known, providers)
        provider, slash, model = name.partition("/")
        if slash and model and any(p.name == provider for p in providers):
            local = routes[AUTO].local or self._local_default
            return RouteTarget(
                route=routes[AUTO], local=local, provider=provider, model=model, named=True
            )
        return None

    def of_route(
        self, route: RouteDefinition, providers: Sequence[Provider], local: str = ""
    ) -> RouteTarget:
        """Return the target of a route; `local` overrides its own local model."""
        provider, _, model = route.cloud.partition("/")
        if not provider:
            first = next((p for p in providers if p.models), None)
            provider, model = (first.name, first.models[0]) if first is not None else ("", "")
        elif not any(p.name == provider for p in providers):
            provider, model = "", ""
        local = local or route.local or self._local_default
        return RouteTarget(route=route, local=local, provider=provider, model=model)
