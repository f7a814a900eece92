"""The `ModelRunner` over llama-cpp-python's low-level API, for CPU and Metal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import llama_cpp
import numpy as np

from ingle.models.fit.llama_cpp_fit import KEPT_SLOTS, KEPT_STATES
from ingle.models.kv_type import KVType

from ..base.errors import LoadFailed, OutOfMemory
from ..base.load_spec import LoadSpec
from ..base.model_info import ModelInfo
from ..base.sampling_params import SamplingParams
from ..engine.batch import Batch, Sampled, ScheduledChunk
from ..engine.kv.cell_cache import CellCache
from ..engine.kv_store.kv_store import KVStore
from ..engine.model_runner import KVCacheFull
from ..engine.sequence import Sequence
from ..hardware.cpu_inventory import read_inventory
from ..hardware.thread_plan import plan_threads
from .batch_sampler import LlamaBatchSampler
from .llama_model import LlamaModel
from .llama_tokenizer import LlamaTokenizer
from .load_warnings import load_warnings
from .native_log import NativeLog
from .sequence_state import SequenceState
from .token_batch import TokenBatch

_NO_ROOM = 1
_MAX_DRAFTS = 16
FLASH_ATTENTION = {
    "auto": llama_cpp.LLAMA_FLASH_ATTN_TYPE_AUTO,
    "on": llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED,
    "off": llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED,
}


class LlamaModelRunner:
    """One llama.cpp context with a unified KV cache shared by all slots; used from one thread."""

    def __init__(self, spec: LoadSpec, on_progress: Callable[[float], None] | None = None) -> None:
        """Load `spec.path`; raises `LoadFailed` or `OutOfMemory`, and then holds nothing."""
        _check_kv_type(spec)
        with ExitStack() as undo:
            self._threads = plan_threads(read_inventory(), spec.threads)
            self._pin(undo)
            self._log = NativeLog()
            undo.callback(self._log.close)
            self.model = LlamaModel(
                Path(spec.path),
                gpu_layers=spec.gpu_layers,
                cpu_experts=spec.cpu_experts,
                mmap=spec.mmap,
                mlock=spec.mlock,
                on_progress=on_progress,
                log=self._log,
            )
            undo.callback(self.model.close)
            self.tokenizer = LlamaTokenizer(self.model)
            self._choose_slots(spec)
            self._ctx = self._make_context(spec)
            undo.callback(llama_cpp.llama_free, self._ctx)
            self._measure(spec)
            self._warm_up()
            self._resources = undo.pop_all()

    def _measure(self, spec: LoadSpec) -> None:
        """Read the sizes that the context really got."""
        memory = llama_cpp.llama_get_memory(self._ctx)
        if not self.model.can_generate or memory is None:
            raise LoadFailed(
                f"{Path(spec.path).name} holds a model ({self.model.architecture}) that does not "
                "write text token by token.",
                hint="Choose a model that generates text.",
            )
        self._memory = memory
        self._state = SequenceState(self._ctx, memory, scratch=self.cache_slots)
        self.kv_capacity = llama_cpp.llama_n_ctx(self._ctx)
        self.context = min(spec.context, self.kv_capacity)
        self.max_batch_tokens = spec.batch
        self.can_fork = not self.model.is_recurrent
        self.can_run_ahead = False
        self._batch = TokenBatch(spec.batch)
        self._sampler = LlamaBatchSampler(self._ctx, self.model.vocab, window=self.context)
        self._sampling: list[ScheduledChunk] = []
        self._rows: list[int] = []
        self._info = self._describe(spec)

    @property
    def state_key(self) -> str:
        """Return library version and settings that determine the layout of snapshots."""
        return f"llama-cpp-python {llama_cpp.__version__}, {self._layout}"

    def open_cache(self, store: KVStore | None = None) -> CellCache:
        """Return the cache manager of the cells."""
        return CellCache(self, store)

    def launch(self, batch: Batch) -> None:
        """Compute the batch; raises `KVCacheFull`, leaving the cache as it was."""
        self._rows = self._batch.fill(batch)
        self._sampling = batch.sampling
        status = llama_cpp.llama_decode(self._ctx, self._batch.native)
        if status == _NO_ROOM:
            raise KVCacheFull
        if status:
            raise RuntimeError(f"llama_decode failed with {status}: {self._log.last_error}")

    def collect(self) -> list[Sampled]:
        """Return the sampled tokens of the launched batch's sampling chunks, in batch order."""
        if not self._sampling:
            llama_cpp.llama_synchronize(self._ctx)
            return []
        # Rows come in batch order of the tokens that asked for logits; reading them synchronises.
        outputs = sum(1 + len(chunk.drafts) for chunk in self._sampling)
        shape = (outputs, self.tokenizer.vocab_size)
        logits = np.ctypeslib.as_array(llama_cpp.llama_get_logits(self._ctx), shape)
        results: list[Sampled] = []
        first = 0
        for chunk, position in zip(self._sampling, self._rows, strict=True):
            last = first + 1 + len(chunk.drafts)
            results.append(self._sampler.sample(chunk, logits[first:last], position))
            first = last
        return results

    def can_follow(self, params: SamplingParams) -> bool:
        """Return False: the sampler processes each token on the host."""
        return False

    def is_eog(self, token_id: int) -> bool:
        """Return whether the token ends generation."""
        return self.tokenizer.is_eog(token_id)

    def fork(self, source: int, target: int, length: int, checkpoint: bytes | None = None) -> None:
        """Share cells between slots: metadata only; just a checkpoint is copied."""
        llama_cpp.llama_memory_seq_cp(self._memory, source, target, 0, length)
        if checkpoint is not None:
            self._state.restore_checkpoint(target, checkpoint)

    def checkpoint(self, slot: int) -> bytes:
        """Return the state of the slot's recurrent layers."""
        return self._state.checkpoint(slot)

    def trim(self, slot: int, length: int) -> None:
        """Remove what the slot holds after its first `length` tokens."""
        llama_cpp.llama_memory_seq_rm(self._memory, slot, length, -1)

    def snapshot(self, slot: int, start: int, end: int) -> bytes:
        """Return a copy of the keys and values of the slot's tokens `start` to `end`."""
        return self._state.read(slot, start, end)

    def restore(self, slot: int, start: int, end: int, data: bytes | memoryview) -> bool:
        """Append a snapshot's first tokens to the slot; return False if it does not fit."""
        return self._state.append(slot, start, end, data)

    def release(self, slot: int) -> None:
        """Empty the slot; cells shared with other slots stay."""
        llama_cpp.llama_memory_seq_rm(self._memory, slot, -1, -1)

    def prepare(self, params: SamplingParams) -> None:
        """Create slow samplers before the sequence arrives."""
        self._sampler.prepare(params)

    def forget(self, sequence: Sequence) -> None:
        """Free the sequence's sampler chain."""
        self._sampler.forget(sequence)

    def listen(self) -> None:
        """Take llama.cpp's log back from a model that was loaded later."""
        self._log.listen()

    def info(self) -> ModelInfo:
        """Return the properties of the loaded model."""
        return self._info

    def close(self) -> None:
        """Free everything in the order llama.cpp demands: samplers, context, model."""
        self._sampler.close()
        self._resources.close()

    def _describe(self, spec: LoadSpec) -> ModelInfo:
        sizes = self._log.buffer_bytes
        on_gpu = self._log.layers_on_gpu
        gpus = "+".join(self._log.gpus) or "GPU"
        layers = self.model.layers + 1  # the output is one as well
        return ModelInfo(
            engine="llama.cpp",
            device=f"{gpus}, {on_gpu} of {layers} layers" if on_gpu else f"CPU, {self._threads}",
            architecture=self.model.architecture,
            parameters=self.model.parameters,
            vocab_size=self.tokenizer.vocab_size,
            trained_context=self.model.trained_context,
            context=self.context,
            slots=self.slots,
            kv_capacity=self.kv_capacity,
            has_chat_template=self.model.chat_template is not None,
            weights_bytes=sizes.get("model", 0),
            kv_bytes=sizes.get("kv", 0) + sizes.get("rs", 0),
            compute_bytes=sizes.get("compute", 0) + sizes.get("output", 0),
            layers=self.model.layers,
            layers_on_gpu=on_gpu,
            kv_type=spec.kv_type,
            flash_attention=self._log.flash_attention,
            warnings=load_warnings(spec, self._log, layers),
        )

    def _pin(self, undo: ExitStack) -> None:
        """Pin this thread, and the compute threads it will start, to the performance cores."""
        if sys.platform == "linux" and self._threads.cpus is not None:
            undo.callback(os.sched_setaffinity, 0, os.sched_getaffinity(0))
            os.sched_setaffinity(0, self._threads.cpus)

    def _choose_slots(self, spec: LoadSpec) -> None:
        """Limit slots of recurrent models: each slot has a state in memory; tokens in cells
        do not.
        """
        kept = KEPT_STATES if self.model.is_recurrent else KEPT_SLOTS
        most = llama_cpp.llama_max_parallel_sequences()
        self.slots = min(spec.slots, most - 2)
        self.cache_slots = min(self.slots + kept, most - 1)
        self.max_drafts = 0 if self.model.is_recurrent else _MAX_DRAFTS

    def _make_context(self, spec: LoadSpec) -> llama_cpp.llama_context_p:
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = max(spec.kv_capacity, spec.context)
        params.n_batch = params.n_ubatch = spec.batch
        params.n_seq_max = self.cache_slots + 1  # and one for taking snapshots
        # Otherwise a logits buffer for the whole batch is allocated, which for a large vocabulary
        # exceeds the weights of a small model.
        params.n_outputs_max = max(params.n_seq_max, self.slots + self.max_drafts)
        params.n_threads = params.n_threads_batch = self._threads.threads
        params.type_k = params.type_v = spec.kv_type.ggml_type
        params.flash_attn_type = FLASH_ATTENTION[spec.flash_attention]
        # A recycled window would take the cells of prefixes that others still share, and decoding
        # from such a prefix gives wrong logits without an error.
        params.swa_full = True
        # One stream for all: separate ones halve the speed of 16 and cannot share prefixes.
        params.kv_unified = True
        params.no_perf = True
        assert self.model.handle is not None
        context = llama_cpp.llama_init_from_model(self.model.handle, params)
        if context:
            # Without flash attention, values are stored transposed.
            flash = self._log.flash_attention
            self._layout = f"kv {spec.kv_type} flash {flash} swa {params.swa_full}"
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

    def _warm_up(self) -> None:
        """Decode one token, so that the first request does not pay for page faults on the
        weights.
        """
        sequence = Sequence("warm-up", 0, [0], sampling=SamplingParams(temperature=0))
        sequence.slot = 0
        batch = Batch()
        batch.add(sequence, 1)
        try:
            self.launch(batch)
        except RuntimeError as error:
            raise LoadFailed(
                f"The model loads but cannot compute: {error}.",
                hint="Pull the model again, or choose another file.",
            ) from error
        self.collect()
        llama_cpp.llama_memory_clear(self._memory, True)


def _check_kv_type(spec: LoadSpec) -> None:
    if spec.kv_type is not KVType.F16 and spec.flash_attention == "off":
        raise LoadFailed(
            f"A {spec.kv_type} KV cache needs flash attention, which is turned off.",
            hint="Set flash_attention to auto, or kv_type to f16.",
        )
