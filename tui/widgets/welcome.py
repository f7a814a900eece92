"""`Welcome`: what stands in an empty chat."""

from __future__ import annotations

from textual.app import RenderResult
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from .. import wording
from ..api import ModelEntry

KEYS = (
    ("enter", "send"),
    ("ctrl+j", "new line"),
    ("ctrl+o", "models"),
    ("ctrl+p", "all commands"),
    ("F1", "keys and help"),
)


class Welcome(Widget):
    """Names the model that will answer, or offers to fetch it."""

    model: reactive[ModelEntry | None] = reactive[ModelEntry | None](None)
    pulling: reactive[bool] = reactive(False)
    trouble: reactive[str] = reactive("")

    def render(self) -> RenderResult:
        blocks = [Content("ingle").stylize("bold $primary")]
        if self.size.height >= 8:
            blocks.append(Content(""))
        model = self.model
        if self.trouble:
            blocks += [Content(self.trouble).stylize("$error")]
        elif model is None:
            blocks.append(Content("starting; you can type already").stylize("$muted"))
        elif model.installed:
            blocks += self._ready(model)
        else:
            blocks += self._offer(model)
        return Content("\n").join(blocks)

    def _ready(self, model: ModelEntry) -> list[Content]:
        lines = [Content.assemble(model.name, (f"  {_facts(model)}", "$muted"))]
        if self.size.height >= 12 and self.size.width >= 40:
            lines.append(Content(""))
            lines += [
                Content.assemble((f"{key:>8}", "$secondary"), (f"  {what:<14}", "$muted"))
                for key, what in KEYS
            ]
        return lines

    def _offer(self, model: ModelEntry) -> list[Content]:
        lines = [
            Content(model.name).stylize("bold"),
            Content(_facts(model)).stylize("$muted"),
        ]
        if model.description and self.size.height >= 9:
            lines.append(Content(model.description).stylize("$muted"))
        lines.append(Content(""))
        if self.pulling:
            lines.append(Content("on its way; you can type already").stylize("$muted"))
        else:
            offer = Content.assemble(
                ("enter", "bold $primary"), " downloads it and starts the chat"
            )
            lines.append(offer)
        return lines


def _facts(model: ModelEntry) -> str:
    parts = [
        wording.size(model.size) if model.size else "",
        model.licence or "",
        f"{wording.tokens(model.context)} tokens of context" if model.context else "",
    ]
    return " · ".join(part for part in parts if part)
