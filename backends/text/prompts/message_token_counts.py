"""How many tokens of a prompt each message takes."""

from __future__ import annotations

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
from .message_marks import MessageMarks, Span
from .prompt_builder import Prompt, PromptBuilder

_ROLES = ("user", "assistant", "user", "assistant")
_RENDERING_SECONDS = 2.0
"""For prefixes of a conversation whose messages cannot be found in its prompt."""


class MessageTokens(NamedTuple):
    """Tokens of each message with the template's words around it, and of what is nobody's."""

    messages: list[int]
    rest: int


class _Words(NamedTuple):
    """What a template writes before a message of a role, and behind it, as far as that is known."""

    openings: dict[str, str]
    closings: dict[str, str]


class MessageCounter:
    """Divides prompts among their messages; used from one thread.

    A second rendering, in which every message is marked at both ends, tells where each is. What
    stands between two messages belongs to the one it opens or closes. A message that cannot be
    found so ends where the rendering of the conversation up to it is no longer how the prompt
    begins.
    """

    def __init__(self, tokenizer: Tokenizer, prompts: PromptBuilder) -> None:
        self._tokenizer = tokenizer
        self._prompts = prompts
        self._spelled: dict[int, bytes] = {}

    def count(self, request: GenerateRequest) -> MessageTokens:
        """Count those of a request with messages; raises `RequestRejected`."""
        prompt = self._prompts.build(request)
        ends = self._boundaries(request, prompt.text)
        before = self._tokens_before(prompt, ends)
        messages = [end - start for start, end in pairwise(before)]
        return MessageTokens(messages, len(prompt.token_ids) - sum(messages))

    def _boundaries(self, request: GenerateRequest, text: str) -> list[int]:
        """Where the first message begins, and where each one ends, in characters of the text."""
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
        """Where the first message begins: what the template says on its own comes before."""
        first = spans[0]
        opening = self._words.openings.get(messages[0].role)
        if first is None or not opening:
            return 0
        return max(0, text.rfind(opening, 0, first[0]))

    def _split(self, gap: str, before: str, behind: str | None) -> int:
        """How much of the words between two messages belongs to the first of them.

        With nothing `behind`, what opens the answer belongs to neither.
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
        """Where the first so many messages end, by how they look alone."""
        messages = (request.messages or [])[:number]
        try:
            alone = self._prompts.render(
                msgspec.structs.replace(request, messages=messages), opens_answer=False
            )
        except RequestRejected:  # a template may want more of a conversation
            return 0
        return _common_length(alone, text)

    def _find(
        self, request: GenerateRequest, text: str, *, opens_answer: bool = True
    ) -> list[Span | None]:
        """Where each message stands; None for those that leave no trace of their own."""
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
        """What the template writes around messages, learned from short conversations."""
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
        """The text of a conversation, and its messages in it; no messages where not all are."""
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
        """How many tokens begin before each of these places in the prompt's text."""
        text = prompt.text
        for token in set(prompt.token_ids).difference(self._spelled):
            self._spelled[token] = self._tokenizer.token_bytes(token, special=True)
        spelled = [self._spelled[token] for token in prompt.token_ids]
        # Some vocabularies begin with what is not in the text: a BOS, or a blank.
        before = b"".join(spelled).find(text.encode("utf-8", "replace"))
        if before < 0:
            return self._counted_apart(text, places, len(prompt.token_ids))
        starts = [0, *accumulate(map(len, spelled[:-1]))]
        sizes = [
            len(text[start:end].encode("utf-8", "replace")) for start, end in pairwise([0, *places])
        ]
        return [bisect_left(starts, before + end) for end in accumulate(sizes)]

    def _counted_apart(self, text: str, places: Sequence[int], most: int) -> list[int]:
        """The same for tokens whose spelling is not that of the text."""
        counts = [
            len(self._tokenizer.encode(text[:place], add_special=False, parse_special=True))
            for place in places
        ]
        return [min(count, most) for count in accumulate(counts, max)]


def _common_length(left: str, right: str) -> int:
    """How many leading characters two texts have in common."""
    return bisect_left(
        range(1, min(len(left), len(right)) + 1),
        True,
        key=lambda length: left[:length] != right[:length],
    )
