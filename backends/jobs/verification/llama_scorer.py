"""Computes reference logits with llama.cpp, set up as it serves."""

from __future__ import annotations

from collections.abc import Sequence as Tokens
from contextlib import ExitStack
from pathlib import Path

import llama_cpp
import numpy as np

from ...base.errors import LoadFailed, OutOfMemory
from ...hardware.cpu_inventory import read_inventory
from ...hardware.thread_plan import plan_threads
from ...llama_cpp.llama_model import LlamaModel
from ...llama_cpp.native_log import NativeLog
from ...llama_cpp.token_batch import TokenBatch
from .logit_comparison import Logits
from .scorer import scored_chunk


class LlamaScorer:
    """A separate context on a loaded model, with llama.cpp's own settings: keys in float16."""

    def __init__(self, path: Path, *, context: int, chunk: int) -> None:
        """Load a file for windows of `context` tokens; raises `LoadFailed` or `OutOfMemory`."""
        with ExitStack() as undo:
            self._log = NativeLog()
            undo.callback(self._log.close)
            self._model = LlamaModel(path, gpu_layers=0, log=self._log)
            undo.callback(self._model.close)
            self._threads = plan_threads(read_inventory())
            self._vocab_size = llama_cpp.llama_vocab_n_tokens(self._model.vocab)
            self._context = self._make_context(context, chunk)
            undo.callback(llama_cpp.llama_free, self._context)
            self._batch = TokenBatch(chunk)
            self._resources = undo.pop_all()

    @property
    def device(self) -> str:
        """Return the compute device in words."""
        return f"CPU, {self._threads}"

    def begin(self) -> None:
        """See `Scorer.begin`."""
        memory = llama_cpp.llama_get_memory(self._context)
        if memory is not None:
            llama_cpp.llama_memory_clear(memory, True)

    def read(self, window: Tokens[int], start: int, end: int) -> Logits:
        """See `Scorer.read`."""
        self._batch.fill(scored_chunk(window, start, end, []), {})
        status = llama_cpp.llama_decode(self._context, self._batch.native)
        if status:
            raise LoadFailed(
                f"llama.cpp cannot compute with this model: {self._log.last_error} ({status}).",
                hint="Pull the model again, or choose another file.",
            )
        rows = llama_cpp.llama_get_logits(self._context)
        return np.ctypeslib.as_array(rows, (end - start, self._vocab_size))

    def close(self) -> None:
        """Free everything in the order llama.cpp demands."""
        self._resources.close()

    def _make_context(self, context: int, chunk: int) -> llama_cpp.llama_context_p:
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = context
        params.n_batch = params.n_ubatch = params.n_outputs_max = chunk
        params.n_seq_max = 1
        params.n_threads = params.n_threads_batch = self._threads.threads
        params.swa_full = True
        params.no_perf = True
        made = llama_cpp.llama_init_from_model(self._model.handle, params)
        if made:
            return made
        failure = OutOfMemory if self._log.is_out_of_memory else LoadFailed
        raise failure(
            f"llama.cpp cannot make a context of {context} tokens: {self._log.last_error}.",
            hint="Compare fewer tokens (--tokens), or choose another model.",
        )
