"""Types of adapters in the native API."""

from __future__ import annotations

from .answer import Answer


class AdapterEntry(Answer, frozen=True, kw_only=True):
    """An adapter: `name` is that of its model with `+` and its own; `size` in bytes."""

    name: str
    model: str
    size: int
    path: str


class AdapterEntries(Answer, frozen=True, kw_only=True):
    """The adapters of all models."""

    adapters: list[AdapterEntry]
