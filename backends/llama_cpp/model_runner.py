"""The `ModelRunner` of models that generate or draft, over llama-cpp-python's low-level API."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import llama_cpp
import msgspec
import numpy as np
from numpy.typing import NDArray

from ingle.models.fit.llama_cpp_fit import KEPT_SLOTS, KEPT_STATES
from ingle.models.kv_type import KVType

from ..base.errors import LoadFailed
from ..base.load_spec import LoadSpec
from ..base.model_info import ModelInfo
from ..base.picture_span import PictureSpan, first_position, text_runs
from ..base.sampling_params import SamplingParams
from ..engine.batch import Batch, Sampled, ScheduledChunk, sampling_rows
from ..engine.kv.cell_cache import CellCache
from ..engine.kv_store.kv_store import KVStore
from ..engine.model_runner import KVCacheFull, StepStopped
from ..engine.sequence import Sequence
from .adapters import LlamaAdapters
from .batch_sampler import LlamaBatchSampler
from .llama_context import LlamaContext
from .native_log import load_warnings
from .picture_encoder import LlamaPictureEncoder
from .token_batch import PictureBatch, TokenBatch

_NO_ROOM, _ABORTED = 1, 2
_MAX_DRAFTS = 16
_api: Any = llama_cpp  # the binding annotates plain integers as C types
_ALL = 0
_PARTIAL_ONLY = 1
"""Only the state of recurrent layers, which cannot be truncated."""


class LlamaModelRunner(LlamaContext):
    """A llama.cpp context with a unified KV cache shared by all slots; used from one thread."""

    pins_threads = True

    def __init__(self, spec: LoadSpec, on_progress: Callable[[float], None] | None = None) -> None:
        """Load `spec.path`; raises `LoadFailed` or `OutOfMemory`, and then holds nothing."""
        if spec.kv_type is not KVType.F16 and spec.flash_attention == "off":
            raise LoadFailed(
                f"A {spec.kv_type} KV cache needs flash attention, which is turned off.",
                hint="Set flash_attention to auto, or kv_type to f16.",
            )
        super().__init__(spec, on_progress)
        if spec.projector_path is not None:
            try:
                self._open_projector(spec, Path(spec.projector_path))
            except LoadFailed as error:
                # It may only lie beside the file: the model itself is as good without.
                blind = f"{error.message[:-1]}: the model does not see pictures."
                warnings = [*self._info.warnings, blind]
                self._info = msgspec.structs.replace(self._info, warnings=warnings)

    def _measure(self, spec: LoadSpec) -> None:
        memory = llama_cpp.llama_get_memory(self._ctx)
        if not self.model.can_generate or memory is None:
            raise LoadFailed(
                f"{Path(spec.path).name} holds a model ({self.model.architecture}) that does not "
                "write text token by token.",
                hint="Choose a model that generates text.",
            )
        self._memory = memory
        self.kv_capacity = llama_cpp.llama_n_ctx(self._ctx)
        self.context = min(spec.context, self.kv_capacity)
        self.max_batch_tokens = spec.batch
        self.can_fork = not self.model.is_recurrent
        self.can_run_ahead = False
        self._batch = TokenBatch(spec.batch)
        self.pictures: LlamaPictureEncoder | None = None
        self._runs: PictureBatch | None = None
        self._spans: dict[int, tuple[PictureSpan, ...]] = {}
        """The pictures in slots whose positions are not the tokens' numbers."""
        self._sampler = LlamaBatchSampler(self._ctx, self.model.vocab, window=self.context)
        self.adapters = LlamaAdapters(self._ctx, self.model, self._log)
        self._sampling: list[ScheduledChunk] = []
        self._logits: list[NDArray[np.float32]] | None = None
        """Those of the sampling chunks, if the batch took several decodes."""
        self._rows: list[int] = []
        self._stops: Callable[[], bool] | None = None
        self._abort_callback = _api.ggml_abort_callback(self._is_asked_to_stop)
        flash = self._log.flash_attention
        # Without flash attention, values are stored transposed.
        self._layout = f"kv {spec.kv_type} flash {flash} swa True"
        self._info = msgspec.structs.replace(
            self._describe(self.slots, self.kv_capacity),
            has_chat_template=self.model.chat_template is not None,
            kv_type=spec.kv_type,
            flash_attention=flash,
            warnings=load_warnings(spec, self._log, self.model.layers + 1),
        )

    @property
    def state_key(self) -> str:
        """Return library version and settings that determine the layout of snapshots."""
        return f"llama-cpp-python {llama_cpp.__version__}, {self._layout}"

    def open_cache(self, store: KVStore | None = None) -> CellCache:
        """Return the cache manager of the cells."""
        return CellCache(self, store)

    def launch(self, batch: Batch) -> None:
        """See `ModelRunner`; only a CPU can stop, and no recurrent layers, whose state is lost."""
        self._stop_by(None if self.model.is_recurrent else batch.stops)
        done = self._compute_pictures(batch)
        self._sampling = batch.sampling
        self._logits = None
        groups: dict[int, list[ScheduledChunk]] = {}
        for chunk in batch.chunks:
            groups.setdefault(chunk.sequence.adapter, []).append(chunk)
        if len(groups) > 1:
            self._logits = self._compute_groups(groups, done)
            return
        self._rows = self._batch.fill(batch, done)
        if not done or self._batch.native.n_tokens:
            self._decode(self._batch, done, *groups)

    def _compute_groups(
        self, groups: Mapping[int, list[ScheduledChunk]], done: dict[Sequence, int]
    ) -> list[NDArray[np.float32]]:
        """Compute the chunks of each adapter; return copies of the logits in batch order.

        llama.cpp computes all tokens of a call with the same adapters.
        """
        logits: dict[Sequence, NDArray[np.float32]] = {}
        computed = dict(done)
        for adapter, chunks in groups.items():
            part = Batch(chunks)
            self._batch.fill(part, done)
            if self._batch.native.n_tokens:
                self._decode(self._batch, computed, adapter)
            computed |= {chunk.sequence: chunk.count for chunk in chunks}
            found = self._read_logits(part.sampling)
            logits |= {
                chunk.sequence: found[rows.start : rows.stop].copy()
                for rows, chunk in sampling_rows(part.sampling)
            }
        return [logits[chunk.sequence] for chunk in self._sampling]

    def _stop_by(self, stops: Callable[[], bool] | None) -> None:
        """Have llama.cpp ask `stops` before each operation of the next decodes."""
        if (stops is None) is not (self._stops is None):
            callback = _api.ggml_abort_callback() if stops is None else self._abort_callback
            _api.llama_set_abort_callback(self._ctx, callback, None)
        self._stops = stops

    def _is_asked_to_stop(self, _: int | None) -> bool:
        return self._stops is not None and self._stops()

    def _decode(self, batch: TokenBatch, done: Mapping[Sequence, int], adapter: int) -> None:
        with self.adapters.lock:
            self.adapters.choose(adapter)
            status = llama_cpp.llama_decode(self._ctx, batch.native)
        if status in (_NO_ROOM, _ABORTED):
            for sequence in done:
                self.trim(sequence.slot, sequence.num_computed)
            raise KVCacheFull if status == _NO_ROOM else StepStopped
        if status:
            raise RuntimeError(f"llama_decode failed with {status}: {self._log.last_error}")

    def _read_logits(self, sampling: list[ScheduledChunk]) -> NDArray[np.float32]:
        """Return the logits of the rows that chunks sample from, which the next decode replaces.

        Rows come in batch order of the tokens that asked for logits; reading them synchronises.
        """
        outputs = sum(chunk.num_rows for chunk in sampling)
        if not outputs:
            llama_cpp.llama_synchronize(self._ctx)
            return np.empty((0, 0), np.float32)
        shape = (outputs, self.tokenizer.vocab_size)
        return np.ctypeslib.as_array(llama_cpp.llama_get_logits(self._ctx), shape)

    def _compute_pictures(self, batch: Batch) -> dict[Sequence, int]:
        """Compute each chunk up to the last picture in it; return how many tokens that were."""
        done: dict[Sequence, int] = {}
        for chunk in batch.chunks:
            sequence = chunk.sequence
            if not sequence.pictures:
                if self._spans:  # it may have the slot of one that was cancelled before a picture
                    self._spans.pop(sequence.slot, None)
                continue
            begin = sequence.num_computed
            if any(picture.axes is not None for picture in sequence.pictures):
                self._spans[sequence.slot] = sequence.pictures
            runs = text_runs(sequence.pictures, begin, begin + chunk.count)
            while runs and runs[-1][2] is None:
                runs.pop()
            for start, end, picture in runs:
                self._compute_run(sequence, start, end, picture, done)
                done[sequence] = end - begin
        return done

    def _compute_run(
        self,
        sequence: Sequence,
        start: int,
        end: int,
        picture: PictureSpan | None,
        done: Mapping[Sequence, int],
    ) -> None:
        assert self._runs is not None, "there are pictures only with a projector"
        self._runs.fill_run(sequence, start, end, picture)
        whole = picture is not None and picture.whole
        if whole:
            llama_cpp.llama_set_causal_attn(self._ctx, False)
        try:
            self._decode(self._runs, done, sequence.adapter)
        finally:
            if whole:
                llama_cpp.llama_set_causal_attn(self._ctx, True)

    def collect(self) -> list[Sampled]:
        """Return the sampled tokens of the launched batch's sampling chunks, in batch order."""
        if self._logits is not None:
            found = zip(self._sampling, self._logits, strict=True)
            return [self._sampler.sample(chunk, logits) for chunk, logits in found]
        logits = self._read_logits(self._sampling)
        return [
            self._sampler.sample(chunk, logits[rows.start : rows.stop], position)
            for (rows, chunk), position in zip(
                sampling_rows(self._sampling), self._rows, strict=True
            )
        ]

    def can_follow(self, params: SamplingParams) -> bool:
        """Return False: the sampler processes each token on the host."""
        return False

    def is_eog(self, token_id: int) -> bool:
        """Return whether the token ends generation."""
        return self.tokenizer.is_eog(token_id)

    def fork(self, source: int, target: int, length: int, checkpoint: bytes | None = None) -> None:
        """Share cells between slots: metadata only; just a checkpoint is copied."""
        end = self._position(source, length)
        llama_cpp.llama_memory_seq_cp(self._memory, source, target, 0, end)
        if spans := self._spans.get(source):
            self._spans[target] = tuple(span for span in spans if span.end <= length)
        if checkpoint is not None and not self._write_state(target, checkpoint, _PARTIAL_ONLY):
            raise RuntimeError("llama.cpp did not restore the state it returned")

    def checkpoint(self, slot: int) -> bytes:
        """Return the state of the slot's recurrent layers."""
        return self._read_state(slot, _PARTIAL_ONLY)

    def trim(self, slot: int, length: int) -> None:
        """Remove the keys and values of the slot after its first `length` tokens."""
        llama_cpp.llama_memory_seq_rm(self._memory, slot, self._position(slot, length), -1)

    def snapshot(self, slot: int, start: int, end: int) -> bytes:
        """Return a copy of the keys and values of the slot's tokens `start` to `end`."""
        # llama.cpp serialises whole sequences only; sharing cells with a reserved one is free.
        scratch = self.cache_slots
        llama_cpp.llama_memory_seq_cp(self._memory, slot, scratch, start, end)
        data = self._read_state(scratch, _ALL)
        self.release(scratch)
        return data

    def restore(self, slot: int, start: int, end: int, data: bytes | memoryview) -> bool:
        """Append a snapshot's first tokens to the slot; return False if it does not fit."""
        scratch = self.cache_slots
        fits = self._write_state(scratch, data, _ALL)
        if fits:
            llama_cpp.llama_memory_seq_cp(self._memory, scratch, slot, start, end)
        self.release(scratch)
        return fits

    def release(self, slot: int) -> None:
        """Empty the slot; cells shared with other slots stay."""
        self._spans.pop(slot, None)
        llama_cpp.llama_memory_seq_rm(self._memory, slot, -1, -1)

    def adapter_number(self, folder: Path) -> int:
        """See `ModelRunner`."""
        return self.adapters.number_of(folder)

    def drop_adapter(self, folder: Path) -> None:
        """See `ModelRunner`."""
        self.adapters.drop(folder)

    def prepare(self, params: SamplingParams) -> None:
        """Create slow samplers before the sequence arrives."""
        self._sampler.prepare(params)

    def prepare_step(self) -> bool:
        """Return False: no step is recorded."""
        return False

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
        """Free everything in the order llama.cpp demands: samplers first."""
        self._sampler.close()
        if self.pictures is not None:
            self.pictures.close()
        super().close()

    def _position(self, slot: int, length: int) -> int:
        """Return the position of the token that would follow the first `length` of a slot."""
        spans = self._spans.get(slot)
        return first_position(spans, length) if spans else length

    def _open_projector(self, spec: LoadSpec, projector: Path) -> None:
        self.pictures = LlamaPictureEncoder(
            projector,
            self.model,
            gpu=spec.gpu_layers != 0,
            threads=self._threads.threads,
            most_tokens=spec.batch,
        )
        self._runs = PictureBatch(spec.batch)
        stat = projector.stat()
        # Embeddings are no tokens: with another projector, the same picture has other keys.
        self._layout += f" projector {stat.st_size} {stat.st_mtime_ns}"

    def _read_state(self, slot: int, flags: int) -> bytes:
        size: int = _api.llama_state_seq_get_size_ext(self._ctx, slot, flags)
        data = (ctypes.c_uint8 * size)()
        size = _api.llama_state_seq_get_data_ext(self._ctx, data, size, slot, flags)
        return bytes(memoryview(data)[:size])

    def _write_state(self, slot: int, data: bytes | memoryview, flags: int) -> bool:
        array = np.frombuffer(data, np.uint8)
        source = cast("Any", array.ctypes).data_as(ctypes.POINTER(ctypes.c_uint8))
        return bool(_api.llama_state_seq_set_data_ext(self._ctx, source, len(array), slot, flags))

    def _configure(self, spec: LoadSpec, params: llama_cpp.llama_context_params) -> None:
        # Each slot of a recurrent model has a state in memory; tokens in cells do not.
        kept = KEPT_STATES if self.model.is_recurrent else KEPT_SLOTS
        most = llama_cpp.llama_max_parallel_sequences()
        self.slots = min(spec.slots, most - 2)
        self.cache_slots = min(self.slots + kept, most - 1)
        self.max_drafts = 0 if self.model.is_recurrent else _MAX_DRAFTS
        params.n_ctx = max(spec.kv_capacity, spec.context)
        params.n_batch = params.n_ubatch = spec.batch
        params.n_seq_max = self.cache_slots + 1  # and one for taking snapshots
        # Otherwise a logits buffer for the whole batch is allocated, which for a large vocabulary
        # exceeds the weights of a small model.
        params.n_outputs_max = max(params.n_seq_max, self.slots + self.max_drafts)
        params.type_k = params.type_v = spec.kv_type.ggml_type
        # A recycled window would take the cells of prefixes that others still share, and decoding
        # from such a prefix gives wrong logits without an error.
        params.swa_full = True

    def _compute_one_token(self) -> None:
        sequence = Sequence("warm-up", 0, [0], sampling=SamplingParams(temperature=0))
        sequence.slot = 0
        batch = Batch()
        batch.add(sequence, 1)
        self.launch(batch)
        self.collect()
        llama_cpp.llama_memory_clear(self._memory, True)
