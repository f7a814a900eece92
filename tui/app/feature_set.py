"""`FeatureSet`: the features of one chat screen, learnt behind the first keys."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from ..features.feature import Feature, Handler

if TYPE_CHECKING:
    from ..features.chat_host import ChatHost

F = TypeVar("F", bound=Feature)


class FeatureSet:
    """Empty until `load`; commands that only features know and that come before it are kept."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = dict(handlers)
        self._features: list[Feature] = []
        self._early: list[tuple[str, str]] | None = []

    def __iter__(self) -> Iterator[Feature]:
        return iter(self._features)

    @property
    def is_complete(self) -> bool:
        """Whether everything is there."""
        return self._early is None

    def find(self, kind: type[F]) -> F:
        """The feature of this class."""
        return next(feature for feature in self._features if isinstance(feature, kind))

    def can_run(self, name: str) -> bool:
        """Whether a command is answered."""
        return name in self._handlers

    def run(self, name: str, argument: str) -> Awaitable[None] | None:
        """Run a command; what it returns is still to be awaited."""
        handler = self._handlers.get(name)
        if handler is not None:
            return handler(argument)
        if self._early is not None:
            self._early.append((name, argument))
        return None

    async def load(self, host: ChatHost, greet: Callable[[Feature], None]) -> list[tuple[str, str]]:
        """Make the features, and `greet` each; returns the commands that were given before.

        Between two of them keys have their turn.
        """
        for kind in await asyncio.to_thread(import_features):
            feature = kind(host)
            self._features.append(feature)
            self._handlers.update(feature.handlers())
            await asyncio.sleep(0)
        for feature in self._features:
            feature.on_ready()
            greet(feature)
            await asyncio.sleep(0)
        early, self._early = self._early or [], None
        return early


def import_features() -> tuple[type[Feature], ...]:
    """Everything the chat can do; slow the first time."""
    from .feature_list import FEATURES

    return FEATURES
