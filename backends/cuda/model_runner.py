"""The `PagedRunner` of our own engine: a transformer over the pages of a KV pool."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as Numbers
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import ClassVar

import torch

from ingle.kernels.errors import KernelError
from ingle.kernels.kernel_operations import KernelOperations
from ingle.kernels.kv_cache.kv_pages import KeyBias
from ingle.kernels.self_check import CHECKED_PAGES, CheckedLayer, HeadShape
from ingle.kernels.token_sampling import MAX_VOCAB
from ingle.models.errors import ModelError
from ingle.models.fit.paged_fit import MAX_DRAFTS, PAGE_SIZE, RECORDING_BYTES, check_paged_kv_type

from ..base.errors import EngineFault, LoadFailed, OutOfMemory
from ..base.load_spec import LoadSpec
from ..base.model_info import ModelInfo
from ..base.sampling_params import SamplingParams
from ..engine.batch import Batch, Sampled
from ..engine.kv.paged_cache import PagedCache
from ..engine.kv_store.kv_store import KVStore
from ..engine.sequence import Sequence
from ..hardware.cpu_inventory import read_inventory
from ..hardware.thread_plan import plan_threads
from ..text.prompts.picture_prompt import PictureEncoder
from .compute_backend import ComputeBackend, load_warnings, open_compute_backend
from .device import choose_device
from .graphs.step_draw import StepDraw
from .graphs.step_graphs import StepGraphs
from .graphs.step_inputs import StepInputs
from .graphs.step_launcher import StepLauncher
from .graphs.step_shape import StepShapes, rounded_up
from .graphs.trial_batch import trial_batch
from .heads.runner_head import RunnerHead
from .kv_pool import KVPool, PagedContext
from .loaded_adapters import LoadedAdapters
from .model_files import ModelSource, open_source
from .page_budget import PageBudget
from .sampling.batch_sampler import BatchSampler, PendingSamples

_GRAPH_TOKENS = 64
"""Larger steps take long enough for their launches to be ready in time."""
_COMPILING = 0.05
"""Share of the reported progress that the kernels of a GPU have; they may take a minute."""
_LAYOUT = "ingle pages 1"
"""Changes whenever stored keys and values become incompatible."""


class CudaModelRunner:
    """One model on one device; used from one thread.

    A step is one forward pass and one sampling pass, both started by `launch`; only `collect` waits
    for the device, where all is on one stream. On a CPU `launch` itself computes.
    """

    block_size = PAGE_SIZE
    pictures: PictureEncoder | None = None
    max_drafts = MAX_DRAFTS
    can_fork = True
    records_draws: ClassVar[bool] = True
    """Unset to send inputs and to draw beside the recordings of steps: what do they save?"""

    def __init__(
        self,
        spec: LoadSpec,
        on_progress: Callable[[float], None] | None = None,
        backend: ComputeBackend | None = None,
        source: ModelSource | None = None,
    ) -> None:
        """Load `spec.path`; raises `LoadFailed` or `OutOfMemory`, and then holds nothing.

        `on_progress` is called with the fraction of what is read or compiled, and with 1 after each
        of the first steps on the device. `backend` replaces the best one of the device, `source`
        the model's files.
        """
        self._spec = spec
        self._report: Callable[[float], None] = on_progress or (lambda _: None)
        with ExitStack() as undo:
            threads = plan_threads(read_inventory(), spec.threads)
            if threads.cpus is not None and sys.platform == "linux":
                undo.callback(os.sched_setaffinity, 0, os.sched_getaffinity(0))
                os.sched_setaffinity(0, threads.cpus)
            torch.set_num_threads(threads.threads)
            self._where = choose_device(spec, str(threads))
            try:
                self._load(source or open_source(Path(spec.path)), backend)
                self._make_room()
            except ModelError as error:
                raise LoadFailed(error.message, hint=error.hint) from error
            except KernelError as error:
                raise EngineFault(error.message, hint=error.hint) from error
            except torch.AcceleratorError as error:
                # Nothing works on the GPU any more in this process.
                raise EngineFault(
                    f"{self._where.name} failed while the model was loaded: {error}",
                    hint="Let llama.cpp run the model, and report this with the name of your GPU.",
                ) from error
            except (torch.OutOfMemoryError, MemoryError) as error:
                raise OutOfMemory(
                    f"{Path(spec.path).name} does not fit into the memory of {self._where.name}.",
                    hint="Load it with a smaller context, or unload another model.",
                ) from error
            self._resources = undo.pop_all()

    @property
    def state_key(self) -> str:
        """The layout of pages, what is in them, and how exactly it was computed."""
        where, operations = self._where, self._backend.operations
        by = "kernels" if operations.reads_blocks else "torch"
        by += ", products in FP8" if operations.rounds_to_fp8 else ""
        computed = f"{where.dtype} on {where.device.type} by {by}, quantize {self._spec.quantize}"
        return f"{_LAYOUT}, {self._spec.kv_type}, {computed}{self.head.state_key}"

    def open_cache(self, store: KVStore | None = None) -> PagedCache:
        """The cache manager of the pages; in-flight batches belong to none any more."""
        self._launched.clear()
        self.head.cache = cache = PagedCache(self, store)
        return cache

    @torch.inference_mode()
    def launch(self, batch: Batch) -> None:
        """Start computing the batch and sampling from it; raises `KVCacheFull` without pages."""
        self._logits, samples = self._steps.launch(batch)
        self._launched.append(self._where.mark() if samples is None else samples)

    @torch.inference_mode()
    def compute(self, batch: Batch) -> torch.Tensor:
        """Logits (rows, vocabulary) fp32 of all positions that sample, drafts included."""
        return self._steps.compute(batch)

    def _forward(self) -> torch.Tensor:
        """Logits for what the inputs hold."""
        step = self._inputs
        return self._model.forward(step.token_ids, step.positions, self._context, step.output_rows)

    @torch.inference_mode()
    def collect(self) -> list[Sampled]:
        """See `ModelRunner`."""
        launched = self._launched.popleft()
        if isinstance(launched, PendingSamples):
            return self._sampler.finish(launched)
        if launched is not None:
            launched.synchronize()
        return []

    def can_follow(self, params: SamplingParams) -> bool:
        """See `ModelRunner`."""
        return self._sampler.can_follow(params)

    def is_eog(self, token_id: int) -> bool:
        """See `ModelRunner`."""
        return self.tokenizer.is_eog(token_id)

    @torch.inference_mode()
    def copy_page(self, source: int, target: int, count: int) -> None:
        """See `PagedRunner`."""
        self._pool.copy_page(source, target, count)

    @torch.inference_mode()
    def read_pages(self, pages: Numbers[int], count: int) -> bytes:
        """See `PagedRunner`."""
        return self._pool.read(pages, count)

    @torch.inference_mode()
    def write_pages(self, pages: Numbers[int], count: int, data: bytes | memoryview) -> bool:
        """See `PagedRunner`."""
        return self._pool.write(pages, count, data)

    @torch.inference_mode()
    def adapter_number(self, folder: Path) -> int:
        """See `ModelRunner`."""
        return self.adapters.number_of(folder)

    def drop_adapter(self, folder: Path) -> None:
        """See `ModelRunner`."""
        self.adapters.drop(folder)

    def prepare(self, params: SamplingParams) -> None:
        """See `ModelRunner`."""
        self._sampler.prepare(params)

    @torch.inference_mode()
    def prepare_step(self) -> bool:
        """See `ModelRunner`."""
        return self._steps.graphs is not None and self._steps.graphs.record_next()

    def forget(self, sequence: Sequence) -> None:
        """Free the sequence's sampling state."""
        self._sampler.forget(sequence)

    def info(self) -> ModelInfo:
        """See `LocalRunner`."""
        config, where, spec = self._config, self._where, self._spec
        return ModelInfo(
            engine="cuda",
            device=where.name,
            architecture=config.architecture,
            parameters=self._parameters,
            vocab_size=self.tokenizer.vocab_size,
            trained_context=config.context,
            context=self.context,
            slots=self.slots,
            kv_capacity=self.kv_capacity,
            has_chat_template=self.tokenizer.chat_template is not None,
            weights_bytes=self._weights_bytes + self.head.nbytes,
            kv_bytes=self._pool.nbytes,
            compute_bytes=self._workspace,
            layers=config.num_layers,
            layers_on_gpu=config.num_layers if where.is_gpu else 0,
            kv_type=spec.kv_type,
            flash_attention=config.attention_soft_cap is None,
            warnings=load_warnings(spec, where, self._backend, config.num_layers),
        )

    def close(self) -> None:
        """Free weights, pages and buffers."""
        del self._model, self._pool, self._context, self._inputs, self._sampler, self._logits
        del self._key_biases, self._steps, self._backend, self.head
        self._launched.clear()
        if self._where.is_gpu:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        self._resources.close()

    def _load(self, source: ModelSource, backend: ComputeBackend | None) -> None:
        """The model's weights to the device."""
        files, self.tokenizer = source.files, source.tokenizer
        check_paged_kv_type(Path(self._spec.path).name, files.config, self._spec.kv_type)
        self._config, self._parameters = files.config, files.parameters
        report = self._report
        before = _COMPILING if self._where.is_gpu else 0.0
        self._backend = backend or open_compute_backend(
            self._where, files.config, self._spec, lambda part: report(part * before)
        )
        device, own = self._where.device, self._backend.operations
        self._model = files.load(
            device,
            own,
            lambda part: report(before + part * (1 - before)),
            quantize=self._spec.quantize,
        )
        self._weights_bytes = self._model.weights_bytes
        config, adapted = files.config, self._model.adapted
        part, stage = files.part, files.stage
        self.adapters = LoadedAdapters(
            config, adapted, own.adapters, device=device, dtype=own.dtype, part=part, stage=stage
        )
        loads_head = partial(files.load_head, self._spec, self._model, device, own)
        self.head = RunnerHead(loads_head, own, device)

    def drop_head(self) -> None:
        """Free the head that drafts, and the cache, to be opened anew."""
        self.head.drop()
        del self._pool, self._context
        self._make_room()

    def _before_step(self, batch: Batch) -> bool:
        """Prepare for a batch; returns whether any row has an adapter."""
        self.head.lay_out(batch)
        return self.adapters.choose(batch)

    def _make_room(self) -> None:
        """Inputs, sampler, and pages: as many as the largest step leaves room for."""
        spec, where = self._spec, self._where
        self.context = min(spec.context, self._config.context)
        self.slots, self.max_batch_tokens = spec.slots, spec.batch
        self._launched: deque[PendingSamples | torch.cuda.Event | None] = deque()
        """Launched steps: their samples, or else an event that marks their end on a GPU."""
        self.can_run_ahead = where.is_gpu
        tokens, sequences = max(spec.batch, self._graph_tokens), rounded_up(self.slots)
        self._inputs = StepInputs(
            tokens=tokens,
            sequences=sequences,
            max_pages=-(-self.context // PAGE_SIZE),
            device=where.device,
        )
        self._sampler = BatchSampler(
            self.tokenizer, where.device, room=self.context, kernels=self._backend.library
        )
        self._steps = StepLauncher(self._inputs, self._forward, self._sampler, self._before_step)
        sizes = {"tokens": tokens, "slots": self.slots, "sequences": sequences}
        self.head.make_room(self._inputs, **sizes, vocab_size=self.tokenizer.vocab_size)
        budget = PageBudget(where, context=self.context, slots=self.slots, ranks=self._model.ranks)
        pages = budget.wanted(spec.kv_capacity)
        self._workspace = 0
        self._key_biases = self._find_key_biases()
        if where.is_gpu:
            self._make_pool(budget.for_trial(spec.batch))
            page_bytes = self._pool.token_bytes * PAGE_SIZE
            self._workspace = budget.measure(lambda: self._try_out(spec.batch))
            del self._pool, self._context
            pages = budget.fitting(pages, page_bytes, self._workspace + self._recording_bytes)
        self._make_pool(pages)
        self.kv_capacity = pages * PAGE_SIZE
        self._check_kernels()
        self._try_out(1)
        self._make_graphs()

    @property
    def _graph_tokens(self) -> int:
        """Tokens of the largest step that is recorded."""
        return max(_GRAPH_TOKENS, rounded_up(self.slots))

    @property
    def _recording_bytes(self) -> int:
        """Memory of recordings: the driver's, and three times the logits of the largest step.

        They are computed before the recording and in it, and kept for the sampler.
        """
        width = self._logits.shape[1] * self._logits.element_size()
        if self._backend.record is None:
            return 0
        return 3 * self._graph_tokens * width + RECORDING_BYTES

    @torch.inference_mode()
    def _check_kernels(self) -> None:
        """Compare the kernels with plain torch on this device; raises `KernelError`."""
        operations, config = self._backend.operations, self._config
        if isinstance(operations, KernelOperations) and self.num_blocks >= CHECKED_PAGES:
            each = dict(zip(config.key_heads, config.key_layers, strict=True))
            layers = [
                CheckedLayer(
                    HeadShape(config.num_heads, heads.count, heads.size, heads.inner_values),
                    *self._pool.layer(layer),
                )
                for heads, layer in each.items()
            ]
            operations.check(layers, self.tokenizer.vocab_size, self._report_step)

    @torch.inference_mode()
    def _make_graphs(self) -> None:
        """Record decoding steps, if the device can; with their draw, if kernels can."""
        if self._backend.record is None:
            return
        library, size = self._backend.library, self.tokenizer.vocab_size
        if self.records_draws and library is not None and size <= MAX_VOCAB:
            self._steps.draw = StepDraw(self._inputs, library, self._where.device, vocab_size=size)
        shapes = StepShapes(
            max_tokens=self._graph_tokens,
            max_sequences=rounded_up(self.slots),
            max_query=1 + MAX_DRAFTS,
            max_context=self.context,
        )
        self._steps.graphs = StepGraphs(
            self._inputs,
            self._forward,
            self._backend.record,
            shapes,
            padding_slot=self._pool.padding_slot,
            room=RECORDING_BYTES,
            verifies=self._spec.speculation != "off",
            draw=self._steps.draw,
        )
        self._steps.graphs.record_first(self._report_step)

    def _find_key_biases(self) -> list[KeyBias | None]:
        """The biases that quantised pages leave out of keys, up to the end of the last page."""
        if self._spec.kv_type.page_format(self._config.head_size) is None:
            return []
        pages = -(-self.context // PAGE_SIZE)
        return self._model.key_biases(pages * PAGE_SIZE)

    def _make_pool(self, pages: int) -> None:
        config, own = self._config, self.head.kv_heads
        self.num_blocks = pages
        self.head.use(None)
        self._pool = KVPool(
            heads={**dict(zip(config.key_layers, config.key_heads, strict=True)), **own},
            num_blocks=pages,
            kv_type=self._spec.kv_type,
            device=self._where.device,
            key_biases=self._key_biases and [*self._key_biases, *(None for _ in own)],
        )
        self.head.use(self._pool)
        self._context = PagedContext(config, self._backend.operations, self._pool, self._inputs)

    def _try_out(self, tokens: int) -> None:
        """Run a step of so many tokens in which as many sequences as possible sample.

        Afterwards everything that the first request needs is loaded and compiled.
        """
        self.launch(batch := trial_batch(min(self.slots, tokens), tokens, self.context))
        self.collect()
        for chunk in batch.chunks:
            self._sampler.forget(chunk.sequence)
        self._report_step()

    def _report_step(self) -> None:
        self._report(1.0)  # it goes on, after a step whose duration no disk decides
