"""Embedding and reranking models over llama-cpp-python's low-level API."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from ingle.models.model_task import ENCODERS, ModelTask, Pooling

from ..base.errors import LoadFailed, OutOfMemory
from ..base.load_spec import LoadSpec
from ..base.model_info import ModelInfo
from ..hardware.cpu_inventory import read_inventory
from ..hardware.thread_plan import plan_threads
from ..text.tokenization.embedding_inputs import EmbeddingInputs
from ..text.tokenization.rerank_pairs import TextPairs
from .llama_model import LlamaModel
from .llama_tokenizer import LlamaTokenizer
from .model_runner import FLASH_ATTENTION
from .native_log import NativeLog
from .token_batch import TextBatch, TextSpan

_POOLING = {
    Pooling.MEAN: llama_cpp.LLAMA_POOLING_TYPE_MEAN,
    Pooling.CLS: llama_cpp.LLAMA_POOLING_TYPE_CLS,
    Pooling.LAST: llama_cpp.LLAMA_POOLING_TYPE_LAST,
    Pooling.RANK: llama_cpp.LLAMA_POOLING_TYPE_RANK,
}
_DEFAULT_POOLING = {ModelTask.EMBED: Pooling.MEAN, ModelTask.RERANK: Pooling.RANK}


class LlamaEmbedder:
    """One llama.cpp context that encodes texts in batches; used from one thread.

    An encoder attends to a batch as a whole, so its longest text is its longest batch. With a
    causal model pooled at the last token, the others are computed without outputs first: llama.cpp
    would otherwise compute unused logits for every token.
    """

    def __init__(self, spec: LoadSpec, on_progress: Callable[[float], None] | None = None) -> None:
        """Load `spec.path`; raises `LoadFailed` or `OutOfMemory`, and then holds nothing."""
        with ExitStack() as undo:
            self._log = NativeLog()
            undo.callback(self._log.close)
            self.model = LlamaModel(
                Path(spec.path),
                gpu_layers=spec.gpu_layers,
                mmap=spec.mmap,
                mlock=spec.mlock,
                on_progress=on_progress,
                log=self._log,
            )
            undo.callback(self.model.close)
            self.task = spec.task
            self.tokenizer = LlamaTokenizer(self.model)
            self.context = spec.context
            self.batch_tokens = spec.batch
            self.batch_texts = min(spec.slots, llama_cpp.llama_max_parallel_sequences())
            self._pooling = spec.pooling or _DEFAULT_POOLING[spec.task]
            self._threads = plan_threads(read_inventory(), spec.threads)
            self._capacity = max(spec.context, spec.batch)
            self._ctx = self._make_context(spec)
            undo.callback(llama_cpp.llama_free, self._ctx)
            self._memory = llama_cpp.llama_get_memory(self._ctx)
            self._splits = self._memory is not None and self._last_token_speaks()
            self._batch = TextBatch(self._capacity)
            self.width = self._find_width()
            self._warm_up()
            self._resources = undo.pop_all()

    def text_inputs(self) -> EmbeddingInputs:
        """Return the tokenisation of a text to embed."""
        return EmbeddingInputs(self.tokenizer, context=self.context)

    def text_pairs(self) -> TextPairs:
        """Return the tokenisation of a query and document to rank."""
        template, marks = self.model.rerank_template, self.tokenizer.pair_marks
        return TextPairs(self.tokenizer, marks, template, context=self.context)

    def compute(self, texts: Sequence[list[int]]) -> NDArray[np.float32]:
        """Return one row of `width` numbers per text, not normalised.

        There may be `batch_texts` texts of `batch_tokens` tokens together, or one of `context`.
        """
        if self._splits:
            self._read_all_but_last(texts)
            last = [TextSpan(i, len(text) - 1, text[-1:]) for i, text in enumerate(texts)]
            self._run(last, outputs=True)
        else:
            self._run([TextSpan(i, 0, text) for i, text in enumerate(texts)], outputs=True)
        rows = [self._row(sequence) for sequence in range(len(texts))]
        if self._memory is not None:
            llama_cpp.llama_memory_clear(self._memory, False)
        return np.stack(rows)

    def info(self) -> ModelInfo:
        """Return the properties of the loaded model."""
        sizes, on_gpu = self._log.buffer_bytes, self._log.layers_on_gpu
        gpu = f"GPU, {on_gpu} of {self.model.layers + 1} layers"
        return ModelInfo(
            engine="llama.cpp",
            device=gpu if on_gpu else f"CPU, {self._threads}",
            architecture=self.model.architecture,
            parameters=self.model.parameters,
            vocab_size=self.tokenizer.vocab_size,
            trained_context=self.model.trained_context,
            context=self.context,
            slots=self.batch_texts,
            kv_capacity=0 if self._memory is None else llama_cpp.llama_n_ctx(self._ctx),
            has_chat_template=False,
            weights_bytes=sizes.get("model", 0),
            kv_bytes=sizes.get("kv", 0) + sizes.get("rs", 0),
            compute_bytes=sizes.get("compute", 0) + sizes.get("output", 0),
            layers=self.model.layers,
            layers_on_gpu=on_gpu,
            task=self.task,
            dimensions=self.width if self.task is ModelTask.EMBED else 0,
        )

    def close(self) -> None:
        """Free everything in the order llama.cpp demands."""
        self._resources.close()

    def _make_context(self, spec: LoadSpec) -> llama_cpp.llama_context_p:
        params = llama_cpp.llama_context_default_params()
        params.embeddings = True
        params.pooling_type = _POOLING[self._pooling]
        params.n_ctx = params.n_batch = params.n_ubatch = self._capacity
        if self._last_token_speaks():
            params.n_batch = params.n_ubatch = self.batch_tokens
        params.n_seq_max = self.batch_texts
        params.n_threads = params.n_threads_batch = self._threads.threads
        params.kv_unified = True
        params.flash_attn_type = FLASH_ATTENTION[spec.flash_attention]
        params.no_perf = True
        assert self.model.handle is not None
        context = llama_cpp.llama_init_from_model(self.model.handle, params)
        if context:
            return context
        failure = OutOfMemory if self._log.is_out_of_memory else LoadFailed
        raise failure(
            f"llama.cpp cannot make room for texts of {self.context} tokens: "
            f"{self._log.last_error}.",
            hint="Load the model with a smaller context, or unload another model.",
        )

    def _last_token_speaks(self) -> bool:
        architecture = self.model.architecture
        if architecture in ENCODERS or self._pooling not in (Pooling.LAST, Pooling.RANK):
            return False
        return self.model.metadata(f"{architecture}.attention.causal") != "false"

    def _find_width(self) -> int:
        assert self.model.handle is not None
        if self._pooling is Pooling.RANK:
            return llama_cpp.llama_model_n_cls_out(self.model.handle)
        return llama_cpp.llama_model_n_embd_out(self.model.handle)

    def _read_all_but_last(self, texts: Sequence[list[int]]) -> None:
        llama_cpp.llama_set_embeddings(self._ctx, False)
        for pieces in _in_batches(texts, self.batch_tokens):
            self._run(pieces, outputs=False)
        llama_cpp.llama_set_embeddings(self._ctx, True)

    def _run(self, pieces: Sequence[TextSpan], *, outputs: bool) -> None:
        self._batch.fill_spans(pieces, outputs=outputs)
        run = llama_cpp.llama_encode if self._memory is None else llama_cpp.llama_decode
        status = run(self._ctx, self._batch.native)
        if status:
            raise RuntimeError(f"llama.cpp failed with {status}: {self._log.last_error}")

    def _row(self, sequence: int) -> NDArray[np.float32]:
        pointer = llama_cpp.llama_get_embeddings_seq(self._ctx, sequence)
        if not pointer:
            raise RuntimeError(f"llama.cpp gave no vector for text {sequence} of the batch")
        # The buffer is llama.cpp's, which overwrites it in the next batch.
        return np.ctypeslib.as_array(cast("Any", pointer), (self.width,)).copy()

    def _warm_up(self) -> None:
        """Compute one token, so that the first request does not pay for page faults on the
        weights.
        """
        try:
            self.compute([[0]])
        except RuntimeError as error:
            raise LoadFailed(
                f"The model loads but cannot compute: {error}.",
                hint="Pull the model again, or choose another file.",
            ) from error


def _in_batches(texts: Sequence[list[int]], size: int) -> Iterator[list[TextSpan]]:
    """Yield all tokens but the last of each text, in batches of at most `size` tokens."""
    pieces: list[TextSpan] = []
    room = size
    for sequence, text in enumerate(texts):
        position = 0
        while position < len(text) - 1:
            count = min(room, len(text) - 1 - position)
            pieces.append(TextSpan(sequence, position, text[position : position + count]))
            position += count
            room -= count
            if not room:
                yield pieces
                pieces, room = [], size
    if pieces:
        yield pieces
