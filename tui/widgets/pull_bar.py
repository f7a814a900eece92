"""`PullBar`: how far a download is."""

from __future__ import annotations

from textual.app import RenderResult
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from .. import wording
from ..api import PullProgress


class PullBar(Widget):
    """One line above the composer; hidden while nothing is fetched."""

    progress: reactive[PullProgress | None] = reactive[PullProgress | None](None)

    def watch_progress(self, progress: PullProgress | None) -> None:
        """Show only while there is something to tell."""
        self.display = progress is not None

    def render(self) -> RenderResult:
        progress = self.progress
        if progress is None:
            return Content("")
        name = Content.assemble(("↓ ", "$primary"), progress.model, "  ")
        facts = Content(self._facts(progress)).stylize("$muted")
        room = self.size.width - name.cell_length - facts.cell_length - 2
        if not progress.total or room < 8:
            return Content.assemble(name, facts).truncate(self.size.width, ellipsis=True)
        full, empty = wording.bar(progress.received / progress.total, min(40, room))
        return Content.assemble(name, (full, "$primary"), (empty, "$edge"), "  ", facts)

    def _facts(self, progress: PullProgress) -> str:
        if progress.status != "downloading":
            return f"{progress.status} …"
        parts: list[str] = []
        if progress.total:
            parts.append(f"{progress.received / progress.total:.0%}")
            if self.size.width >= 70:
                done, total = wording.size(progress.received), wording.size(progress.total)
                parts.append(f"{done} of {total}")
        else:
            parts.append(wording.size(progress.received))
        if progress.bytes_per_second:
            parts.append(f"{wording.size(progress.bytes_per_second)}/s")
        if progress.eta is not None:
            parts.append(f"{wording.remaining(progress.eta)} left")
        return " · ".join(parts)
