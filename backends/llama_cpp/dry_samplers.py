"""Cache of DRY samplers, whose creation searches the whole vocabulary for sequence breakers."""

from __future__ import annotations

import ctypes
import threading
from collections import OrderedDict
from typing import TypeAlias

import llama_cpp

from ..base.sampling_params import SamplingParams

Sampler: TypeAlias = "llama_cpp.llama_sampler_p"

_KEPT = 8

_Key = tuple[tuple[str, ...], float, float, int, int]


class DrySamplers:
    """Keeps the most recent samplers, from which new ones are cloned; thread-safe.

    Creating one takes 10 to 60 ms for each sequence breaker, a clone takes microseconds.
    """

    def __init__(self, vocab: llama_cpp.llama_vocab_p, *, window: int) -> None:
        """No sampler looks back further than `window` tokens."""
        self._vocab = vocab
        self._max_window = window
        self._made: OrderedDict[_Key, Sampler] = OrderedDict()
        self._lock = threading.Lock()

    def prepare(self, params: SamplingParams) -> None:
        """Create the sampler for these parameters, if they need one, before it is used."""
        if params.has_dry:
            with self._lock:
                self._prototype(params)

    def new(self, params: SamplingParams) -> Sampler:
        """Return a sampler without history; the caller frees it."""
        with self._lock:
            return llama_cpp.llama_sampler_clone(self._prototype(params))

    def close(self) -> None:
        """Free the cached samplers."""
        while self._made:
            llama_cpp.llama_sampler_free(self._made.popitem()[1])

    def _prototype(self, params: SamplingParams) -> Sampler:
        breakers = tuple(dict.fromkeys(params.dry_sequence_breakers))
        # llama.cpp allocates the whole look-back window.
        last_n = params.dry_penalty_last_n
        window = self._max_window if last_n < 0 else min(last_n, self._max_window)
        numbers = (params.dry_multiplier, params.dry_base, params.dry_allowed_length, window)
        key = (breakers, *numbers)
        sampler = self._made.get(key)
        if sampler is None:
            texts = [text.encode("utf-8", "replace") for text in breakers]
            array = (ctypes.c_char_p * len(texts))(*texts)
            sampler = llama_cpp.llama_sampler_init_dry(  # pyright: ignore[reportUnknownMemberType]
                self._vocab, *numbers, array, len(texts)
            )
            if not sampler:
                raise MemoryError("llama.cpp made no sampler")
            self._made[key] = sampler
            if len(self._made) > _KEPT:
                llama_cpp.llama_sampler_free(self._made.popitem(last=False)[1])
        self._made.move_to_end(key)
        return sampler
