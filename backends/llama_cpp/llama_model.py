"""A GGUF file loaded by llama.cpp: weights and vocabulary."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

import llama_cpp

from ingle.models.gguf.vocabulary_faults import find_vocabulary_fault

from ..base.errors import FileRejected, LoadFailed, OutOfMemory
from ..hardware.llama_cpp_library import library_folder, load_backends, open_library
from .native_log import NativeLog


class LlamaModel:
    """The loaded weights; `close` must come after the contexts made on them are freed."""

    def __init__(
        self,
        path: Path,
        *,
        gpu_layers: int = -1,
        cpu_experts: int = 0,
        tensor_split: Sequence[float] = (),
        main_gpu: int = -1,
        mmap: bool = True,
        mlock: bool = False,
        vocab_only: bool = False,
        on_progress: Callable[[float], None] | None = None,
        log: NativeLog,
    ) -> None:
        """Load the file; raises `LoadFailed` with llama.cpp's reason."""
        _check_tokens(path)
        _start_library()
        params = llama_cpp.llama_model_default_params()
        params.n_gpu_layers = gpu_layers
        shares = _shares(tensor_split)
        if shares is not None:
            params.tensor_split = shares
        elif main_gpu >= 0:
            params.split_mode, params.main_gpu = llama_cpp.LLAMA_SPLIT_MODE_NONE, main_gpu
        overrides = _expert_overrides(cpu_experts) if cpu_experts else None
        if overrides is not None:
            address: Any = ctypes.addressof(overrides)
            params.tensor_buft_overrides = address
        params.load_mode = _load_mode(mmap=mmap, mlock=mlock)
        params.vocab_only = vocab_only

        def report(fraction: float, _user_data: object) -> bool:
            if on_progress is not None:
                on_progress(fraction)
            return True

        self._report = llama_cpp.llama_progress_callback(report)
        params.progress_callback = self._report
        handle = llama_cpp.llama_model_load_from_file(os.fsencode(path), params)
        if not handle:
            raise _load_error(path, log)
        self._handle: llama_cpp.llama_model_p | None = handle
        vocab = llama_cpp.llama_model_get_vocab(handle)
        assert vocab is not None
        self.vocab: llama_cpp.llama_vocab_p = vocab

    @property
    def handle(self) -> llama_cpp.llama_model_p:
        """Return the pointer to the model, which must not be closed."""
        assert self._handle is not None, "the model is closed"
        return self._handle

    @property
    def parameters(self) -> int:
        """Return the number of weights."""
        return llama_cpp.llama_model_n_params(self.handle)

    @property
    def trained_context(self) -> int:
        """Return the tokens of context the model was trained for."""
        return llama_cpp.llama_model_n_ctx_train(self.handle)

    @property
    def layers(self) -> int:
        """Return the number of transformer blocks."""
        return llama_cpp.llama_model_n_layer(self.handle)

    @property
    def can_generate(self) -> bool:
        """Return whether the model generates; false for encoders."""
        has_encoder = llama_cpp.llama_model_has_encoder(self.handle)
        return llama_cpp.llama_model_has_decoder(self.handle) and not has_encoder

    @property
    def is_recurrent(self) -> bool:
        """Return whether layers have a recurrent state, which cannot be truncated at a token."""
        model = self.handle
        return llama_cpp.llama_model_is_recurrent(model) or llama_cpp.llama_model_is_hybrid(model)

    @property
    def chat_template(self) -> str | None:
        """Return the template in the file, unchanged."""
        raw = llama_cpp.llama_model_chat_template(self.handle, None)
        return raw.decode("utf-8", "replace") if raw else None

    @property
    def rerank_template(self) -> str | None:
        """Return a reranker's template for `{query}` and `{document}`, if it has one."""
        raw = llama_cpp.llama_model_chat_template(self.handle, b"rerank")
        return raw.decode("utf-8", "replace") if raw else None

    @property
    def architecture(self) -> str:
        """Return the file's `general.architecture`."""
        return self.metadata("general.architecture") or "unknown"

    def metadata(self, key: str) -> str | None:
        """Return one value of the file's metadata as text."""
        buffer = ctypes.create_string_buffer(4096)
        writable = cast("bytes", buffer)  # the binding's annotation lacks the writable type
        size = llama_cpp.llama_model_meta_val_str(self.handle, key.encode(), writable, len(buffer))
        return buffer.value.decode("utf-8", "replace") if size >= 0 else None

    def close(self) -> None:
        """Free the weights; a second call does nothing."""
        if self._handle is not None:
            llama_cpp.llama_model_free(self._handle)
            self._handle = None


def _check_tokens(path: Path) -> None:
    fault = find_vocabulary_fault(path)
    if fault is not None:
        raise FileRejected(
            f"{path} {fault}.",
            hint="The file is damaged, or was badly converted: use another one.",
        )


def _load_mode(*, mmap: bool, mlock: bool) -> int:
    if mmap:
        # By default llama.cpp maps the file unless a device is better off without.
        mapped = llama_cpp.LLAMA_LOAD_MODE_MMAP_MLOCK
        return mapped if mlock else llama_cpp.LLAMA_LOAD_MODE_AUTO
    return llama_cpp.LLAMA_LOAD_MODE_MLOCK if mlock else llama_cpp.LLAMA_LOAD_MODE_NONE


def _load_error(path: Path, log: NativeLog) -> LoadFailed:
    if log.is_out_of_memory:
        return OutOfMemory(
            f"There is not enough memory for {path.name}: {log.last_error}.",
            hint="Unload another model, or choose a smaller one.",
        )
    return FileRejected(
        f"llama.cpp cannot load {path.name}: {log.last_error}.",
        hint="Pull the model again, or choose another file.",
    )


class _Override(ctypes.Structure):
    """`llama_model_tensor_buft_override`, which the binding does not declare."""

    _fields_ = (("pattern", ctypes.c_char_p), ("buffer_type", ctypes.c_void_p))


def experts_pattern(blocks: int) -> str:
    """Return a regular expression for the expert tensors of the first `blocks` blocks."""
    numbers = "|".join(str(block) for block in range(blocks))
    return rf"^blk\.({numbers})\.ffn_.*_exps\."


@cache
def _start_library() -> None:
    folder = library_folder()
    if folder is not None:
        load_backends(folder)
    llama_cpp.llama_backend_init()


def load_ggml_base() -> ctypes.CDLL:
    """Return the library ggml-base, which importing llama_cpp has already loaded."""
    folder = library_folder()
    assert folder is not None, "llama_cpp is imported"
    library = open_library("ggml-base", folder)
    assert library is not None
    return library


def _shares(split: Sequence[float]) -> ctypes.Array[ctypes.c_float] | None:
    """Return the share of each GPU as llama.cpp reads them; None for its own.

    Raises `LoadFailed` for more than there can be. They must live until the model is loaded.
    """
    most = llama_cpp.llama_max_devices()
    if len(split) > most:
        raise LoadFailed(
            f"tensor_split has {len(split)} shares, and llama.cpp here has {most} GPUs at most.",
            hint="Write one share for each GPU.",
        )
    return (ctypes.c_float * most)(*split) if split else None


def _expert_overrides(blocks: int) -> ctypes.Array[_Override]:
    """Return the entries that keep the experts of the first `blocks` blocks in host memory.

    They must live until the model is loaded.
    """
    ggml = load_ggml_base()
    ggml.ggml_backend_cpu_buffer_type.restype = ctypes.c_void_p
    entry = _Override(experts_pattern(blocks).encode(), ggml.ggml_backend_cpu_buffer_type())
    return (_Override * 2)(entry)  # the second ends the list
