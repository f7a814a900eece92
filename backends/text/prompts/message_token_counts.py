"""Counts the prompt tokens of each message of a conversation."""

from __future__ import annotations

import re
import secrets
import time
from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

import msgspec

from ...base.conversation import ChatMessage
from ...base.errors import RequestRejected
from ...base.requests import GenerateRequest
from ..tokenization.tokenizer import Tokenizer
from .prompt_builder import Prompt, PromptBuilder

_ROLES = ("user", "assistant", "user", "assistant")
_RENDERING_SECONDS = 2.0
"""Time limit for rendering prefixes if messages cannot be located by markers."""

Span = tuple[int, int]
"""Start and end of a message's own words in a text, without those a template adds."""


class MessageTokens(NamedTuple):
    """Tokens of each message including the template's words around it; `rest` is outside any
    message.
    """

    messages: list[int]
    rest: int


class _Words(NamedTuple):
    """The words that a template writes before and after a message of a role, if known."""

    openings: dict[str, str]
    closings: dict[str, str]


class MessageCounter:
    """Divides prompts among their messages; used from one thread.

    A second rendering with markers around every message locates each. Text between two messages
    belongs to the one it opens or closes. A message without markers ends where the rendering of the
    conversation up to it stops matching the prompt.
    """

    def __init__(self, tokenizer: Tokenizer, prompts: PromptBuilder) -> None:
        self._tokenizer = tokenizer
        self._prompts = prompts
        self._spelled: dict[int, bytes] = {}

    def count(self, request: GenerateRequest) -> MessageTokens:
        """Count the messages of a request; raises `RequestRejected`."""
        if any(message.pictures for message in request.messages or ()):
            return self._count_pictures(request, request.messages or [])
        prompt = self._prompts.build(request)
        ends = self._boundaries(request, prompt.text)
        before = self._tokens_before(prompt, ends)
        messages = [end - start for start, end in pairwise(before)]
        return MessageTokens(messages, len(prompt.token_ids) - sum(messages))

    def _count_pictures(
        self, request: GenerateRequest, messages: list[ChatMessage]
    ) -> MessageTokens:
        """Count the text alone, and give each message what its pictures add to the prompt."""
        bare = [msgspec.structs.replace(message, pictures=[]) for message in messages]
        counts, rest = self.count(msgspec.structs.replace(request, messages=bare))
        known = sum(counts) + rest
        for number, message in enumerate(messages):
            if message.pictures:
                bare[number] = message
                built = self._prompts.build(msgspec.structs.replace(request, messages=bare))
                counts[number] += len(built.token_ids) - known
                known = len(built.token_ids)
        return MessageTokens(counts, rest)

    def _boundaries(self, request: GenerateRequest, text: str) -> list[int]:
        """Return where the first message begins and where each ends, in characters."""
        messages = request.messages or []
        spans = self._find(request, text)
        deadline = time.monotonic() + _RENDERING_SECONDS
        places = [self._begin(text, messages, spans)] if messages else [0]
        for number in range(1, len(messages) + 1):
            last = spans[number - 1]
            following = spans[number] if number < len(messages) else (len(text), len(text))
            if last is not None and following is not None:
                gap = text[last[1] : following[0]]
                role = messages[number].role if number < len(messages) else None
                place = last[1] + self._split(gap, messages[number - 1].role, role)
            elif time.monotonic() < deadline:
                place = self._prefix(request, number, text)
            else:
                place = 0
            places.append(max(place, places[-1]))
        return places

    def _begin(self, text: str, messages: Sequence[ChatMessage], spans: list[Span | None]) -> int:
        """Return where the first message begins, after the template's own preamble."""
        first = spans[0]
        opening = self._words.openings.get(messages[0].role)
        if first is None or not opening:
            return 0
        return max(0, text.rfind(opening, 0, first[0]))

    def _split(self, gap: str, before: str, behind: str | None) -> int:
        """Return how much of the text between two messages belongs to the first.

        With nothing after it (`behind` None), the words that open the answer belong to neither.
        """
        closing = self._words.closings.get(before)
        if closing is not None and not gap.startswith(closing):
            closing = None
        if closing is not None and behind is None:
            return len(closing)
        opening = self._words.openings.get(behind or "assistant")
        if opening and (place := gap.rfind(opening)) >= 0:
            return place
        return len(closing or gap)

    def _prefix(self, request: GenerateRequest, number: int, text: str) -> int:
        """Return where the first `number` messages end, by rendering them alone."""
        messages = (request.messages or [])[:number]
        try:
            alone = self._prompts.render(
                msgspec.structs.replace(request, messages=messages), opens_answer=False
            )
        except RequestRejected:  # a template may require more messages
            return 0
        return _common_length(alone, text)

    def _find(
        self, request: GenerateRequest, text: str, *, opens_answer: bool = True
    ) -> list[Span | None]:
        """Return where each message is; None for those that leave no trace."""
        messages = request.messages or []
        marks = MessageMarks()
        marked = [marks.put(message, number) for number, message in enumerate(messages)]
        request = msgspec.structs.replace(request, messages=marked)
        try:
            rendered = self._prompts.render(request, opens_answer=opens_answer)
        except RequestRejected:
            return [None] * len(messages)
        plain, spans = marks.take(rendered, len(messages))
        return spans if plain == text else [None] * len(messages)

    @cached_property
    def _words(self) -> _Words:
        """Return the template's words around messages, learned from short conversations."""
        closings: dict[str, str] = {}
        asked, spans = self._sample(_ROLES[:1])
        if spans:
            closings[_ROLES[0]] = asked[spans[-1][1] :]
        text, spans = self._sample(_ROLES)
        if spans:
            closings[_ROLES[-1]] = text[spans[-1][1] :]
        openings: dict[str, str] = {}
        for place, (left, right) in enumerate(pairwise(spans)):
            gap, closing = text[left[1] : right[0]], closings.get(_ROLES[place])
            if closing is not None and gap.startswith(closing):
                openings.setdefault(_ROLES[place + 1], gap[len(closing) :])
        return _Words(openings, closings)

    def _sample(self, roles: Sequence[str]) -> tuple[str, list[Span]]:
        """Return a sample conversation's text and its messages' spans; no spans unless all are
        found.
        """
        messages = [ChatMessage(role, "A word.") for role in roles]
        request = GenerateRequest(id="", messages=messages)
        try:
            text = self._prompts.render(request, opens_answer=False)
        except RequestRejected:
            return "", []
        spans = self._find(request, text, opens_answer=False)
        found = [span for span in spans if span is not None]
        return text, found if len(found) == len(roles) else []

    def _tokens_before(self, prompt: Prompt, places: Sequence[int]) -> list[int]:
        """Return how many tokens begin before each of these places in the prompt's text."""
        text = prompt.text
        for token in set(prompt.token_ids).difference(self._spelled):
            self._spelled[token] = self._tokenizer.token_bytes(token, special=True)
        spelled = [self._spelled[token] for token in prompt.token_ids]
        # Some vocabularies begin with something not in the text: a BOS token or a blank.
        before = b"".join(spelled).find(text.encode("utf-8", "replace"))
        if before < 0:
            return self._count_separately(text, places, len(prompt.token_ids))
        starts = [0, *accumulate(map(len, spelled[:-1]))]
        sizes = [
            len(text[start:end].encode("utf-8", "replace")) for start, end in pairwise([0, *places])
        ]
        return [bisect_left(starts, before + end) for end in accumulate(sizes)]

    def _count_separately(self, text: str, places: Sequence[int], most: int) -> list[int]:
        """Return the same for tokens whose spelling differs from the text."""
        counts = [
            len(self._tokenizer.encode(text[:place], add_special=False, parse_special=True))
            for place in places
        ]
        return [min(count, most) for count in accumulate(counts, max)]


