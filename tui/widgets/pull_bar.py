"""`PullBar`: the progress of a download, and of the installation of an engine."""

from __future__ import annotations

from textual.app import RenderResult
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from ingle.daemon.client.engine_types import InstallProgress
from ingle.daemon.client.model_types import DownloadProgress

from ..text import number_format
from ..text.terminal_safe_text import clean

WORDS = {"resolving": "looking it up", "verifying": "verifying the file"}


class PullBar(Widget):
    """One line above the composer, hidden without either; `others` counts further downloads."""

    progress: reactive[DownloadProgress | None] = reactive[DownloadProgress | None](None)
    others: reactive[int] = reactive(0)
    install: reactive[InstallProgress | None] = reactive[InstallProgress | None](None)

    def watch_progress(self) -> None:
        """Show only while there is a value."""
        self.display = self.progress is not None or self.install is not None

    watch_install = watch_progress

    async def on_click(self) -> None:
        """Ask whether to stop the download."""
        await self.run_action("screen.command('pull')")

    def render(self) -> RenderResult:
        progress, install = self.progress, self.install
        if progress is None:
            return Content("") if install is None else self._render_install(install)
        more = f"  and {self.others} more" if self.others else ""
        name = Content.assemble(("↓ ", "$primary"), clean(progress.model), (more, "$muted"), "  ")
        beside = "" if install is None else f" · {clean(install.title)}: {install.text()}"
        facts = Content(self._facts(progress) + beside).stylize("$muted")
        room = self.size.width - name.cell_length - facts.cell_length - 2
        if not progress.total or room < 8 or progress.status != "downloading":
            return Content.assemble(name, facts).truncate(self.size.width, ellipsis=True)
        full, empty = number_format.bar(progress.received / progress.total, min(40, room))
        return Content.assemble(name, (full, "$primary"), (empty, "$edge"), "  ", facts)

    def _render_install(self, install: InstallProgress) -> Content:
        name = Content.assemble(("↓ ", "$primary"), clean(install.title), "  ")
        facts = Content(clean(install.text())).stylize("$muted")
        room = self.size.width - name.cell_length - facts.cell_length - 2
        if not install.total or room < 8:
            return Content.assemble(name, facts).truncate(self.size.width, ellipsis=True)
        full, empty = number_format.bar(install.done / install.total, min(40, room))
        return Content.assemble(name, (full, "$primary"), (empty, "$edge"), "  ", facts)

    def _facts(self, progress: DownloadProgress) -> str:
        if progress.status != "downloading":
            return f"{WORDS.get(progress.status, clean(progress.status))} …"
        parts: list[str] = []
        wide = self.size.width >= 70
        if progress.total:
            parts.append(number_format.percent(progress.received / progress.total))
            if wide:
                done, total = (
                    number_format.size(progress.received),
                    number_format.size(progress.total),
                )
                parts.append(f"{done} of {total}")
        else:
            parts.append(number_format.size(progress.received))
        if progress.bytes_per_second:
            parts.append(f"{number_format.size(progress.bytes_per_second)}/s")
        if progress.eta is not None:
            parts.append(f"{number_format.remaining(progress.eta)} left")
        if self.size.width >= 100:
            parts.append("esc hides this")
        return " · ".join(parts)
