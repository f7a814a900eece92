"""A llama.cpp context on a loaded model, the base of the generating and the encoding runner."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import llama_cpp

from ..base.errors import LoadFailed, OutOfMemory
from ..base.load_spec import LoadSpec
from ..base.model_info import ModelInfo
from ..hardware.cpu_inventory import read_inventory
from ..hardware.thread_plan import plan_threads
from .llama_model import LlamaModel
from .llama_tokenizer import LlamaTokenizer
from .native_log import NativeLog

_FLASH_ATTENTION = {
    "auto": llama_cpp.LLAMA_FLASH_ATTN_TYPE_AUTO,
    "on": llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED,
    "off": llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED,
}


class LlamaContext(ABC):
    """Loads a model and opens one context on it; used from one thread."""

    pins_threads = False
    """Whether the compute threads are pinned to the performance cores."""
    context: int
    """Most tokens of one sequence."""

    def __init__(self, spec: LoadSpec, on_progress: Callable[[float], None] | None = None) -> None:
        """Load `spec.path`; raises `LoadFailed` or `OutOfMemory`, and then holds nothing."""
        with ExitStack() as undo:
            self._threads = plan_threads(read_inventory(), spec.threads)
            if self.pins_threads and sys.platform == "linux" and self._threads.cpus is not None:
                undo.callback(os.sched_setaffinity, 0, os.sched_getaffinity(0))
                os.sched_setaffinity(0, self._threads.cpus)
            self._log = NativeLog()
            undo.callback(self._log.close)
            self.model = LlamaModel(
                Path(spec.path),
                gpu_layers=spec.gpu_layers,
                cpu_experts=spec.cpu_experts,
                tensor_split=spec.tensor_split,
                main_gpu=spec.main_gpu,
                mmap=spec.mmap,
                mlock=spec.mlock,
                on_progress=on_progress,
                log=self._log,
            )
            undo.callback(self.model.close)
            self.tokenizer = LlamaTokenizer(self.model)
            self._ctx = self._open(spec)
            undo.callback(llama_cpp.llama_free, self._ctx)
            self._measure(spec)
            try:
                # So that the first request does not pay for page faults on the weights.
                self._compute_one_token()
            except RuntimeError as error:
                raise LoadFailed(
                    f"The model loads but cannot compute: {error}.",
                    hint="Pull the model again, or choose another file.",
                ) from error
            self._resources = undo.pop_all()

    @abstractmethod
    def _configure(self, spec: LoadSpec, params: llama_cpp.llama_context_params) -> None:
        """Set the parameters of the context besides threads and flash attention."""

    @abstractmethod
    def _measure(self, spec: LoadSpec) -> None:
        """Read the actual sizes of the context, and allocate the buffers that depend on them."""

    @abstractmethod
    def _compute_one_token(self) -> None:
        """Compute one token; raises `RuntimeError`."""

    def close(self) -> None:
        """Free everything in the order llama.cpp demands: context, model, log."""
        self._resources.close()

    def _open(self, spec: LoadSpec) -> llama_cpp.llama_context_p:
        params = llama_cpp.llama_context_default_params()
        params.n_threads = params.n_threads_batch = self._threads.threads
        params.flash_attn_type = _FLASH_ATTENTION[spec.flash_attention]
        # One stream for all: separate ones halve the speed of 16 and cannot share prefixes.
        params.kv_unified = True
        params.no_perf = True
        self._configure(spec, params)
        context = llama_cpp.llama_init_from_model(self.model.handle, params)
        if context:
            return context
        if self._log.is_out_of_memory:
            raise OutOfMemory(
                f"There is no memory for a context of {params.n_ctx} tokens: "
                f"{self._log.last_error}.",
                hint="Load the model with a smaller context, or unload another model.",
            )
        raise LoadFailed(
            f"llama.cpp cannot make a context of {params.n_ctx} tokens: {self._log.last_error}.",
            hint="Load the model with other settings, or choose another file.",
        )

    def _describe(self, slots: int, kv_capacity: int) -> ModelInfo:
        sizes, on_gpu = self._log.buffer_bytes, self._log.layers_on_gpu
        layers = self.model.layers
        # The output counts as a layer as well.
        gpus = f"{'+'.join(self._log.gpus) or 'GPU'}, {on_gpu} of {layers + 1} layers"
        return ModelInfo(
            engine="llama.cpp",
            device=gpus if on_gpu else f"CPU, {self._threads}",
            architecture=self.model.architecture,
            parameters=self.model.parameters,
            vocab_size=self.tokenizer.vocab_size,
            trained_context=self.model.trained_context,
            context=self.context,
            slots=slots,
            kv_capacity=kv_capacity,
            has_chat_template=False,
            weights_bytes=sizes.get("model", 0),
            kv_bytes=sizes.get("kv", 0) + sizes.get("rs", 0),
            compute_bytes=sizes.get("compute", 0) + sizes.get("output", 0),
            layers=layers,
            layers_on_gpu=on_gpu,
        )
