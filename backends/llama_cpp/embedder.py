"""Embedding and reranking models over llama-cpp-python's low-level API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import llama_cpp
import msgspec
import numpy as np
from numpy.typing import NDArray

from ingle.models.model_task import ENCODERS, ModelTask, Pooling

from ..base.load_spec import LoadSpec
from ..base.model_info import ModelInfo
from ..text.tokenization.encoder_inputs import EmbeddingInputs, TextPairs
from .llama_context import LlamaContext
from .segment_embeddings import SegmentEmbeddings, segment_embeddings
from .token_batch import TextBatch, TextSpan

_POOLING = {
    Pooling.MEAN: llama_cpp.LLAMA_POOLING_TYPE_MEAN,
    Pooling.CLS: llama_cpp.LLAMA_POOLING_TYPE_CLS,
    Pooling.LAST: llama_cpp.LLAMA_POOLING_TYPE_LAST,
    Pooling.RANK: llama_cpp.LLAMA_POOLING_TYPE_RANK,
}
_DEFAULT_POOLING = {ModelTask.EMBED: Pooling.MEAN, ModelTask.RERANK: Pooling.RANK}


class LlamaEmbedder(LlamaContext):
    """A llama.cpp context that encodes texts in batches; used from one thread.

    An encoder attends to a batch as a whole, so its longest text is its longest batch. With a
    causal model pooled at the last token, the others are computed without outputs first: llama.cpp
    would otherwise compute unused logits for every token.
    """

    def _measure(self, spec: LoadSpec) -> None:
        self.task = spec.task
        self.context = spec.context
        self.batch_tokens = spec.batch
        self._memory = llama_cpp.llama_get_memory(self._ctx)
        self._splits = self._memory is not None and self._pools_last_token()
        self._batch = TextBatch(max(spec.context, spec.batch))
        ranks = self._pooling is Pooling.RANK
        self._segments = self._segment_embeddings(Path(spec.path)) if ranks else None
        width = llama_cpp.llama_model_n_cls_out if ranks else llama_cpp.llama_model_n_embd_out
        self.width = width(self.model.handle)

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
            self._prefill_all_but_last(texts)
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
        kv_capacity = 0 if self._memory is None else llama_cpp.llama_n_ctx(self._ctx)
        return msgspec.structs.replace(
            self._describe(self.batch_texts, kv_capacity),
            task=self.task,
            dimensions=self.width if self.task is ModelTask.EMBED else 0,
        )

    def _configure(self, spec: LoadSpec, params: llama_cpp.llama_context_params) -> None:
        self._pooling = spec.pooling or _DEFAULT_POOLING[spec.task]
        self.batch_texts = min(spec.slots, llama_cpp.llama_max_parallel_sequences())
        params.embeddings = True
        params.pooling_type = _POOLING[self._pooling]
        params.n_ctx = params.n_batch = params.n_ubatch = max(spec.context, spec.batch)
        if self._pools_last_token():
            params.n_batch = params.n_ubatch = spec.batch
        params.n_seq_max = self.batch_texts

    def _pools_last_token(self) -> bool:
        """Return whether the vector is that of the last token of a causal model."""
        architecture = self.model.architecture
        if architecture in ENCODERS or self._pooling not in (Pooling.LAST, Pooling.RANK):
            return False
        return self.model.metadata(f"{architecture}.attention.causal") != "false"

    def _prefill_all_but_last(self, texts: Sequence[list[int]]) -> None:
        llama_cpp.llama_set_embeddings(self._ctx, False)
        for pieces in _in_batches(texts, self.batch_tokens):
            self._run(pieces, outputs=False)
        llama_cpp.llama_set_embeddings(self._ctx, True)

    def _segment_embeddings(self, path: Path) -> SegmentEmbeddings | None:
        between = self.tokenizer.pair_marks.between
        if self.model.architecture not in ENCODERS or len(between) != 1:
            return None
        return segment_embeddings(path, between[0])

    def _run(self, pieces: Sequence[TextSpan], *, outputs: bool) -> None:
        self._batch.fill_spans(pieces, outputs=outputs)
        if self._segments is not None:
            self._batch.embed(self._segments.rows([piece.tokens for piece in pieces]))
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

    def _compute_one_token(self) -> None:
        self.compute([[0]])


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
