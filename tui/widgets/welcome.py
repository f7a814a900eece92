"""`Welcome`: shown in an empty chat: the model, or models to download."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.app import RenderResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from ingle.daemon.client.model_types import ModelEntry

from ..chats.chat import Chat
from ..session.chat_state import ChatState, ChatView
from ..session.model_choice import ModelOffer, offered_models
from ..session.model_descriptions import download_sentence, facts, fit_sentence
from ..text import number_format
from ..text.terminal_safe_text import clean

KEYS = (
    ("enter", "send"),
    ("ctrl+j", "new line"),
    ("ctrl+o", "models"),
    ("ctrl+p", "all commands"),
    ("F1", "keys and help"),
)


class Welcome(Widget, can_focus=False):
    """Names the model that will answer, or offers to download one that fits this machine.

    `disk_free` is in bytes, 0 if it is not known.
    """

    HELP_TITLE = "Your first model"
    HELP_KEYS = (
        ("tab  ↑ ↓", "Another of the models that fit this machine"),
        ("enter", "Download it, and start the chat"),
        ("esc", "Back to the draft"),
    )
    FOCUS_ON_CLICK = False  # only tab leads here, and it chooses
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,shift+tab", "move(-1)", "Up", show=False),
        Binding("down,tab", "move(1)", "Down", show=False),
        Binding("enter", "choose", "Download", show=False),
        Binding("escape", "app.focus('composer')", "Back", show=False),
    ]

    class Wanted(Message):
        """The user chose to download the offered model."""

    @dataclass
    class Chosen(Message):
        """The user selected another offer."""

        model: ModelEntry

    view: reactive[ChatView] = reactive(lambda: ChatView(ChatState(), Chat()), always_update=True)
    disk_free: reactive[int] = reactive(0)

    @property
    def offers(self) -> list[ModelOffer]:
        """The models offered to a user without one."""
        return offered_models(self.view.state.models)

    def watch_view(self, view: ChatView) -> None:
        """Accept the focus while there are several offers."""
        model = view.state.model
        self.can_focus = model is not None and not model.installed and len(self.offers) > 1

    def render(self) -> RenderResult:
        blocks = [Content("ingle").stylize("bold $primary")]
        if self.size.height >= 8:
            blocks.append(Content(""))
        model, trouble = self.view.state.model, self.view.state.trouble
        if trouble is not None:
            words = "\n".join(filter(None, trouble))
            blocks.append(Content(clean(words)).stylize("$error"))
        elif model is None:
            blocks.append(Content("starting; you can type already").stylize("$muted"))
        elif model.installed:
            blocks += self._ready(model)
        else:
            blocks += self._offer(model)
        return Content("\n").join(blocks)

    def _ready(self, model: ModelEntry) -> list[Content]:
        parts = [number_format.size(model.size) if model.size else "", model.licence or ""]
        if model.context:
            parts.append(f"{number_format.tokens(model.context)} tokens of context")
        known = " · ".join(clean(part) for part in parts if part)
        lines = [Content.assemble(clean(model.name), (f"  {known}", "$muted"))]
        if self.view.chat.temporary:
            lines.append(
                Content("temporary: this chat is never written to disk").stylize("$warning")
            )
        if self.size.height >= 12 and self.size.width >= 40:
            lines.append(Content(""))
            lines += [
                Content.assemble((f"{key:>8}", "$secondary"), (f"  {what:<14}", "$muted"))
                for key, what in KEYS
            ]
        return lines

    def _offer(self, model: ModelEntry) -> list[Content]:
        roomy = self.size.height >= 11
        lines = [Content(clean(model.name)).stylize("bold")]
        about = model.description or ""
        if about and roomy and len(about) <= self.size.width - 2:
            lines.append(Content(clean(about)))
        lines.append(Content(self._fitting(facts(model))).stylize("$muted"))
        if roomy and model.fit is not None:
            fit = self._fitting(fit_sentence(model.fit).split(", "), ", ")
            lines.append(Content(fit).stylize("$muted"))
        lines.append(Content(""))
        if self.view.state.pulling is not None:
            lines.append(Content("downloading; you can type already").stylize("$muted"))
            return lines
        lines.append(
            Content.assemble(("enter", "bold $primary"), " downloads it and starts the chat")
        )
        if model.size:
            time = download_sentence(model.size, self.disk_free).split(" · ")
            lines.append(Content(self._fitting(time)).stylize("$muted"))
        return lines + self._others(model)

    def _fitting(self, parts: list[str], between: str = " · ") -> str:
        """The first parts that fit into one line."""
        line = ""
        for part in parts:
            longer = f"{line}{between}{clean(part)}" if line else clean(part)
            if line and len(longer) > self.size.width - 2:
                break
            line = longer
        return line

    def _others(self, model: ModelEntry) -> list[Content]:
        """The other offers, chosen with tab and the arrow keys."""
        offers = self.offers
        if len(offers) < 2 or self.size.height < 16:
            hint = Content.assemble(("ctrl+o", "$secondary"), (" shows others", "$muted"))
            return [Content(""), hint]
        width = max(len(offer.model.name) for offer in offers)
        rows = [self._offer_row(offer, width, offer.model.name == model.name) for offer in offers]
        keys = (
            (("tab ↑↓", "$secondary"), (" choose  ", "$muted"), ("enter", "$secondary"))
            if self.has_focus
            else (("tab", "$secondary"), (" chooses another  ", "$muted"), ("ctrl+o", "$secondary"))
        )
        last = " downloads" if self.has_focus else " all models"
        return [Content(""), *rows, Content(""), Content.assemble(*keys, (last, "$muted"))]

    def _offer_row(self, offer: ModelOffer, width: int, chosen: bool) -> Content:
        mark = ("› ", "bold $primary") if chosen else ("  ", "")
        name = (f"{clean(offer.model.name):<{width}}", "bold" if chosen else "$muted")
        size = number_format.size(offer.model.size) if offer.model.size else ""
        return Content.assemble(mark, name, (f"  {size:>7}  {offer.reason:<26}", "$muted"))

    def on_focus(self) -> None:
        """Show the keys, and move on to the next offer."""
        self.refresh()
        self.action_move(1)

    def on_blur(self) -> None:
        """Hide the keys."""
        self.refresh()

    def action_move(self, step: int) -> None:
        """Show another offer."""
        names, model = [offer.model.name for offer in self.offers], self.view.state.model
        if model is None or not names:
            return
        place = names.index(model.name) if model.name in names else 0
        self.post_message(self.Chosen(self.offers[(place + step) % len(names)].model))

    def action_choose(self) -> None:
        """Download the offered model."""
        if self.view.state.model is not None:
            self.post_message(self.Wanted())
