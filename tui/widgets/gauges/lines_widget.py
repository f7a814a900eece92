"""`LinesWidget`: a widget of a few lines that costs nothing while they stay the same."""

from __future__ import annotations

from abc import abstractmethod

from textual.app import RenderResult
from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget


class LinesWidget(Widget):
    """As high as its lines; `changed` repaints where they differ, and lays out for another number.

    Gauges hear the same figures again and again, and must not keep the terminal busy with them.
    """

    DEFAULT_CSS = "LinesWidget { height: auto; width: 100%; }"

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._lines: list[Content] = []
        self.repaints = 0

    @abstractmethod
    def draw(self, width: int) -> list[Content]:
        """The lines for a width."""

    def changed(self) -> None:
        """What is shown may have changed."""
        width = self.size.width
        lines = self.draw(width) if width else []
        old = self._lines
        same = len(lines) == len(old)
        if same and all(new.is_same(line) for new, line in zip(lines, old, strict=True)):
            return
        self._lines = lines
        self.repaints += 1
        self.refresh(layout=not same)

    def get_content_width(self, container: Size, viewport: Size) -> int:
        """As wide as there is room."""
        return container.width

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many as there are lines."""
        return len(self.draw(width)) if width else 0

    def on_resize(self) -> None:
        """Another width, other lines."""
        self._lines = self.draw(self.size.width) if self.size.width else []
        self.refresh()

    def render(self) -> RenderResult:
        return Content("\n").join(self._lines)
