"""Puts pictures into prompts: marks in the messages, and tokens in the place of the marks."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec

from ...base.conversation import ChatMessage, Picture
from ...base.errors import RequestRejected
from ...base.picture_span import PictureSpan
from ...base.requests import GenerateRequest
from ..tokenization.tokenizer import Tokenizer, encode_prompt


@dataclass(frozen=True, eq=False)
class EncodedPicture:
    """A picture as tokens: those of text around it, and of its spans, which are negative.

    The texts `before` and `after` belong to it, too, and are tokenised with those around it.
    """

    token_ids: list[int]
    spans: list[PictureSpan]
    before: str = ""
    after: str = ""


class PictureEncoder(Protocol):
    """Turns the pixels of pictures into tokens of one model; any thread may use it."""

    def encode(self, picture: Picture) -> EncodedPicture:
        """Return the tokens of a decoded picture; raises `RequestRejected`."""
        ...


_UNSEEN = "[A picture, which this model cannot see.]"


class PictureMarks:
    """Messages with a mark in the place of each picture, which no other text contains."""

    def __init__(self, messages: Sequence[ChatMessage]) -> None:
        self._nonce = secrets.token_hex(8)
        self._pattern = re.compile(rf"x{self._nonce}p(\d+)x")
        self._pictures: list[Picture] = []
        self.messages = [self._mark(message) for message in messages]

    def _mark(self, message: ChatMessage) -> ChatMessage:
        known = len(self._pictures)
        pictures = sorted(message.pictures, key=_place)
        self._pictures += pictures
        marks = [f"x{self._nonce}p{known + number}x" for number in range(len(pictures))]
        return _with_texts(message, marks)

    def without(self, text: str) -> str:
        """Return a text without the marks."""
        return self._pattern.sub("", text)

    def tokens(
        self, text: str, tokenizer: Tokenizer, encoder: PictureEncoder
    ) -> tuple[list[int], tuple[PictureSpan, ...]]:
        """Return the tokens of a rendered text, with the pictures among them.

        Raises `RequestRejected`, also where the template leaves a picture out.
        """
        pieces = self._pattern.split(text)
        numbers = [int(number) for number in pieces[1::2]]
        if set(numbers) != set(range(len(self._pictures))):
            raise RequestRejected(
                "The model's chat template leaves out a picture of this conversation.",
                hint="Attach pictures to messages of the user.",
                param="messages",
            )
        shown = [encoder.encode(self._pictures[number]) for number in numbers]
        texts = pieces[::2]
        for place, encoded in enumerate(shown):
            texts[place] += encoded.before
            texts[place + 1] = encoded.after + texts[place + 1]
        token_ids = encode_prompt(tokenizer, texts[0])
        spans: list[PictureSpan] = []
        for encoded, text in zip(shown, texts[1:], strict=True):
            at = len(token_ids)
            spans += (replace(span, start=at + span.start) for span in encoded.spans)
            token_ids += encoded.token_ids
            token_ids += tokenizer.encode(text, add_special=False, parse_special=True)
        return token_ids, tuple(spans)


def pictures_of(messages: Sequence[ChatMessage] | None) -> list[Picture]:
    """Return the pictures of a conversation."""
    return [picture for message in messages or () for picture in message.pictures]


def pictures_of_request(request: GenerateRequest) -> list[Picture]:
    """Return the pictures of a conversation or of a prompt."""
    return [*pictures_of(request.messages), *request.pictures]


def without_pictures(message: ChatMessage) -> ChatMessage:
    """Return the message with a note in the place of each picture."""
    return _with_texts(message, [_UNSEEN] * len(message.pictures))


def _with_texts(message: ChatMessage, texts: list[str]) -> ChatMessage:
    """Return the message with texts in the places of its pictures, in their order."""
    pieces: list[str] = []
    read = 0
    for picture, text in zip(sorted(message.pictures, key=_place), texts, strict=True):
        pieces += message.content[read : picture.at], text
        read = max(read, picture.at)
    pieces.append(message.content[read:])
    return msgspec.structs.replace(message, content="".join(pieces), pictures=[])


def _place(picture: Picture) -> int:
    return picture.at