def _common_length(left: str, right: str) -> int:
    """Return the length of the common prefix."""
    return bisect_left(
        range(1, min(len(left), len(right)) + 1),
        True,
        key=lambda length: left[:length] != right[:length],
    )


class MessageMarks:
    """Random markers that templates treat as words."""

    def __init__(self) -> None:
        self._nonce = secrets.token_hex(8)
        self._pattern = re.compile(rf"x{self._nonce}n(\d+)x")

    def put(self, message: ChatMessage, number: int) -> ChatMessage:
        """Return the message with markers around its texts, inside blanks that a template may
        strip.

        Empty texts stay empty, since templates treat them differently.
        """
        mark = f"x{self._nonce}n{number}x"
        return msgspec.structs.replace(
            message,
            content=_around(message.content, mark),
            reasoning=_around(message.reasoning, mark),
            tool_calls=[
                msgspec.structs.replace(call, name=_around(call.name, mark))
                for call in message.tool_calls
            ],
        )

    def take(self, text: str, count: int) -> tuple[str, list[Span | None]]:
        """Return the text without markers, and where each of `count` messages was found."""
        pieces: list[str] = []
        spans: list[Span | None] = [None] * count
        length = read = 0
        for found in self._pattern.finditer(text):
            pieces.append(text[read : found.start()])
            length += found.start() - read
            read = found.end()
            number = int(found[1])
            if number < count:
                span = spans[number]
                spans[number] = (length if span is None else span[0], length)
        pieces.append(text[read:])
        return "".join(pieces), _in_order(spans)


def _around(text: str, mark: str) -> str:
    core = text.strip()
    if not core:
        return text
    start = text.index(core)
    return f"{text[:start]}{mark}{core}{mark}{text[start + len(core) :]}"


def _in_order(spans: list[Span | None]) -> list[Span | None]:
    """Remove spans that begin before an earlier message's end."""
    end = 0
    ordered: list[Span | None] = []
    for span in spans:
        if span is not None and span[0] >= end:
            ordered.append(span)
            end = span[1]
        else:
            ordered.append(None)
    return ordered
