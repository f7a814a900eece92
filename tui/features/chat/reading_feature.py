"""Moving through the chat: page by page, and to its end."""

from __future__ import annotations

from collections.abc import Mapping

from ..feature import Feature, Handler


class ReadingFeature(Feature):
    """Scrolls and follows."""

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "page_up": lambda _: self._page(-1),
            "page_down": lambda _: self._page(1),
            "end": lambda _: self.host.transcript.follow(),
        }

    def _page(self, direction: int) -> None:
        transcript = self.host.transcript
        step = max(1, transcript.size.height - 2) * direction
        transcript.scroll_relative(y=step, animate=False, immediate=True)
