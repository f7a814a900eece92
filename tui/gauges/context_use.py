"""What fills the context, role by role, and how the ribbon divides its cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from ..chats.chat import Chat
from ..chats.message import Message
from .shares import shares

SUGGEST_AT = 0.75
"""The part of the context from which compacting is suggested."""
FULL_AT = 0.9
REPLY_RESERVE = 1024

CountTokens = Callable[[Mapping[str, str]], tuple[int, bool]]
"""A message's tokens, and whether they are exact."""


class Role(IntEnum):
    """Whom a part of the context comes from, in the order of the ribbon."""

    SYSTEM = 0
    PINS = 1
    SUMMARY = 2
    YOU = 3
    ASSISTANT = 4
    FILES = 5

    @property
    def glyph(self) -> str:
        """The sign on the ribbon."""
        return "◆●≡▓█▒"[self]

    @property
    def style(self) -> str:
        """The colour that repeats the sign."""
        return ("$accent", "$warning", "$secondary", "$primary 70%", "$primary", "$success")[self]

    @property
    def word(self) -> str:
        """Its name in tables."""
        return ("system", "pins", "summary", "you", "assistant", "files")[self]


@dataclass(frozen=True, slots=True)
class ContextPart:
    """A message as it is sent: its tokens, of which `files` are attachments.

    `message` is None for what is not a message of the chat: the system prompt, a summary.
    """

    role: Role
    tokens: int
    exact: bool
    text: str
    message: Message | None = None
    files: int = 0


@dataclass(frozen=True, slots=True)
class ContextUse:
    """Tokens by role in a context of `context` tokens, `reserve` of which are for the reply."""

    roles: tuple[int, ...] = (0,) * len(Role)
    used: int = 0
    context: int = 0
    reserve: int = 0
    exact: bool = True

    @property
    def fraction(self) -> float:
        """The part of the context that is in use, 0 where the context is not known."""
        return self.used / self.context if self.context else 0.0


def context_parts(
    chat: Chat, request: Sequence[Mapping[str, str]], count: CountTokens
) -> list[ContextPart]:
    """The messages of a request with what is known of each, in their order."""
    waiting = [message for message in chat.path if message.text]
    parts: list[ContextPart] = []
    begin = 0
    for sent in request:
        tokens, exact = count(sent)
        text = sent.get("content", "")
        rest = range(begin, len(waiting))
        alike = (i for i in rest if waiting[i].text == text and waiting[i].role == sent.get("role"))
        place = next(alike, None)
        if place is None:
            role = Role.SYSTEM if text == chat.settings.system else Role.SUMMARY
            parts.append(ContextPart(role, tokens, exact, text))
            continue
        message = waiting[place]
        begin = place + 1
        own = Role.YOU if message.role == "user" else Role.ASSISTANT
        files = round(tokens * _share_of_files(message))
        role = Role.PINS if message.pinned else own
        parts.append(ContextPart(role, tokens, exact, message.content or text, message, files))
    return parts


def _share_of_files(message: Message) -> float:
    """The part of a message's text that came as attachments: tokens cannot be counted apart."""
    if not message.attachments:
        return 0.0
    return 1.0 - len(message.content) / max(1, len(message.text))


def context_use(
    parts: Sequence[ContextPart],
    context: int,
    *,
    reserve: int = REPLY_RESERVE,
    answer: int = 0,
    total: int | None = None,
) -> ContextUse:
    """The sums; `answer` are tokens of an answer that is being written.

    `total` is what the engine itself counted, where it did: the roles then are shares of it.
    """
    roles = [0] * len(Role)
    for part in parts:
        roles[part.role] += part.tokens - part.files
        roles[Role.FILES] += part.files
    roles[Role.ASSISTANT] += answer
    exact = total is not None or all(part.exact for part in parts)
    if total is not None:
        roles = shares(roles, total)
    return ContextUse(tuple(roles), sum(roles), context, min(reserve, context // 8), exact)


def ribbon(use: ContextUse, width: int) -> list[tuple[str, str]]:
    """The ribbon of `width` cells as pieces of (signs, colour).

    Roles, `┊` where they end, what is free, `┆` where compacting is suggested, `╌` for the reply.
    """
    if width < 4 or not use.context:
        return []
    used = min(width, max(1 if use.used else 0, round(min(1.0, use.fraction) * width)))
    cells = shares(use.roles, used)
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


@dataclass(frozen=True, slots=True)
class Savings:
    """Tokens that compacting and trimming would give back, about."""

    compact: int = 0
    trim: int = 0


KEPT_TURNS = 3
SUMMARY_TOKENS = 400
"""About what a summary takes."""


def savings(parts: Sequence[ContextPart]) -> Savings:
    """What could be saved: all but system, pins and the last turns for a summary; old files."""
    prompts = [i for i, part in enumerate(parts) if part.message and part.message.role == "user"]
    kept_from = prompts[-KEPT_TURNS] if len(prompts) > KEPT_TURNS else 0
    last = prompts[-1] if prompts else 0
    free = [p for p in parts[:kept_from] if p.role not in (Role.SYSTEM, Role.PINS)]
    told = sum(part.tokens for part in free)
    trimmed = sum(part.files for part in parts[:last] if part.role is not Role.PINS)
    return Savings(max(0, told - SUMMARY_TOKENS), trimmed)
