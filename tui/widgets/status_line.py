"""`StatusLine`: the model and its state, speed, and how much of the context is used."""

from __future__ import annotations

from dataclasses import dataclass

from textual.app import RenderResult
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from .. import wording

BAR_WIDTH = 16
NARROW = 60


@dataclass(frozen=True, slots=True)
class ChatStatus:
    """What the line shows; None and 0 where a number is not known."""

    model: str = ""
    state: str = "connecting"
    good: bool = False
    bad: bool = False
    speed: float | None = None
    first_token: float | None = None
    context_used: int = 0
    context: int = 0


class StatusLine(Widget):
    """One line at the bottom; it leaves out what has no room."""

    status: reactive[ChatStatus] = reactive(ChatStatus())

    def render(self) -> RenderResult:
        width = self.size.width
        left = self._state()
        for part in (self._speed(), self._first_token()):
            if part and left.cell_length + len(part) + 4 + self._context_room(width) < width:
                left = Content.assemble(left, ("  ·  ", "$edge"), part)
        right = self._context_used(width, width - left.cell_length - 3)
        gap = " " * max(1, width - left.cell_length - right.cell_length - 1)
        return Content.assemble(left, gap, right).truncate(width)

    def _state(self) -> Content:
        status = self.status
        style = "$success" if status.good else "$error" if status.bad else "$warning"
        parts: list[str | tuple[str, str]] = [" ", ("●" if status.good else "○", style), " "]
        if status.model:
            parts += [status.model, " "]
        parts.append((status.state, "$muted"))
        return Content.assemble(*parts)

    def _speed(self) -> str:
        return "" if self.status.speed is None else wording.speed(self.status.speed)

    def _first_token(self) -> str:
        seconds = self.status.first_token
        return "" if seconds is None else f"first token {wording.duration(seconds)}"

    def _context_room(self, width: int) -> int:
        return 0 if not self.status.context else 10 if width < NARROW else 22

    def _context_used(self, width: int, room: int) -> Content:
        """`ctx ━━──── 1 204 / 8 192  15 %`, shorter where there is little room."""
        status = self.status
        if not status.context:
            return Content("")
        fraction = status.context_used / status.context
        style = "$error" if fraction >= 0.9 else "$warning" if fraction >= 0.75 else "$primary"
        percent = f"{fraction:.0%}"
        counts = f"{wording.tokens(status.context_used)} / {wording.tokens(status.context)}"
        short = Content.assemble(("ctx ", "$muted"), percent)
        middle = Content.assemble(("ctx ", "$muted"), counts, ("  " + percent, "$muted"))
        full, empty = wording.bar(fraction, BAR_WIDTH)
        gauge = Content.assemble((full, style), (empty, "$edge"), "  ")
        long = Content.assemble(("ctx ", "$muted"), gauge, counts, (f"  {percent}", "$muted"))
        fitting = (part for part in (long, middle, short) if part.cell_length <= room)
        return next(fitting, Content(""))
