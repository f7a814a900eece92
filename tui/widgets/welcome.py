"""`Welcome`: shown in an empty chat: the model, or models to download."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from textual.app import RenderResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from ingle.daemon.client.model_types import ModelEntry

from ..chats.chat import Chat
from ..session.chat_state import ChatState, ChatView
from ..session.model_choice import ModelOffer
from ..session.model_descriptions import (
    download_sentence,
    facts,
    fit_sentence,
    licence,
    quality_word,
)
from ..text import number_format
from ..text.terminal_safe_text import clean

KEYS = (
    ("enter", "send"),
    ("ctrl+j", "new line"),
    ("ctrl+o", "models"),
    ("ctrl+p", "all commands"),
    ("F1", "keys and help"),
)


EXAMPLES = (
    "Why is the sky blue?",
    "Write a short, polite e-mail that moves a meeting to Friday.",
    "Suggest three dinners with rice and eggs.",
)
"""Prompts that small models answer well."""


class LastChat(NamedTuple):
    """The chat that was changed last."""

    id: str
    title: str


class Welcome(Widget, can_focus=False):
    """Names the model that will answer, or offers to download one that fits this machine.

    `disk_free` is in bytes, 0 if it is not known.
    """

    HELP_TITLE = "The beginning of a chat"
    HELP_KEYS = (
        ("tab  ↑ ↓", "Another model to download, or another suggestion"),
        ("enter", "Download the model, or use the suggestion"),
        ("esc", "Back to the draft"),
    )
    FOCUS_ON_CLICK = False  # only tab leads here, and it chooses
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,shift+tab", "move(-1)", "Up", show=False),
        Binding("down,tab", "move(1)", "Down", show=False),
        Binding("enter", "choose", "Use", show=False),
        Binding("escape", "app.focus('composer')", "Back", show=False),
    ]

    class Wanted(Message):
        """The user chose to download the offered model."""

    @dataclass
    class Chosen(Message):
        """The user selected another offer."""

        model: ModelEntry

    @dataclass
    class Picked(Message):
        """The user selected an example `prompt`, or with `chat` the id of the last chat."""

        prompt: str = ""
        chat: str = ""

    view: reactive[ChatView] = reactive(lambda: ChatView(ChatState(), Chat()), always_update=True)
    disk_free: reactive[int] = reactive(0)
    last: reactive[LastChat | None] = reactive[LastChat | None](None)
    picked: reactive[int] = reactive(0)
    """The chosen suggestion."""

    @property
    def offers(self) -> list[ModelOffer]:
        """The models offered to a user without one."""
        return self.view.state.offers

    @property
    def suggestions(self) -> list[tuple[str, Picked]]:
        """What can be begun with an installed model, in words."""
        examples = [(prompt, self.Picked(prompt=prompt)) for prompt in EXAMPLES]
        if self.last is None or self.view.chat.temporary:
            return examples
        title = _shortened(clean(self.last.title) or "Untitled", 40)
        return [(f"continue: {title}", self.Picked(chat=self.last.id)), *examples]

    def watch_view(self, view: ChatView) -> None:
        """Accept the focus while there is a choice."""
        model = view.state.model
        self.can_focus = model is not None and (model.installed or len(self.offers) > 1)

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
        parts = [number_format.size(model.size) if model.size else "", licence(model)]
        if model.context:
            parts.append(f"{number_format.tokens(model.context)} tokens of context")
        known = " · ".join(clean(part) for part in parts if part)
        lines = [Content.assemble(clean(model.name), (f"  {known}", "$muted"))]
        if self.view.chat.temporary:
            lines.append(
                Content("temporary: this chat is never written to disk").stylize("$warning")
            )
        if self.size.height >= 9:
            lines += [Content(""), *self._suggestion_rows()]
        if self.size.height >= 16 and self.size.width >= 40:
            lines.append(Content(""))
            lines += [
                Content.assemble((f"{key:>8}", "$secondary"), (f"  {what:<14}", "$muted"))
                for key, what in KEYS
            ]
        return lines

    def _suggestion_rows(self) -> list[Content]:
        texts = [text for text, _ in self.suggestions]
        width = min(max(map(len, texts)), self.size.width - 4)
        keys = "↑↓ choose · enter uses it · esc" if self.has_focus else "tab chooses a suggestion"
        rows = [
            Content.assemble(
                ("› ", "bold $primary") if chosen else "  ",
                (f"{_shortened(text, width):<{width}}", "bold" if chosen else "$muted"),
            )
            for number, text in enumerate(texts)
            for chosen in (self.has_focus and number == self.picked % len(texts),)
        ]
        return [*rows, Content(keys).stylize("$muted")]

    def _offer(self, model: ModelEntry) -> list[Content]:
        roomy = self.size.height >= 11
        lines = [Content(clean(model.name)).stylize("bold")]
        if self.view.state.pull_failure:
            failure = Content(clean(self.view.state.pull_failure)).stylize("$error")
            lines = [failure, Content(""), *lines]
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
        rows = self._offer_rows(offers, model)
        keys = (
            (("tab ↑↓", "$secondary"), (" choose  ", "$muted"), ("enter", "$secondary"))
            if self.has_focus
            else (("tab", "$secondary"), (" chooses another  ", "$muted"), ("ctrl+o", "$secondary"))
        )
        last = " downloads" if self.has_focus else " all models"
        return [Content(""), *rows, Content(""), Content.assemble(*keys, (last, "$muted"))]

    def _offer_rows(self, offers: Sequence[ModelOffer], chosen: ModelEntry) -> list[Content]:
        """Name, size, speed, quality and reason of each offer, in columns."""
        names = [clean(offer.model.name) for offer in offers]
        cells = [_offer_cells(offer) for offer in offers]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        width = max(map(len, names))
        room = self.size.width - width - 6
        while widths and sum(widths) + 2 * len(widths) > room:
            widths.pop()
        return [
            Content.assemble(
                ("› ", "bold $primary") if offer.model.name == chosen.name else "  ",
                (f"{name:<{width}}", "bold" if offer.model.name == chosen.name else "$muted"),
                *((f"  {cell:<{size}}", "$muted") for cell, size in zip(row, widths, strict=False)),
            )
            for offer, name, row in zip(offers, names, cells, strict=True)
        ]

    def on_focus(self) -> None:
        """Show the keys; of several offers, move on to the next."""
        self.refresh()
        self.picked = 0
        if self._is_offering:
            self.action_move(1)

    def on_blur(self) -> None:
        """Hide the keys."""
        self.refresh()

    @property
    def _is_offering(self) -> bool:
        model = self.view.state.model
        return model is not None and not model.installed

    def action_move(self, step: int) -> None:
        """Choose another offer or suggestion."""
        if not self._is_offering:
            self.picked += step
            return
        names, model = [offer.model.name for offer in self.offers], self.view.state.model
        if model is None or not names:
            return
        place = names.index(model.name) if model.name in names else 0
        self.post_message(self.Chosen(self.offers[(place + step) % len(names)].model))

    def action_choose(self) -> None:
        """Download the offered model, or use the suggestion."""
        if self._is_offering:
            self.post_message(self.Wanted())
        elif self.view.state.model is not None:
            self.post_message(self.suggestions[self.picked % len(self.suggestions)][1])


def _offer_cells(offer: ModelOffer) -> tuple[str, ...]:
    model, fit = offer.model, offer.model.fit
    speed = fit.tokens_per_second if fit is not None else None
    return (
        f"{number_format.size(model.size):>7}" if model.size else "",
        f"{number_format.speed(speed):>9}" if speed else "",
        quality_word(model),
        offer.reason,
    )


def _shortened(text: str, width: int) -> str:
    """The text in at most `width` characters."""
    return text if len(text) <= width else f"{text[: width - 1]}…"
