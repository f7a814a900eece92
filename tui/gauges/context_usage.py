"""Context usage by role, and its ribbon of cells."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import IntEnum

import msgspec

from ..chats.chat import Chat
from ..chats.context_view import KEPT, RequestMessage, ViewEntry, trimmed_names, trimmed_text
from ..chats.message import Message
from ..compaction.compaction_planner import SUGGEST_AT
from ..compaction.compaction_range import select, trim_range


def apportion(amounts: Sequence[float], width: int) -> list[int]:
    """Return the cells of each amount, `width` in all; positive amounts get at least one if
    possible.

    Rounded by largest remainders. All are 0 if the amounts are.
    """
    total = sum(amounts)
    if total <= 0 or width <= 0:
        return [0] * len(amounts)
    ideal = [amount * width / total for amount in amounts]
    cells = [int(cell) for cell in ideal]
    order = sorted(range(len(amounts)), key=lambda i: cells[i] - ideal[i])
    for index in order[: width - sum(cells)]:
        cells[index] += 1
    for index, amount in enumerate(amounts):
        widest = max(range(len(cells)), key=cells.__getitem__)
        if amount > 0 and cells[index] == 0 and cells[widest] > 1:
            cells[index] = 1
            cells[widest] -= 1
    return cells


FULL_AT = 0.9
REPLY_RESERVE = 1024
_QUOTED = re.compile(r"<(user|assistant|tool)>\n.*?\n</\1>", re.DOTALL)

CountTokens = Callable[[RequestMessage], tuple[int, bool]]
"""Returns a message's tokens, and whether they are exact."""


class Role(IntEnum):
    """The origin of a part of the context, in the order of the ribbon."""

    SYSTEM = 0
    PINS = 1
    SUMMARY = 2
    YOU = 3
    ASSISTANT = 4
    FILES = 5
    TOOLS = 6

    @property
    def glyph(self) -> str:
        """Return the sign on the ribbon."""
        return "◆●≡▓█▒░"[self]

    @property
    def style(self) -> str:
        """Return the colour that repeats the sign."""
        return (
            "$accent",
            "$warning",
            "$secondary",
            "$primary 70%",
            "$primary",
            "$success",
            "$accent 70%",
        )[self]

    @property
    def word(self) -> str:
        """Return its name in tables."""
        return ("system", "pins", "summary", "you", "assistant", "files", "tools")[self]


class ContextPart(msgspec.Struct, frozen=True):
    """A message as it is sent: its tokens, of which `files` are attachments, `pins` pinned words.

    `message` is None for parts that are not messages of the chat: system prompt, summary, and what
    the template adds, which is not a message at all.
    """

    role: Role
    tokens: int
    exact: bool
    text: str
    message: Message | None = None
    files: int = 0
    pins: int = 0
    is_message: bool = True


class ContextUse(msgspec.Struct, frozen=True):
    """Tokens by role in a context of `context` tokens, `reserve` of which are for the reply."""

    roles: tuple[int, ...] = (0,) * len(Role)
    used: int = 0
    context: int = 0
    reserve: int = 0
    exact: bool = True

    @property
    def fraction(self) -> float:
        """Return the share of the context in use, 0 if its size is unknown."""
        return self.used / self.context if self.context else 0.0


def context_parts(entries: Sequence[ViewEntry], count: CountTokens) -> list[ContextPart]:
    """Return the parts of the messages that are sent, in order."""
    return [_part(entry, *count(entry.request_message)) for entry in entries]


def _part(entry: ViewEntry, tokens: int, exact: bool) -> ContextPart:
    message = entry.message
    if message is None:
        if entry.part == "system":
            return ContextPart(Role.SYSTEM, tokens, exact, entry.content)
        record = entry.content
        pinned = sum(len(found[0]) for found in _QUOTED.finditer(record)) if KEPT in record else 0
        pins = round(tokens * pinned / max(1, len(record)))
        return ContextPart(Role.SUMMARY, tokens, exact, record, pins=pins)
    own = {"user": Role.YOU, "tool": Role.TOOLS}.get(message.role, Role.ASSISTANT)
    role = Role.PINS if message.pinned else own
    files = round(tokens * _share_of_files(message, entry.content))
    return ContextPart(role, tokens, exact, message.content or entry.content, message, files)


