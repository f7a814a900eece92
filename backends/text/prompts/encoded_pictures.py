"""What is kept of encoded pictures, and the tokens that stand for them."""

from __future__ import annotations

import hashlib
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import replace

import numpy as np

from ...base.conversation import Picture
from ...base.errors import RequestRejected
from ...base.picture_span import PictureSpan
from .picture_prompt import EncodedPicture

_MEMORY = 256 * 2**20
_NEGATIVE = np.int32(-(2**31))


class EncodedPictures(ABC):
    """Encodes pictures, one at a time, from any thread.

    Embeddings of the pictures used last, 256 MiB at most, are kept by digest.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, EncodedPicture] = OrderedDict()

    def encode(self, picture: Picture) -> EncodedPicture:
        """See `PictureEncoder.encode`."""
        size = picture.width * picture.height * 3
        if not size or len(picture.rgb) != size:
            raise RequestRejected("A picture has no pixels.", param="messages")
        head = f"{picture.width} {picture.height} ".encode()
        digest = hashlib.sha256(head + picture.rgb).digest()
        with self._lock:
            encoded = self._kept.pop(digest, None)
            if encoded is None:
                tokens = PictureTokens(digest)
                self._add_tokens(picture, tokens)
                encoded = EncodedPicture(tokens.ids, tokens.spans, tokens.before, tokens.after)
            self._kept[digest] = encoded
            while sum(map(_bytes, self._kept.values())) > _MEMORY and len(self._kept) > 1:
                self._kept.popitem(last=False)
        return encoded

    @abstractmethod
    def _add_tokens(self, picture: Picture, tokens: PictureTokens) -> None:
        """Append the tokens of a picture; raises `RequestRejected`."""


class PictureTokens:
    """The tokens of a picture, those of its spans drawn from the digest.

    Pictures that differ have no token in common, but for a chance of 2**-31. The texts `before` and
    `after` are to be tokenised with those around the picture.
    """

    def __init__(self, digest: bytes) -> None:
        self._digest = digest
        self.ids: list[int] = []
        self.spans: list[PictureSpan] = []
        self.before = self.after = ""

    def add_span(self, span: PictureSpan) -> None:
        """Append a span."""
        seed = self._digest + len(self.spans).to_bytes(4, "little")
        drawn = np.frombuffer(hashlib.shake_256(seed).digest(4 * span.length), np.int32)
        self.spans.append(replace(span, start=len(self.ids)))
        self.ids += (drawn | _NEGATIVE).tolist()


def unreadable_picture(picture: Picture) -> RequestRejected:
    """The error for a picture that the model's encoder cannot take."""
    return RequestRejected(
        f"The model's projector cannot read a picture of {picture.width} × {picture.height} "
        "pixels.",
        hint="Send another size.",
        param="messages",
    )


def too_many_tokens(count: int, most: int) -> RequestRejected:
    """The error for a picture whose tokens attend to each other, and do not fit into one step."""
    return RequestRejected(
        f"The picture takes {count} tokens, which have to be computed in one step of at most "
        f"{most}.",
        hint="Load the model with a larger batch, or send a smaller picture.",
        param="messages",
    )


def _bytes(encoded: EncodedPicture) -> int:
    return sum(span.embeddings.nbytes for span in encoded.spans)
