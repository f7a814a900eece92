"""`ModelPicker`: choose among the models that are here and those that can be fetched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from .. import wording
from ..api import ModelEntry

MARKS = {"ready": "●", "stopped": "✓", "downloading": "↓", "available": "○", "failed": "✗"}

LEGEND = "● loaded  ✓ on disk  ○ is downloaded when chosen  ·  esc closes"


class ModelPicker(ModalScreen[ModelEntry | None]):
    """Ends with the chosen model, or None; choosing is all it does."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+o", "cancel", "Close", show=False)
    ]

    def __init__(self, models: Sequence[ModelEntry], current: str | None) -> None:
        super().__init__()
        self._models = list(models)
        self._current = current

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content("Models").stylize("bold $primary"), classes="dialog-title")
            yield OptionList(*(Option(self._row(model)) for model in self._models), markup=False)
            yield Static(Content(LEGEND).stylize("$muted"), classes="dialog-hint")

    def on_mount(self) -> None:
        """Begin at the model in use."""
        names = [model.name for model in self._models]
        options = self.query_one(OptionList)
        options.highlighted = names.index(self._current) if self._current in names else 0
        options.focus()

    def _row(self, model: ModelEntry) -> Content:
        mark = MARKS.get(model.state, "◐")
        style = "$success" if model.state == "ready" else "$muted"
        facts = [
            (wording.size(model.size) if model.size else "").rjust(7),
            model.quantization or "",
            f"{wording.tokens(model.context)} ctx" if model.context else "",
            (model.licence or "") if model.writes else "does not chat",
        ]
        text = "  ".join(fact for fact in facts if fact)
        return Content.assemble((f"{mark} ", style), f"{model.name:<20} ", (text, "$muted"))

    @on(OptionList.OptionSelected)
    def choose(self, event: OptionList.OptionSelected) -> None:
        """End with the model on the chosen line."""
        self.dismiss(self._models[event.option_index])

    def action_cancel(self) -> None:
        """End without a choice."""
        self.dismiss(None)
