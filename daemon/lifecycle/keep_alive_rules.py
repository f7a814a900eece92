"""Keep-alive and pinning rules that the configuration sets for models by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ingle.models.errors import ModelError
from ingle.models.metadata.stored_model import StoredModel


@dataclass(frozen=True)
class KeepAliveRule:
    """`keep_alive` in seconds, -1 for ever, None for the default."""

    keep_alive: float | None = None
    pinned: bool = False


NO_RULE = KeepAliveRule()


class KeepAliveRules:
    """The settings `keep_alives` and `pinned`, for names, aliases and files."""

    def __init__(
        self,
        keep_alives: Sequence[tuple[str, float]] = (),
        pinned: Sequence[str] = (),
        resolve: Callable[[str], StoredModel] | None = None,
    ) -> None:
        """`resolve` finds the model that a name means."""
        self._keep_alives = keep_alives
        self._pinned = pinned
        self._resolve = resolve

    def of(self, reference: str, model: StoredModel) -> KeepAliveRule:
        """Return the rule for `model`, requested as `reference`; reads the store if there are
        rules.

        A rule for the name that was requested takes precedence over one for another name of the
        model.
        """
        if not self._keep_alives and not self._pinned:
            return NO_RULE
        asked = _plain(reference)
        exact = [seconds for name, seconds in self._keep_alives if _plain(name) == asked]
        same = [s for name, s in self._keep_alives if not exact and self._means(name, model)]
        pinned = any(_plain(name) == asked or self._means(name, model) for name in self._pinned)
        return KeepAliveRule(next(iter(exact or same), None), pinned)

    def _means(self, name: str, model: StoredModel) -> bool:
        return _plain(name) == _plain(model.name) or self._path(name) == model.path

    def _path(self, name: str) -> Path | None:
        try:
            return self._resolve(name).path if self._resolve is not None else None
        except ModelError:
            return None  # a rule for a model that is not installed


def _plain(name: str) -> str:
    return name.strip().lower().removesuffix(":latest")