def _share_of_files(message: Message, sent: str) -> float:
    """Return the share of a message's text that is attachments: tokens cannot be counted apart."""
    if not message.attachments or sent != message.text:
        return 0.0  # none, or trimmed
    return 1.0 - len(message.content) / max(1, len(sent))


def context_use(
    parts: Sequence[ContextPart],
    context: int,
    *,
    reserve: int = REPLY_RESERVE,
    answer: int = 0,
    total: int | None = None,
) -> ContextUse:
    """Return the sums; `answer` are tokens of an answer being generated.

    With `total`, the engine's own count, the roles are shares of it.
    """
    roles = [0] * len(Role)
    for part in parts:
        roles[part.role] += part.tokens - part.files - part.pins
        roles[Role.FILES] += part.files
        roles[Role.PINS] += part.pins
    roles[Role.ASSISTANT] += answer
    exact = total is not None or all(part.exact for part in parts)
    if total is not None:
        roles = apportion(roles, total)
    return ContextUse(tuple(roles), sum(roles), context, min(reserve, context // 8), exact)


def ribbon(use: ContextUse, width: int) -> list[tuple[str, str]]:
    """Return the ribbon of `width` cells as pieces of (signs, colour).

    Roles, `┊` at their end, free space, `┆` where compaction is suggested, `╌` for the reply.
    """
    if width < 4 or not use.context:
        return []
    used = min(width, max(1 if use.used else 0, round(min(1.0, use.fraction) * width)))
    cells = apportion(use.roles, used)
    pieces = [(role.glyph * cells[role], role.style) for role in Role if cells[role]]
    rest = list("─" * (width - used))
    reserve = round(use.reserve / use.context * width) or (1 if use.reserve else 0)
    for place in range(max(0, len(rest) - reserve), len(rest)):
        rest[place] = "╌"
    tick = round(SUGGEST_AT * width) - used
    if 0 <= tick < len(rest):
        rest[tick] = "┆"
    if use.used and rest and rest[0] != "┆":
        rest[0] = "┊"
    if rest:
        pieces.append(("".join(rest), "$edge"))
    return pieces


class Savings(msgspec.Struct, frozen=True):
    """Estimated tokens that compacting and trimming would free."""

    compact: int = 0
    trim: int = 0


class ContextReport(msgspec.Struct, frozen=True):
    """The tokens of each part, and the savings of compacting and trimming."""

    parts: list[ContextPart]
    use: ContextUse
    savings: Savings


def savings(
    chat: Chat, parts: Sequence[ContextPart], count: Callable[[str], int], context: int = 0
) -> Savings:
    """Return the tokens that compacting and trimming would save now, by their own rules.

    `count` estimates the tokens of a text; `context` is the model's, 0 if unknown.
    """
    sizes = {part.message.id: part.tokens for part in parts if part.message is not None}
    head = sum(part.tokens for part in parts if part.message is None)
    chosen = select(chat, chat.compaction_chain(), sizes, head, count, context=context)
    compact = 0
    if chosen is not None:
        whole = sum(part.tokens for part in parts)
        compact = max(0, whole - chosen.target)
    before, kept = trim_range(chat)
    done = trimmed_names(chat, chat.compaction_chain())
    covered = {message.id for message in before if message not in kept} - done
    return Savings(compact, sum(_trimmed(part) for part in parts if _id(part) in covered))


def _id(part: ContextPart) -> str:
    return part.message.id if part.message is not None else ""


def _trimmed(part: ContextPart) -> int:
    """Return the tokens of a message that trimming would omit."""
    message = part.message
    if message is None:
        return 0
    left = len(trimmed_text(message)) / max(1, len(message.text))
    return max(0, part.tokens - round(part.tokens * left))
