"""`WatchScreen`: the requests of all programs as they end, and the prompt of one of them."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from functools import partial
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import OptionList, Static, TextArea
from textual.widgets.text_area import Selection

from ingle.daemon.client.async_client import AsyncDaemonClient
from ingle.daemon.client.client_errors import ClientError
from ingle.daemon.client.watch_types import WatchedRequest

from ..chats.automatic_title import shorten
from ..text import number_format
from ..text.terminal_safe_text import clean

KEPT = 500
"""Requests in the list; the oldest goes first."""
SHOWN = 500_000
"""Most characters of a prompt on each side of the place where it broke."""
RETRY_SECONDS = 2.0
NARROW, WIDE = 80, 116
"""Columns below which rows have no model, and from which they have the cached tokens."""
EMPTY = (
    "No request has ended since this page was opened. Requests of all programs that use this "
    "daemon are listed as they end, except private ones. They are kept in memory only, until "
    "this page is closed."
)
LIST_KEYS = "enter: its prompt · esc: back to the chat"
PROMPT_KEYS = "arrows, page up, page down · esc: back to the requests"


class WatchScreen(Screen[None]):
    """Follows the daemon's requests while it is open; the newest is at the end."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "back", "Back", show=False, priority=True)
    ]

    def __init__(self, client: AsyncDaemonClient) -> None:
        super().__init__()
        self._client = client
        self._requests: list[WatchedRequest] = []
        self._trouble = ""

    def compose(self) -> ComposeResult:
        yield Static(id="head", markup=False)
        yield OptionList(markup=False)
        with VerticalScroll(id="details", can_focus=False):
            yield Static(id="facts", markup=False)
        yield TextArea(read_only=True, soft_wrap=True, highlight_cursor_line=False)
        yield Static("esc: back to the chat", id="foot", markup=False)

    def on_mount(self) -> None:
        """Begin to watch."""
        self.add_class("-empty")
        self._show_head()
        self._show_details(None)
        self.run_worker(self._watch(), group="watch")

    async def _watch(self) -> None:
        """Follow the requests; a daemon that is gone is waited for."""
        while True:
            connected = self.set_timer(RETRY_SECONDS / 2, partial(self._set_trouble, ""))
            try:
                async with aclosing(self._client.events("/ingle/v1/watch")) as events:
                    async for event in events:
                        self._add(self._client.decode_event(event, WatchedRequest))
            except ClientError as error:
                connected.stop()
                self._set_trouble(error.message)
            await asyncio.sleep(RETRY_SECONDS)

    def _set_trouble(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            self._show_head()

    def _add(self, request: WatchedRequest) -> None:
        options = self.query_one(OptionList)
        highlighted = options.highlighted
        follows = highlighted in (None, len(self._requests) - 1)
        self._requests.append(request)
        options.add_option(self._row(request))
        if len(self._requests) > KEPT:
            del self._requests[0]
            options.remove_option_at_index(0)
            if highlighted:
                options.highlighted = highlighted - 1
            elif highlighted == 0:
                self._show_details(self._requests[0])
        if self.has_class("-empty"):
            self.remove_class("-empty")
            options.focus()
            self.query_one("#foot", Static).update(LIST_KEYS)
        if follows:
            options.highlighted = len(self._requests) - 1
        self._show_head()

    # Drawing

    def on_resize(self) -> None:
        """Lay the rows out for the new width."""
        options = self.query_one(OptionList)
        highlighted = options.highlighted
        options.set_options(map(self._row, self._requests))
        options.highlighted = highlighted
        self.call_after_refresh(self.query_one(TextArea).scroll_cursor_visible, center=True)

    def _show_head(self) -> None:
        count = len(self._requests)
        facts = number_format.counted(count, "request") if count else ""
        failed = sum(1 for request in self._requests if request.error)
        self.query_one("#head", Static).update(
            Content.assemble(
                ("Requests", "bold $primary"),
                (f"   {facts}", "$muted"),
                (f" · {failed} failed" if failed else "", "$error"),
                (f"   {self._trouble}" if self._trouble else "", "$warning"),
            )
        )

    def _row(self, request: WatchedRequest) -> Content:
        """`14:03:22  codex/0.169.0  qwen2.5-coder:0…  8 324 tok  1.2 s  prefix broke`."""
        wide, narrow = self.size.width >= WIDE, self.size.width < NARROW
        names = 12 if narrow else min(28, (self.size.width - (66 if wide else 50)) // 2)
        tokens = f"{number_format.tokens(request.prompt_tokens)} tok"
        cached = f"{number_format.tokens(request.cached_tokens)} cached" if wide else ""
        end, style = "", "$warning"
        if request.error:
            end, style = "failed", "$error"
        elif request.prefix is not None:
            end = "prefix broke"
        elif request.outcome == "cancelled":
            end = "cancelled"
        return Content.assemble(
            (f"{request.clock}  ", "$muted"),
            f"{shorten(clean(request.program), names):<{names}}  ",
            ("" if narrow else f"{shorten(clean(request.model), names):<{names}}  ", "$accent"),
            f"{tokens:>11}  ",
            (f"{cached:>14}  " if wide else "", "$muted"),
            f"{number_format.duration(request.seconds):>7}  ",
            (end, style),
        )

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        self._show_details(self._requests[event.option_index])

    def _show_details(self, request: WatchedRequest | None) -> None:
        shown = Content.styled(EMPTY, "$muted") if request is None else details(request)
        self.query_one("#facts", Static).update(shown)

    # The prompt

    @on(OptionList.OptionSelected)
    async def _show_prompt(self, event: OptionList.OptionSelected) -> None:
        request = self._requests[event.option_index]
        try:
            text = await self._client.watched_prompt(request.id)
        except ClientError as error:
            words = f"{error.message} {error.hint or ''}".rstrip()
            self.notify(words, severity="warning", markup=False)
            return
        at = 0 if request.prefix is None else request.prefix.at
        before, after = map(clean, split_at(text, at))
        area = self.query_one(TextArea)
        area.load_text(before + after)
        self.add_class("-prompt")
        area.focus()
        place = before.count("\n"), len(before) - before.rfind("\n") - 1
        self.call_after_refresh(self._show_break, place, has_break=request.prefix is not None)
        self.query_one("#foot", Static).update(PROMPT_KEYS)

    def _show_break(self, place: tuple[int, int], *, has_break: bool) -> None:
        """Put the cursor where the prompt broke, with the rest of the line selected."""
        area = self.query_one(TextArea)
        row, column = place
        end = len(area.document.get_line(row)) if has_break else column
        area.selection = Selection((row, end), place)
        area.scroll_cursor_visible(center=True)

    def action_back(self) -> None:
        """Go back to the requests, or to the chat."""
        if not self.has_class("-prompt"):
            self.dismiss()
            return
        self.remove_class("-prompt")
        self.query_one(OptionList).focus()
        self.query_one("#foot", Static).update(LIST_KEYS)


def details(request: WatchedRequest) -> Content:
    """All that is known of a request, in lines."""
    number = number_format.tokens
    facts = request.facts(number, number_format.duration)
    lines = [Content.styled(clean(request.heading), "bold"), *map(Content, facts)]
    if request.error:
        lines.append(Content.styled(f"error: {request.error}", "$error"))
    if request.prefix is not None:
        where, was, now = request.prefix.facts(number)
        lines.append(Content.styled(where, "$warning"))
        lines += [Content.styled(was, "$error"), Content.styled(now, "$success")]
    return Content("\n").join(lines)


def split_at(text: str, at: int) -> tuple[str, str]:
    """The text before and after a byte, without what is too far from it to be shown."""
    before = text.encode("utf-8", "replace")[:at].decode("utf-8", "ignore")
    after = text[len(before) :]
    left, right = len(before) - SHOWN, len(after) - SHOWN
    head = f"… {number_format.tokens(left)} characters more\n" if left > 0 else ""
    tail = f"\n… {number_format.tokens(right)} characters more" if right > 0 else ""
    return head + before[-SHOWN:], after[:SHOWN] + tail
