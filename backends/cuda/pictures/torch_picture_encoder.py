"""Encodes pictures in torch, beside the steps of running answers."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from types import TracebackType

import numpy as np
import torch

from ingle.models.errors import ModelError
from ingle.models.vision.vision_encoder import SeenTokens, VisionEncoder

from ...base.conversation import Picture
from ...base.errors import RequestRejected
from ...base.picture_span import PictureSpan
from ...text.prompts.encoded_pictures import (
    EncodedPictures,
    PictureTokens,
    too_many_tokens,
    unreadable_picture,
)
from ...text.tokenization.tokenizer import Tokenizer


class Turns:
    """A lock that two threads hold in turn: one that waits comes before one that comes again."""

    def __init__(self) -> None:
        self._next, self._held = threading.Lock(), threading.Lock()

    def __enter__(self) -> None:
        with self._next:
            self._held.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._held.release()


class TorchPictureEncoder(EncodedPictures):
    """The encoder of a model's pictures, on the device of the model.

    On a GPU it has a stream of its own, so that steps do not wait for it.
    """

    def __init__(
        self,
        vision: VisionEncoder,
        tokenizer: Tokenizer,
        device: torch.device,
        *,
        most_tokens: int,
    ) -> None:
        """`most_tokens` is what a step can compute: the most that may attend to each other."""
        super().__init__()
        self._vision, self._tokenizer = vision, tokenizer
        self._most_tokens = most_tokens
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    @torch.inference_mode()
    def _add_tokens(self, picture: Picture, tokens: PictureTokens) -> None:
        pixels = np.frombuffer(picture.rgb, np.uint8).reshape(picture.height, picture.width, 3)
        beside = nullcontext() if self._stream is None else torch.cuda.stream(self._stream)
        try:
            with beside:
                parts = self._vision.encode(pixels)
                spans = [part if isinstance(part, str) else _span(part) for part in parts]
        except ModelError as error:
            raise unreadable_picture(picture) from error
        except torch.OutOfMemoryError as error:
            raise RequestRejected(
                f"There is no memory left to encode a picture of {picture.width} × "
                f"{picture.height} pixels.",
                hint="Send a smaller one, or load the model with a smaller context.",
                param="messages",
            ) from error
        text = ""
        for part in spans:
            if isinstance(part, str):
                text += part
                continue
            if part.whole and part.length > self._most_tokens:
                raise too_many_tokens(part.length, self._most_tokens)
            if not tokens.spans:
                tokens.before = text
            else:
                tokens.ids += self._tokenizer.encode(text, add_special=False, parse_special=True)
            text = ""
            tokens.add_span(part)
        tokens.after = text


def _span(seen: SeenTokens) -> PictureSpan:
    """The tokens on the host; waits for the device."""
    embeddings = seen.embeddings.float().cpu().numpy()
    positions = len(embeddings) if seen.positions is None else seen.positions
    return PictureSpan(0, embeddings, positions, seen.axes, seen.whole)
