"""Turns pictures into embeddings with a projector, by llama.cpp's libmtmd."""

from __future__ import annotations

import ctypes
import os
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from ..base.conversation import Picture
from ..base.errors import FileRejected, LoadFailed
from ..base.picture_span import PictureSpan
from ..hardware.llama_cpp_library import library_folder
from ..text.prompts.encoded_pictures import (
    EncodedPictures,
    PictureTokens,
    too_many_tokens,
    unreadable_picture,
)
from .llama_model import LlamaModel

_IMAGE = 1
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


class LlamaPictureEncoder(EncodedPictures):
    """A projector on a loaded model."""

    def __init__(
        self, path: Path, model: LlamaModel, *, gpu: bool, threads: int, most_tokens: int
    ) -> None:
        """Load the projector; raises `LoadFailed`.

        `most_tokens` is what a step can compute, and so the largest picture whose tokens attend to
        each other.
        """
        super().__init__()
        self._lib = _mtmd()
        self._most_tokens = most_tokens
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

    def close(self) -> None:
        """Free the projector; it must come before the model is freed."""
        self._lib.mtmd_free(self._ctx)

    def _add_tokens(self, picture: Picture, tokens: PictureTokens) -> None:
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
                raise unreadable_picture(picture)
            for number in range(lib.mtmd_input_chunks_size(chunks)):
                chunk = lib.mtmd_input_chunks_get(chunks, number)
                if lib.mtmd_input_chunk_get_type(chunk) == _IMAGE:
                    tokens.add_span(self._span(chunk, picture))
                else:
                    count = ctypes.c_size_t()
                    ids = lib.mtmd_input_chunk_get_tokens_text(chunk, ctypes.byref(count))
                    # Marks that the vocabulary lacks are negative, too.
                    tokens.ids += [token for token in ids[: count.value] if token >= 0]

    def _span(self, chunk: int, picture: Picture) -> PictureSpan:
        lib = self._lib
        count: int = lib.mtmd_input_chunk_get_n_tokens(chunk)
        whole: bool = lib.mtmd_decode_use_non_causal(self._ctx, chunk)
        if whole and count > self._most_tokens:
            raise too_many_tokens(count, self._most_tokens)
        if lib.mtmd_encode_chunk(self._ctx, chunk):
            raise unreadable_picture(picture)
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
