"""`FeatureSet`: the features of one chat screen, loaded after the first keys can be typed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from .feature import Feature, Handler

if TYPE_CHECKING:
    from .chat_host import ChatHost

F = TypeVar("F", bound=Feature)


class FeatureSet:
    """Empty until `load`; commands that only features know and that come before it are kept."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = dict(handlers)
        self._features: list[Feature] = []
        self._early: list[tuple[str, str]] = []
        self.is_complete = False

    def __iter__(self) -> Iterator[Feature]:
        return iter(self._features)

    def find(self, kind: type[F]) -> F:
        """The feature of this class."""
        return next(feature for feature in self._features if isinstance(feature, kind))

    def can_run(self, name: str) -> bool:
        """Whether a command has a handler."""
        return name in self._handlers

    def run(self, name: str, argument: str) -> Awaitable[None] | None:
        """Run a command; what it returns is still to be awaited."""
        handler = self._handlers.get(name)
        if handler is not None:
            return handler(argument)
        if not self.is_complete:
            self._early.append((name, argument))
        return None

    async def load(
        self, kinds: Iterable[type[Feature]], host: ChatHost, greet: Callable[[Feature], None]
    ) -> list[tuple[str, str]]:
        """Make the features, and `greet` each; returns the commands that were given before.

        Keys are handled between two of them.
        """
        for kind in kinds:
            feature = kind(host)
            self._features.append(feature)
            self._handlers.update(feature.handlers())
            await asyncio.sleep(0)
        for feature in self._features:
            feature.on_ready()
            greet(feature)
            await asyncio.sleep(0)
        self.is_complete = True
        return self._early
