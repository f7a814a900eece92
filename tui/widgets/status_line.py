"""`StatusLine`: the model and its state, speed, context use, and memory below."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from textual.app import RenderResult
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from ingle.daemon.client.model_types import LoadedModel

from ..chats.message import MessageFacts
from ..commands.answer_statistics import reuse
from ..gauges.context_usage import ContextUse, Role, apportion
from ..gauges.memory_usage import MemoryUse, binary_size
from ..session.chat_state import ChatStatus
from ..text import number_format
from .gauges.context_ribbon import fixed_ribbon
from .gauges.glyph_text import StyledText, signs

BAR_WIDTH = 12
NAME_WIDTH = 12
"""Cells that a model's name keeps beside a long state."""
STYLES = ("$primary", "$success", "$edge")
"""Of cache that is used, kept, and free."""


class MemoryStatus(NamedTuple):
    """The second line: a memory, the process of the chat's model, and the last answer."""

    memory: MemoryUse | None = None
    model: LoadedModel | None = None
    last: MessageFacts | None = None


class StatusLine(Widget):
    """One line at the bottom, two where there is room; parts that do not fit are left out."""

    status: reactive[ChatStatus] = reactive(ChatStatus())
    use: reactive[ContextUse] = reactive(ContextUse())
    """The context by role; if unknown, the numbers of `status` are shown."""
    memory: reactive[MemoryStatus] = reactive(MemoryStatus())

    async def on_click(self) -> None:
        """A click shows the models."""
        await self.run_action("screen.command('model')")

    def render(self) -> RenderResult:
        width = self.size.width
        first = self._first(width)
        if self.size.height < 2:
            return first
        return Content("\n").join([first, memory_status_line(self.memory, width)])

    def _first(self, width: int) -> Content:
        right = fixed_ribbon(self._use(), width)
        room = width - right.cell_length - 2
        left = self._state(room)
        for part in (self._speed(), self._first_token()):
            longer = Content.assemble(left, ("  ·  ", "$edge"), part) if part else left
            left = longer if longer.cell_length <= room else left
        left = left.truncate(room, ellipsis=True)
        gap = " " * max(1, width - left.cell_length - right.cell_length - 1)
        return Content.assemble(left, gap, right).truncate(width)

    def _use(self) -> ContextUse:
        """The roles, or the numbers of the last answer if the roles are unknown."""
        if self.use.used or not self.status.context:
            return (
                self.use
                if self.use.context
                else msgspec.structs.replace(self.use, context=self.status.context)
            )
        roles = [0] * len(Role)
        roles[Role.ASSISTANT] = self.status.context_used
        return ContextUse(tuple(roles), self.status.context_used, self.status.context)

    def _state(self, room: int) -> Content:
        """The model and its state; a long name is cut, since it is known, and the state is not."""
        status = self.status
        style = "$success" if status.good else "$error" if status.bad else "$warning"
        pieces: list[StyledText] = [" ", ("●" if status.good else "○", style), " "]
        if status.model:
            name = Content(status.model)
            most = max(NAME_WIDTH, room - 4 - len(status.state))
            pieces += [name.truncate(most, ellipsis=True).plain, " "]
        pieces.append((status.state, "$muted"))
        return signs(pieces)

    def _speed(self) -> str:
        return "" if self.status.speed is None else number_format.speed(self.status.speed)

    def _first_token(self) -> str:
        seconds = self.status.first_token
        return "" if seconds is None else f"first token {number_format.duration(seconds)}"


def memory_status_line(status: MemoryStatus, width: int) -> Content:
    """`vram ████▓▓▒┈┈ 8.8/12.0 GiB   kv ██▒▒···· 753/1 024   96 % reused`, as far as it fits."""
    memory, cache = _memory_part(status.memory), _cache_part(status.model)
    line = Content.assemble(" ", memory, "   " if memory and cache else "", cache)
    if line.cell_length >= width:
        line = Content.assemble(" ", cache or memory)
    last = status.last
    if last is not None and last.prompt_tokens:
        for words in (f"last send: {reuse(last)}", reuse(last), reuse(last).partition(",")[0]):
            if line.cell_length + 3 + len(words) < width:
                return Content.assemble(line, "   ", (words, "$muted"))
    return line


def _memory_part(use: MemoryUse | None) -> Content:
    if use is None:
        return Content("")
    from .gauges.memory_bar import memory_bar  # with the state of all gauges, not at the start

    numbers = f" {binary_size(use.total - use.free, unit=False)}/{binary_size(use.total)}"
    return signs([(f"{use.kind.lower()} ", "$muted"), *memory_bar(use, BAR_WIDTH), numbers])


def _cache_part(model: LoadedModel | None) -> Content:
    if model is None or not model.kv_capacity:
        return Content("")
    capacity = model.kv_capacity
    taken = min(capacity, model.kv_used + model.kv_kept)
    amounts = (model.kv_used, model.kv_kept, max(0, capacity - taken))
    counted = zip("█▒·", apportion(amounts, BAR_WIDTH), STYLES, strict=True)
    cells: list[StyledText] = [(glyph * cells, style) for glyph, cells, style in counted if cells]
    numbers = f" {number_format.tokens(taken)}/{number_format.tokens(capacity)}"
    return signs([("kv ", "$muted"), *cells, numbers])
