"""`LinesWidget`: a gauge of a few lines, repainted only if they differ."""

from __future__ import annotations

from abc import abstractmethod

from textual.app import RenderResult
from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from ...gauges.gauge_state import GaugeState


class LinesWidget(Widget):
    """As high as its lines; `show` repaints if they differ, and lays out if their number does.

    Gauges are updated with the same figures again and again.
    """

    DEFAULT_CSS = "LinesWidget { height: auto; width: 100%; }"

    def __init__(self) -> None:
        super().__init__()
        self._state = GaugeState()
        self._lines: list[Content] = []
        self.repaints = 0

    @abstractmethod
    def draw(self, state: GaugeState, width: int) -> list[Content]:
        """The lines for a width."""

    def _draw(self, width: int) -> list[Content]:
        return self.draw(self._state, width) if width else []

    def show(self, state: GaugeState) -> None:
        """Draw what changed."""
        self._state = state
        lines, old = self._draw(self.size.width), self._lines
        same = len(lines) == len(old)
        if same and all(new.is_same(line) for new, line in zip(lines, old, strict=True)):
            return
        self._lines = lines
        self.repaints += 1
        self.refresh(layout=not same)

    def get_content_width(self, container: Size, viewport: Size) -> int:
        """The width of the container."""
        return container.width

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """The number of lines."""
        return len(self._draw(width))

    def on_resize(self) -> None:
        """Draw the lines for the new width."""
        self.redraw()

    def redraw(self) -> None:
        """Draw the same state anew."""
        self._lines = self._draw(self.size.width)
        self.refresh()

    def render(self) -> RenderResult:
        return Content("\n").join(self._lines)
