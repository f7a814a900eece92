"""`ToolLine`: says that tools are on, where, and which."""

from __future__ import annotations

from pathlib import Path

from rich.cells import cell_len
from textual.app import RenderResult
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from ..text.terminal_safe_text import clean_line


class ToolLine(Widget):
    """One line above the composer, while tools are on."""

    DEFAULT_CSS = "ToolLine { height: 1; width: 100%; padding: 0 2; }"

    folder: reactive[str] = reactive("")
    facts: reactive[str] = reactive("")

    async def on_click(self) -> None:
        """List the tools."""
        await self.run_action("screen.command('tools')")

    def render(self) -> RenderResult:
        head, facts = "⚒ TOOLS ", f" · {self.facts}"
        folder = shown_folder(self.folder)
        room = max(1, self.size.width - cell_len(head + facts))
        while cell_len(folder) > room:
            folder = f"…{folder[2:]}"
        return Content.assemble((head, "bold $warning"), folder, (facts, "$muted"))


def shown_folder(folder: str) -> str:
    """Return a folder, with `~` for the home folder."""
    home = str(Path.home())
    inside = folder == home or folder.startswith(f"{home}/")
    return clean_line(f"~{folder[len(home) :]}" if inside else folder)
