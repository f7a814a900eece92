"""`PromptScreen`: a screen that paints typed text at once, also while it is busy painting.

Textual paints at ticks of a clock, sixty a second; a change that comes soon after a painting waits
for the second tick from there, up to 33 ms. While an answer streams in, that is nearly every key.
"""

from __future__ import annotations

from contextlib import nullcontext

from textual.screen import Screen, ScreenResultType
from textual.widget import Widget

from ..terminal.render_throttle import driver_of


class PromptScreen(Screen[ScreenResultType]):
    """A screen that paints its input widget before everything else."""

    @property
    def typed_in(self) -> Widget | None:
        """The widget that is painted at once, if nothing covers or moves it."""
        return None

    def on_idle(self) -> None:
        """Paint it, and leave all other changes to the next tick."""
        typed_in = self.typed_in if self._dirty_widgets else None
        if typed_in is None or typed_in not in self._dirty_widgets:
            return
        # The app swallows what is painted in a batch, and a screen that is covered has no terminal.
        app = self.app  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if not self.is_current or app._batch_count:  # pyright: ignore[reportPrivateUsage]
            return
        if any(typed_in in moved for moved in self._layout_widgets.values()):
            return  # it grows or shrinks: where it is now, its lines would be seen shifted
        waiting = self._dirty_widgets - {typed_in}
        self._compositor.update_widgets({typed_in})
        driver = driver_of(app)  # pyright: ignore[reportUnknownArgumentType]
        with nullcontext() if driver is None else driver.writes_first():
            self._compositor_refresh()  # which takes all that is dirty for painted
        self._dirty_widgets.update(waiting)
