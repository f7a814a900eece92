"""The LoRA adapters of a llama.cpp model: loaded when first asked for, chosen for each decode."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from threading import Lock
from typing import Any

import llama_cpp

from ingle.models.adapters.adapter_settings import GGUF
from ingle.models.adapters.gguf_adapter import GGUFAdapterSettings
from ingle.models.errors import ModelError

from ..base.errors import RequestRejected
from ..engine.sequence import MOST_ADAPTERS
from .llama_model import LlamaModel
from .native_log import NativeLog

_api: Any = llama_cpp  # the binding annotates pointers as their ctypes


class LlamaAdapters:
    """Adapters by numbers, none of which is given twice: cells that one computed stay cached.

    Requests are prepared in another thread than batches, and the model's list of adapters has no
    lock: `lock` is to be held while something is computed.
    """

    def __init__(
        self, context: llama_cpp.llama_context_p, model: LlamaModel, log: NativeLog
    ) -> None:
        self._context = context
        self._model = model
        self._log = log
        self._numbers: dict[Path, int] = {}
        self._loaded: dict[int, Any] = {}
        self._last = self._chosen = 0
        self.lock = Lock()

    def number_of(self, folder: Path) -> int:
        """The number of the adapter in a folder, which is loaded if it is not yet.

        Raises `RequestRejected` for one that cannot be.
        """
        with self.lock:
            if folder not in self._numbers:
                self._numbers[folder] = self._load(folder)
            return self._numbers[folder]

    def drop(self, folder: Path) -> None:
        """Free an adapter that no sequence uses, if it is loaded."""
        with self.lock:
            number = self._numbers.pop(folder, None)
            if number is None:
                return
            if number == self._chosen:
                self.choose(0)
            _api.llama_adapter_lora_free(self._loaded.pop(number))

    def choose(self, number: int) -> None:
        """Compute what follows with this adapter, or with none if it is 0."""
        if number == self._chosen:
            return
        self._chosen = number
        adapters = [self._loaded[number]] if number else []
        pointers = (_api.llama_adapter_lora_p_ctypes * len(adapters))(*adapters)
        scales = (ctypes.c_float * len(adapters))(*(1.0 for _ in adapters))
        _api.llama_set_adapters_lora(self._context, pointers, len(adapters), scales)

    def _load(self, folder: Path) -> int:
        if self._last == MOST_ADAPTERS:
            raise RequestRejected(
                f"The model has loaded {MOST_ADAPTERS} adapters, the most it can: unload it first."
            )
        path = folder / GGUF
        try:
            GGUFAdapterSettings(path)
        except ModelError as error:
            raise RequestRejected(f"{error.message} {error.hint or ''}".rstrip()) from error
        loaded = _api.llama_adapter_lora_init(self._model.handle, os.fsencode(path))
        if not loaded:
            raise RequestRejected(
                f"llama.cpp cannot load the adapter {folder.parent.name}: {self._log.last_error}.",
                hint="Add the adapter again.",
            )
        self._last += 1
        self._loaded[self._last] = loaded
        return self._last
