"""Turns pictures into embeddings with a projector, by llama.cpp's libmtmd."""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
from collections import OrderedDict
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from ..base.conversation import Picture
from ..base.errors import FileRejected, LoadFailed, RequestRejected
from ..base.picture_span import PictureSpan
from ..hardware.llama_cpp_library import library_folder
from ..text.prompts.picture_prompt import EncodedPicture
from .llama_model import LlamaModel

_MEMORY = 256 * 2**20
_IMAGE = 1
_NEGATIVE = np.int32(-(2**31))
_api: Any = llama_cpp  # the binding annotates plain integers as C types


def _ignore(_level: int, _text: bytes | None, _user_data: object) -> None:
    pass


_SILENCE = llama_cpp.llama_log_callback(_ignore)


@cache
def _mtmd() -> Any:
    """Return the binding of libmtmd, which looks for the library beside itself only."""
    folder = library_folder()
    if folder is not None:
        os.environ.setdefault("MTMD_CPP_LIB", str(folder))
    try:
        from llama_cpp import mtmd_cpp
    except (OSError, RuntimeError) as error:
        raise LoadFailed(
            f"This llama.cpp was built without pictures: {error}.",
            hint="Install it again with `ingle engine install llama.cpp`.",
        ) from error
    binding: ModuleType = mtmd_cpp
    return binding


class LlamaPictureEncoder:
    """A projector on a loaded model; any thread may use it, one at a time computes.

    Embeddings of the pictures used last, 256 MiB at most, are kept by digest.
    """

    def __init__(
        self, path: Path, model: LlamaModel, *, gpu: bool, threads: int, most_tokens: int
    ) -> None:
        """Load the projector; raises `LoadFailed`.

        `most_tokens` is what a step can compute, and so the largest picture whose tokens attend to
        each other.
        """
        self._lib = _mtmd()
        self._most_tokens = most_tokens
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, EncodedPicture] = OrderedDict()
        self._width: int = _api.llama_model_n_embd_inp(model.handle)
        # It logs each picture; results say what it rejects.
        self._lib.mtmd_log_set(_SILENCE, ctypes.c_void_p(None))
        params = self._lib.mtmd_context_params_default()
        params.use_gpu, params.print_timings, params.warmup = gpu, False, False
        params.n_threads = threads
        self._ctx = self._lib.mtmd_init_from_file(os.fsencode(path), model.handle, params)
        if not self._ctx:
            raise FileRejected(
                f"llama.cpp cannot use the projector {path.name} with this model.",
                hint="It must be made for the same model: pull both again, or name the right one "
                "with `ingle add FILE --mmproj FILE`.",
            )
        if not self._lib.mtmd_support_vision(self._ctx):
            self.close()
            raise FileRejected(
                f"The projector {path.name} is not for pictures.",
                hint="Leave it out, or name another one with `ingle add FILE --mmproj FILE`.",
            )
        self._has_axes: bool = self._lib.mtmd_decode_use_mrope(self._ctx)

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
                encoded = self._encode(picture, digest)
            self._kept[digest] = encoded
            while sum(map(_bytes, self._kept.values())) > _MEMORY and len(self._kept) > 1:
                self._kept.popitem(last=False)
        return encoded

    def close(self) -> None:
        """Free the projector; it must come before the model is freed."""
        self._lib.mtmd_free(self._ctx)

    def _encode(self, picture: Picture, digest: bytes) -> EncodedPicture:
        lib = self._lib
        with ExitStack() as resources:
            pixels = (ctypes.c_uint8 * len(picture.rgb)).from_buffer_copy(picture.rgb)
            bitmap = lib.mtmd_bitmap_init(picture.width, picture.height, pixels)
            resources.callback(lib.mtmd_bitmap_free, bitmap)
            chunks = lib.mtmd_input_chunks_init()
            resources.callback(lib.mtmd_input_chunks_free, chunks)
            marker = lib.mtmd_default_marker()
            text = lib.mtmd_input_text(marker, len(marker), False, True)
            bitmaps = (ctypes.c_void_p * 1)(bitmap)
            if lib.mtmd_tokenize(self._ctx, chunks, ctypes.byref(text), bitmaps, 1):
                raise _unreadable(picture)
            tokens = _PictureTokens(digest)
            for number in range(lib.mtmd_input_chunks_size(chunks)):
                chunk = lib.mtmd_input_chunks_get(chunks, number)
                if lib.mtmd_input_chunk_get_type(chunk) == _IMAGE:
                    tokens.add_span(self._span(chunk, picture))
                else:
                    count = ctypes.c_size_t()
                    ids = lib.mtmd_input_chunk_get_tokens_text(chunk, ctypes.byref(count))
                    # Marks that the vocabulary lacks are negative, too.
                    tokens.ids += [token for token in ids[: count.value] if token >= 0]
        return EncodedPicture(tokens.ids, tokens.spans)

    def _span(self, chunk: int, picture: Picture) -> PictureSpan:
        lib = self._lib
        count: int = lib.mtmd_input_chunk_get_n_tokens(chunk)
        whole: bool = lib.mtmd_decode_use_non_causal(self._ctx, chunk)
        if whole and count > self._most_tokens:
            raise RequestRejected(
                f"The picture takes {count} tokens, which have to be computed in one step of at "
                f"most {self._most_tokens}.",
                hint="Load the model with a larger batch, or send a smaller picture.",
                param="messages",
            )
        if lib.mtmd_encode_chunk(self._ctx, chunk):
            raise _unreadable(picture)
        found = lib.mtmd_get_output_embd(self._ctx)
        embeddings = np.ctypeslib.as_array(found, (count, self._width)).copy()
        return PictureSpan(
            0,
            embeddings,
            lib.mtmd_input_chunk_get_n_pos(chunk),
            self._axes(chunk, count) if self._has_axes else None,
            whole,
        )

    def _axes(self, chunk: int, count: int) -> NDArray[np.int32]:
        """Return the positions of the tokens in the order of llama.cpp's batches: t, y, x, z."""
        lib = self._lib
        tokens = lib.mtmd_input_chunk_get_tokens_image(chunk)
        places = (lib.mtmd_image_tokens_get_decoder_pos(tokens, 0, i) for i in range(count))
        return np.array([(p.t, p.y, p.x, p.z) for p in places], np.int32)


class _PictureTokens:
    """The tokens of a picture, those of its spans drawn from the digest.

    Pictures that differ have no token in common, but for a chance of 2**-31.
    """

    def __init__(self, digest: bytes) -> None:
        self._digest = digest
        self.ids: list[int] = []
        self.spans: list[PictureSpan] = []

    def add_span(self, span: PictureSpan) -> None:
        """Append a span."""
        seed = self._digest + len(self.spans).to_bytes(4, "little")
        drawn = np.frombuffer(hashlib.shake_256(seed).digest(4 * span.length), np.int32)
        start = len(self.ids)
        self.ids += (drawn | _NEGATIVE).tolist()
        self.spans.append(
            PictureSpan(start, span.embeddings, span.positions, span.axes, span.whole)
        )


def _bytes(encoded: EncodedPicture) -> int:
    return sum(span.embeddings.nbytes for span in encoded.spans)


def _unreadable(picture: Picture) -> RequestRejected:
    return RequestRejected(
        f"The model's projector cannot read a picture of {picture.width} × {picture.height} "
        "pixels.",
        hint="Send another size.",
        param="messages",
    )
