"""Selects the messages to summarise: range, pins, tail, and token budgets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from ..chats.chat import Chat
from ..chats.context_view import covered_messages, tail_messages, trimmed_names, trimmed_text
from ..chats.message import CompactionRecord, Message

MERGE_AT = 3
"""With this many summaries in a chain they are merged into one."""
TARGET = 0.25
"""The target size of a compacted chat, as a share of its tokens."""
MOST_LEFT = 0.6
"""The largest size of a compacted chat, as a share of its present tokens."""
TAIL_SHARE = 0.1
"""The share of the tokens that stays verbatim at the end; at least the last turn."""
OVERFULL_LEFT = 0.4
"""The largest size of a compacted chat that exceeds its context, as a share of the context."""
MAX_TAIL = 2000
MIN_NOTES = 96
"""Least tokens of a summary worth asking for."""

RECORD_TOKENS = 40
"""Tokens of the text around the notes."""


class Selection(msgspec.Struct, frozen=True):
    """The messages of one compaction: `range` is replaced by a summary of at most `notes` tokens.

    `kept` are pins in the range, `tail` stays as it is; the whole view should have `target` tokens.
    `after` is the compaction whose summary stays before the new one; None if the new one covers
    everything, and `merged` are then the messages of earlier summaries. `tokens` is the size of all
    the originals.
    """

    range: tuple[Message, ...]
    tail: tuple[Message, ...]
    kept: tuple[str, ...]
    after: str | None
    merged: tuple[Message, ...]
    notes: int
    tokens: int
    target: int


def select(
    chat: Chat,
    whole: Sequence[CompactionRecord],
    sizes: Mapping[str, int],
    head: int,
    count: Callable[[str], int],
    *,
    merge: bool = False,
    context: int = 0,
) -> Selection | None:
    """Return the selection after the chain `whole`, None if there is nothing to summarise.

    `sizes` are the tokens of each message of the tail by its id, `head` those before the tail,
    `count` estimates those of a text, `context` is the model's, 0 if unknown. With `merge`, earlier
    summaries are included.
    """
    chain = [step for step in whole if not step.trims]
    messages = [m for m in tail_messages(chat, whole) if m.text and not m.is_open]
    total = head + sum(sizes.get(message.id, 0) for message in messages)
    merging = bool(chain) and (merge or len(chain) + 1 >= MERGE_AT)
    overfull = 0 < context < total
    most = min(MAX_TAIL, context // 4) if overfull else MAX_TAIL
    cut = _cut(messages, sizes, min(most, round(total * TAIL_SHARE)))
    if cut is None:
        return None
    if merging:
        cut = max(cut, _after_trims(chat, whole, messages))
    merged = tuple(covered_messages(chat, chain)) if merging else ()
    pinned = _pinned(chat, chain, merging, messages[:cut])
    kept = tuple(message.id for message in pinned)
    tail = sum(sizes.get(message.id, 0) for message in messages[cut:])
    pins = sum(sizes.get(message.id) or count(message.text) for message in pinned)
    in_range = sum(sizes.get(message.id, 0) for message in messages[:cut])
    # A share of the size of all original messages, not of their summaries; but at most a share of
    # the present size: a chat may be many times as long as its context.
    earlier = sum(count(message.text) for message in covered_messages(chat, chain))
    target = min(round((total - head * bool(chain) + earlier) * TARGET), round(total * MOST_LEFT))
    least = round(in_range * 0.15)
    if overfull:
        target, least = min(target, round(context * OVERFULL_LEFT)), 0
    fixed = tail + pins + (0 if merging else head)
    room = target - fixed - RECORD_TOKENS
    replaced_tokens = in_range + (earlier if merging else 0)
    notes = min(max(room, MIN_NOTES, least), max(MIN_NOTES, replaced_tokens // 3))
    return Selection(
        range=tuple(messages[:cut]),
        tail=tuple(messages[cut:]),
        kept=kept,
        after=None if merging or not whole else whole[-1].id,
        merged=merged,
        notes=notes,
        tokens=replaced_tokens,
        target=max(target, fixed + RECORD_TOKENS + notes),
    )


def _cut(messages: Sequence[Message], sizes: Mapping[str, int], budget: int) -> int | None:
    """Return where the tail begins: at a prompt, with as many turns as `budget` tokens hold."""
    prompts = [index for index, message in enumerate(messages) if message.role == "user"]
    if len(prompts) < 2:
        return None
    cut = prompts[-1]
    for start in reversed(prompts[1:-1]):
        if sum(sizes.get(message.id, 0) for message in messages[start:]) > budget:
            break
        cut = start
    return cut


def _after_trims(chat: Chat, whole: Sequence[CompactionRecord], messages: Sequence[Message]) -> int:
    """Return the index after which nothing is trimmed: a merged summary discards earlier trims."""
    names = trimmed_names(chat, whole)
    cut = [i for i, m in enumerate(messages) if m.id in names and trimmed_text(m) != m.text]
    prompts = (i for i, m in enumerate(messages) if m.role == "user" and cut and i > cut[-1])
    return next(prompts, 0)


def _pinned(
    chat: Chat, chain: Sequence[CompactionRecord], merging: bool, taken: Sequence[Message]
) -> list[Message]:
    """Return the pins in the range, and those in earlier ranges unless their summaries stay."""
    kept = set[str]() if merging else {name for step in chain for name in step.kept}
    return [m for m in (*covered_messages(chat, chain), *taken) if m.pinned and m.id not in kept]


def trim_range(chat: Chat) -> tuple[list[Message], list[Message]]:
    """Return the messages that a trim covers, and those of them that it leaves as they are.

    The last prompt is left, unless nothing else is long. No message is covered if a trim would
    change none of them.
    """
    chain = chat.compaction_chain()
    done = trimmed_names(chat, chain)
    path = [message for message in tail_messages(chat, chain) if not message.is_open]
    prompts = [index for index, message in enumerate(path) if message.role == "user"]
    rounds = [index for index, message in enumerate(path) if message.facts.calls]
    before = path[: max(prompts + rounds)] if prompts else []
    answered = path if path and path[-1].role == "assistant" else []
    for covered, prompt in ((before, path[prompts[-1]] if prompts else None), (answered, None)):
        kept = [message for message in covered if message.pinned or message is prompt]
        fresh = (m for m in covered if m.id not in done and m not in kept)
        if any(trimmed_text(message) != message.text for message in fresh):
            return covered, kept
    return [], []
