"""`TextReview`: texts as they would leave, with masks that the user can set and lift."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ingle.daemon.client.client_errors import ClientError
from ingle.daemon.client.routing_types import Explanation

if TYPE_CHECKING:
    from ingle.daemon.client.async_client import AsyncDaemonClient

# Scripts without spaces are masked by character.
_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff]|(?:(?![\u3040-\u30ff\u3400-\u9fff])[\w@])"
    r"(?:(?![\u3040-\u30ff\u3400-\u9fff])[\w@'’.+-])*(?<!\.)"
)
LONGEST_WORD = 200
"""Characters of the longest text that the policy's lists of words take."""


class ReviewedPiece(NamedTuple):
    """A word, or what is between two; `text` is what leaves in place of the original.

    `start` and `end` are characters of the original text number `part`.
    """

    text: str
    part: int
    start: int
    end: int
    state: Literal["plain", "masked", "found"]
    is_word: bool = True


class TextReview:
    """The texts of one request, and the daemon's verdict on them."""

    def __init__(
        self,
        client: AsyncDaemonClient,
        body: Mapping[str, object],
        texts: Mapping[str, str],
    ) -> None:
        self._client = client
        self._body = body
        self._places = list(texts)
        self.texts = list(texts.values())
        self.said = Explanation(verdict="local")

    @classmethod
    async def of_messages(
        cls,
        client: AsyncDaemonClient,
        body: Mapping[str, object],
        messages: Sequence[Mapping[str, Any]],
    ) -> TextReview:
        """Return the review of a request; raises `ClientError`."""
        review = cls(client, body, dict(_texts_of(messages)))
        await review._look({})
        return review

    @classmethod
    async def of_text(cls, client: AsyncDaemonClient, text: str) -> TextReview:
        """Return the review of a text that is not sent; raises `ClientError`."""
        review = cls(client, {"text": text, "override": "never"}, {"messages[0].content": text})
        await review._look({})
        return review

    async def _look(self, edits: Mapping[str, object]) -> None:
        said = await self._client.explain_routing({**self._body, **edits})
        if said.hide is None:
            raise ClientError(
                "The running daemon is older than this chat and cannot show what would leave.",
                "`ingle stop` ends it; the next command starts the current version.",
            )
        self.said = said

    def pieces(self, part: int) -> Iterator[ReviewedPiece]:
        """Yield the pieces of a text, in order."""
        where = self._places[part]
        text = self.texts[part]
        replaced = [
            span for one in self.said.redacted if one.where == where for span in one.replaced
        ]
        # A finding about all of a text is in the reason; underlined, it would hide the others.
        spans = [(one.start, one.end) for one in self.said.findings if one.where == where]
        found = [span for span in spans if span != (0, len(text))]
        at = 0
        for span in replaced:
            yield from self._unmasked(part, at, span.start, found)
            yield ReviewedPiece(f"[{span.name}]", part, span.start, span.end, "masked")
            at = span.end
        yield from self._unmasked(part, at, len(text), found)

    def _unmasked(
        self, part: int, start: int, end: int, found: Sequence[tuple[int, int]]
    ) -> Iterator[ReviewedPiece]:
        text = self.texts[part]

        def piece(first: int, last: int, *, is_word: bool) -> ReviewedPiece:
            marked = any(begin <= first and last <= stop for begin, stop in found)
            state = "found" if marked else "plain"
            return ReviewedPiece(text[first:last], part, first, last, state, is_word)

        for word in _WORD.finditer(text, start, end):
            if word.start() > start:
                yield piece(start, word.start(), is_word=False)
            yield piece(*word.span(), is_word=True)
            start = word.end()
        if start < end:
            yield piece(start, end, is_word=False)

    def leaving(self, part: int) -> str:
        """Return a text as it would leave."""
        return "".join(piece.text for piece in self.pieces(part))

    def original(self, first: ReviewedPiece, last: ReviewedPiece) -> str:
        """Return the original text from one piece to another of the same part."""
        return self.texts[first.part][first.start : last.end]

    async def toggle(self, pieces: Sequence[ReviewedPiece]) -> None:
        """Mask the adjacent pieces, or lift the masks among them; raises `ClientError`."""
        masked = [self.original(one, one) for one in pieces if one.state == "masked"]
        if masked:
            await self.unmask(masked)
            return
        text = self.original(pieces[0], pieces[-1])
        shown = (each for each in self.said.show if text.casefold() in each.casefold())
        await self.mask(next(shown, text))

    async def mask(self, text: str) -> None:
        """Mask a text wherever it occurs; raises `ClientError`."""
        show = _without(self.said.show, [text])
        hide = self.said.hide or []
        if len(show) == len(self.said.show):
            hide = [*hide, text]
        await self._look({"hide": hide, "show": show})

    async def unmask(self, texts: Sequence[str]) -> None:
        """Leave texts as they are; raises `ClientError`."""
        show = [*self.said.show, *texts]
        await self._look({"hide": _without(self.said.hide or [], texts), "show": show})

    async def teach(self, text: str, *, public: bool) -> None:
        """Write a word into the policy, as public or never to be sent; raises `ClientError`."""
        word = " ".join(text.split())
        if not 2 <= len(word) <= LONGEST_WORD:
            raise ClientError(
                f"A word of the policy has 2 to {LONGEST_WORD} characters.", "Choose another one."
            )
        await self._client.teach_word("public" if public else "words", word)
        hide, show = _without(self.said.hide or [], [text]), _without(self.said.show, [text])
        await self._look({"hide": hide, "show": show})


def _texts_of(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the texts of messages and of their tool calls, with their places in the request."""
    for number, message in enumerate(messages):
        calls: Sequence[Any] = message.get("tool_calls", ())
        if message["content"] or not calls:
            yield f"messages[{number}].content", message["content"]
        for place, call in enumerate(calls):
            where = f"messages[{number}].tool_calls[{place}].arguments"
            yield where, call["function"]["arguments"]


def _without(words: Sequence[str], left_out: Sequence[str]) -> list[str]:
    folded = {each.casefold() for each in left_out}
    return [word for word in words if word.casefold() not in folded]
