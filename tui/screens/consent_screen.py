"""`ConsentScreen`: asks whether a tool may do what it shows."""

from __future__ import annotations

import re
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from ingle.daemon.client.tool_types import ConsentChoice, ConsentRequest

from ..text import number_format
from ..text.terminal_safe_text import clean, clean_line
from .dialog import Dialog

MAX_LINES = 2000
"""Most lines of a preview that are shown."""
_DIGEST = re.compile(r" \([0-9a-f]{12}\)$")
"""What tells a scope from another of the same words; nothing to be read."""
UNSEEN = "… the rest is not shown: {}"


class ConsentScreen(Dialog[ConsentChoice | None]):
    """Ends with a choice, or None: no, to this call only.

    Enter does nothing, so that a key typed for the draft agrees to nothing.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss('once')", "Once", show=False),
        Binding("a", "dismiss('always')", "Always in this chat", show=False),
        Binding("n", "dismiss('never')", "Never in this chat", show=False),
        Binding("up,k", "scroll(-1)", "Up", show=False),
        Binding("down,j", "scroll(1)", "Down", show=False),
        Binding("pageup", "scroll(-10)", "Page up", show=False),
        Binding("pagedown,space", "scroll(10)", "Page down", show=False),
    ]

    def __init__(self, asked: ConsentRequest) -> None:
        keys = (("y", "once"), ("a", "always in this chat"), ("n", "never"), ("esc", "no"))
        parts = [Content.assemble((key, "bold $primary"), f" {word}") for key, word in keys]
        super().__init__(f"{clean_line(asked.title)}?", Content("   ").join(parts), "bold")
        self._asked = asked

    def body(self) -> ComposeResult:
        """The preview, and what the call can do."""
        if self._asked.preview:
            with VerticalScroll(id="preview", can_focus=False):
                yield Static(preview_content(self._asked))
        yield Static(Content("\n").join(facts(self._asked)), id="facts")

    def action_scroll(self, lines: int) -> None:
        """Scroll the preview."""
        for preview in self.query("#preview"):
            preview.scroll_relative(y=lines, animate=False)


def preview_content(asked: ConsentRequest) -> Content:
    """Return the preview, a diff in colours and a command as one."""
    lines = clean(asked.preview).expandtabs(4).rstrip("\n").split("\n")
    left = len(lines) - MAX_LINES
    shown = (
        [*lines[:MAX_LINES], UNSEEN.format(number_format.counted(left, "more line"))]
        if left > 0
        else lines
    )
    if asked.preview_format == "diff":
        return Content("\n").join(Content(line).stylize(_diff_style(line)) for line in shown)
    text = Content("\n".join(shown))
    return text.stylize("bold") if asked.preview_format == "command" else text


def _diff_style(line: str) -> str:
    if line.startswith(("+++", "---", "@@")):
        return "$muted"
    return {"+": "$success", "-": "$error"}.get(line[:1], "")


def facts(asked: ConsentRequest) -> list[Content]:
    """Return what leaves this machine, and whether the call is confined."""
    if asked.leaves:
        leaves = Content(f"☁ {clean_line(asked.leaves)}").stylize("$warning")
    else:
        leaves = Content("⌂ Nothing leaves this machine.").stylize("$success")
    found = [leaves]
    if not asked.confined:
        loose = "! Not confined: it can do whatever you can do."
        found.append(Content(loose).stylize("$warning"))
    scope = f"a and n hold for: {_DIGEST.sub('', clean_line(asked.scope))}"
    return [*found, Content(scope).stylize("$muted")]
