"""Scopes of API keys, and which of them a route requires."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Scope(StrEnum):
    """A scope that an API key can be limited to."""

    INFERENCE = "inference"
    """Send requests to models and list them."""
    READ = "read"
    """Read the state of the daemon and its models."""
    MODELS = "models"
    """Load, unload, pull, create and remove models."""
    FILES = "files"
    """Uploaded files and batches, including those of other keys."""
    ADMIN = "admin"
    """Everything, including what no other scope covers."""


class RouteAccess(msgspec.Struct, frozen=True):
    """The scopes that open a route: a key needs one of them, or `ADMIN`.

    An `unrestricted` route names no model that could be checked, so keys limited to some models
    or to local models may not use it.
    """

    scopes: frozenset[Scope]
    unrestricted: bool = False


ANY = RouteAccess(frozenset(Scope))
READ = RouteAccess(frozenset({Scope.READ}))
INFERENCE = RouteAccess(frozenset({Scope.INFERENCE}))
MODELS = RouteAccess(frozenset({Scope.MODELS}))
MODELS_UNRESTRICTED = RouteAccess(frozenset({Scope.MODELS}), unrestricted=True)
"""The request makes a model out of another one, or out of any file."""
FILES = RouteAccess(frozenset({Scope.FILES}))
FILES_UNRESTRICTED = RouteAccess(frozenset({Scope.FILES}), unrestricted=True)
"""The requests of a batch are in its file and run long after this one."""
ADMIN = RouteAccess(frozenset({Scope.ADMIN}))
LISTS = RouteAccess(frozenset({Scope.INFERENCE, Scope.READ, Scope.MODELS}))
"""A client that uses or changes models must be able to list them."""
