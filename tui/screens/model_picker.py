"""`ModelPicker`: local models and models to download, with the actions on each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from ingle.daemon.client.model_types import ModelEntries, ModelEntry

from ..commands.chat_session import ModelAction, ModelPick
from ..session.model_choice import custom_model
from ..session.model_descriptions import (
    WARM,
    ModelGroup,
    download_sentence,
    facts,
    fit_sentence,
    fit_style,
    fit_words,
    group_models,
    lacks_room,
)
from ..text import number_format
from ..text.terminal_safe_text import clean

MARKS = {"ready": "●", "stopped": "○", "downloading": "↓", "available": "·", "failed": "✗"}
KEYS = "p pull · u unload · d delete · c compare · / filter · esc closes"
SHORT_KEYS = "p pull · u unload · d delete · c compare · esc"
BESIDE_THE_LIST = 12
"""Rows of the dialog besides the list, and around it."""


class ModelPicker(ModalScreen[ModelPick | None]):
    """Ends with the choice, or None, and does nothing else.

    `speeds` are tokens a second as they were measured here, `rate` the bytes a second of the last
    download.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+o", "dismiss", "Close", show=False, priority=True),
        Binding("up", "move(-1)", "Up", show=False, priority=True),
        Binding("down", "move(1)", "Down", show=False, priority=True),
        Binding("enter", "choose('use')", "Use", show=False, priority=True),
        Binding("tab,shift+tab", "change_focus", "Keys", show=False, priority=True),
        Binding("slash", "filter", "Filter", show=False),
        Binding("p", "choose('pull')", "Pull", show=False),
        Binding("d,delete", "choose('delete')", "Delete", show=False),
        Binding("u", "choose('unload')", "Unload", show=False),
        Binding("c", "choose('compare')", "Compare", show=False),
    ]

    def __init__(
        self,
        listing: ModelEntries,
        current: str | None,
        *,
        speeds: Mapping[str, float] | None = None,
        rate: float | None = None,
    ) -> None:
        super().__init__()
        self._listing = listing
        self._current = current
        self._speeds = speeds or {}
        self._rate = rate
        self._rows: list[ModelEntry | None] = []

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Input(placeholder="filter, or hf.co/owner/repo, or a path")
            yield OptionList(markup=False)
            yield Static(id="details")
            yield Static(classes="dialog-hint", id="hint")

    def on_mount(self) -> None:
        """Highlight the model in use, and focus the filter."""
        self._fill("")
        names = [row.name if row is not None else None for row in self._rows]
        options = self.query_one(OptionList)
        if self._current in names:
            options.highlighted = names.index(self._current)
        self.query_one(Input).focus()

    def on_resize(self) -> None:
        """Draw the rows for the new width."""
        options = self.query_one(OptionList)
        highlighted = options.highlighted
        options.styles.max_height = max(2, self.size.height - BESIDE_THE_LIST)
        self._fill(self.query_one(Input).value)
        options.highlighted = highlighted
        self._show_keys()

    # Display

    def _fill(self, query: str) -> None:
        self._rows = []
        lines: list[Option | Content] = []
        custom = custom_model(query)
        groups = group_models(self._listing.models, "" if custom is not None else query)
        if custom is not None:
            groups.insert(0, ModelGroup("as typed", [custom]))
        for title, models in groups:
            lines.append(Option(Content(title).stylize("$secondary"), disabled=True))
            lines += map(self._row, models)
            self._rows += [None, *models]
        if not groups:
            lines.append(Option(Content("no model of that name").stylize("$muted"), disabled=True))
            self._rows.append(None)
        options = self.query_one(OptionList)
        options.set_options(lines)
        options.highlighted = 1 if groups else None
        self._describe()

    def _row(self, model: ModelEntry) -> Content:
        width = self.size.width or 80
        name_width = 16 if width < 70 else 19 if width < 90 else 25 if width < 110 else 36
        name = clean(model.name)
        name = name if len(name) <= name_width else f"{name[: name_width - 1]}…"
        mark = MARKS.get(model.state, "◐")
        style = "$success" if model.state == "ready" else "$muted"
        parts: list[tuple[str, str]] = [
            (f"{mark} ", style),
            (f"{name:<{name_width}} ", "" if model.writes else "$muted"),
            (f"{number_format.size(model.size) if model.size else '':>7} ", "$muted"),
        ]
        if not model.writes or not model.chat:
            parts.append(("cannot chat", "$muted"))
            return Content.assemble(*parts)
        parts.append((f"{fit_words(model.fit):<15}", fit_style(model.fit)))
        if width >= 80:
            parts.append((f"{model.quantization or '':<7}", "$muted"))
        speed = self._speeds.get(model.name)
        if width >= 80:
            parts.append((f"{number_format.speed(speed) if speed else '':<10}", "$accent"))
        elif speed is not None and model.name != self._current:
            parts.append((number_format.speed(speed), "$accent"))
        if model.name == self._current:
            parts.append(("in use", "$primary"))
        return Content.assemble(*parts)

    def _describe(self) -> None:
        model = self._chosen()
        lines = self._details(model) if model is not None else []
        self.query_one("#details", Static).update(Content("\n").join(lines))

    def _details(self, model: ModelEntry) -> list[Content]:
        title = clean(model.name)
        about = clean(model.description or "")
        lines = [Content.assemble((title, "bold $foreground"), f"  {about}" if about else "")]
        if known := facts(model):
            lines.append(Content(clean(" · ".join(known))))
        if model.fit is not None:
            lines.append(
                Content(fit_sentence(model.fit, loaded=model.state == "ready")).stylize(
                    fit_style(model.fit)
                )
            )
        extra = [
            f"{number_format.speed(self._speeds[model.name])} measured here"
            if model.name in self._speeds
            else "",
            f"draft model: {clean(model.draft)} (faster answers)" if model.draft else "",
        ]
        if any(extra):
            lines.append(Content(" · ".join(part for part in extra if part)))
        lines.append(self._meaning_of_enter(model))
        room = self.query_one("#details").size.width or 80
        return [line.truncate(room, ellipsis=True) for line in lines]

    def _meaning_of_enter(self, model: ModelEntry) -> Content:
        if not model.writes:
            return Content(f"for {model.purpose}; it cannot chat")
        if model.state == "downloading":
            return Content.assemble(("enter", "bold $primary"), " follows its download")
        if model.installed:
            words = " uses this model" if model.state in WARM else " loads it and uses it"
            return Content.assemble(("enter", "bold $primary"), words)
        free = self._listing.disk_free
        words = f" downloads {download_sentence(model.size, free, self._rate)}"
        style = "$error" if lacks_room(model.size, free) else ""
        return Content.assemble(("enter", "bold $primary"), (words, style))

    def on_descendant_focus(self) -> None:
        """Show the keys of the focused widget."""
        self._show_keys()

    def _show_keys(self) -> None:
        if self.focused is self.query_one(OptionList):
            keys = KEYS if self.size.width >= 80 else SHORT_KEYS
        else:
            keys = "type to filter · tab: more keys · esc closes"
        self.query_one("#hint", Static).update(Content(keys).stylize("$muted"))

    # Keys

    def _chosen(self) -> ModelEntry | None:
        place = self.query_one(OptionList).highlighted
        return self._rows[place] if place is not None and place < len(self._rows) else None

    @on(Input.Changed)
    def filter_models(self, event: Input.Changed) -> None:
        """Filter the models."""
        self._fill(event.value)

    @on(OptionList.OptionHighlighted)
    def describe(self) -> None:
        """Describe the highlighted model."""
        self._describe()

    @on(OptionList.OptionSelected)
    def select(self) -> None:
        """Use the model that was clicked."""
        self.action_choose("use")

    def action_move(self, step: int) -> None:
        """Move the highlight, skipping headings."""
        options = self.query_one(OptionList)
        (options.action_cursor_up if step < 0 else options.action_cursor_down)()

    def action_change_focus(self) -> None:
        """Move the focus between the filter and the list, where letters are keys."""
        filtering = self.focused is self.query_one(Input)
        (self.query_one(OptionList) if filtering else self.query_one(Input)).focus()

    def action_filter(self) -> None:
        """Focus the filter."""
        self.query_one(Input).focus()

    def action_choose(self, action: ModelAction) -> None:
        """End with an action, if it is possible for this model."""
        model = self._chosen()
        if model is None:
            return
        if action == "pull" and model.state == "downloading":
            action = "cancel"
        if action in self._possible(model):
            self.dismiss(ModelPick(action, model))

    def _possible(self, model: ModelEntry) -> set[ModelAction]:
        actions: set[ModelAction] = {"use"}
        if model.state == "downloading":
            actions.add("cancel")
        elif not model.installed:
            actions.add("pull")
        else:
            actions.add("delete")
            if model.writes and model.name != self._current:
                actions.add("compare")
        if model.state in WARM:
            actions.add("unload")
        return actions
