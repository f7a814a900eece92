"""Embedding and reranking models through llama.cpp, against llama-cpp-python's own `Llama`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import gguf
import llama_cpp
import numpy as np
import pytest
from numpy.typing import NDArray

from ingle.backends.base.errors import InputTooLong
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.llama_cpp.embedder import LlamaEmbedder
from ingle.backends.worker.embedding_loop import normalized, scores
from ingle.models.model_task import ModelTask, Pooling

MakeBert = Callable[..., Path]
Vectors = NDArray[np.float32]

TEXTS = [
    "cat",
    "kitten",
    "physics",
    "The quick brown fox jumps over the lazy dog.",
    "naïve café, 東京 🙂 [SEP] [CLS]",
    "x " * 300,
]


def make_embedder(path: Path, **fields: Any) -> LlamaEmbedder:
    spec = {"context": 512, "slots": 64, "task": ModelTask.EMBED} | fields
    return LlamaEmbedder(LoadSpec(engine="llama.cpp", path=str(path), **spec))  # pyright: ignore[reportArgumentType]


def tokens_of(embedder: LlamaEmbedder, *texts: str) -> list[list[int]]:
    inputs = embedder.text_inputs()
    return [inputs.build(text, 0, truncate=False) for text in texts]


def one_by_one(embedder: LlamaEmbedder, *texts: str) -> Vectors:
    rows = [embedder.compute([tokens]) for tokens in tokens_of(embedder, *texts)]
    return normalized(np.concatenate(rows))


def reference_vectors(path: Path, *texts: str, **options: Any) -> Vectors:
    model = llama_cpp.Llama(str(path), embedding=True, verbose=False, flash_attn=True, **options)
    try:
        rows = [cast("list[float]", model.embed(text, normalize=True)) for text in texts]
    finally:
        model.close()
    return np.array(rows, np.float32)


@pytest.fixture(scope="module")
def minilm(minilm_path: Path) -> Iterator[LlamaEmbedder]:
    embedder = make_embedder(minilm_path)
    yield embedder
    embedder.close()


@pytest.mark.model
def test_vectors_equal_the_reference(minilm: LlamaEmbedder, minilm_path: Path) -> None:
    expected = reference_vectors(minilm_path, *TEXTS, n_ctx=512, n_batch=512, n_ubatch=512)
    assert np.abs(one_by_one(minilm, *TEXTS) - expected).max() < 1e-5


@pytest.mark.model
def test_similar_texts_have_similar_vectors(minilm: LlamaEmbedder) -> None:
    cat, kitten, physics, pet, mechanics = one_by_one(
        minilm,
        "cat",
        "kitten",
        "physics",
        "My cat sleeps on the sofa.",
        "Quantum mechanics describes atoms.",
    )
    assert cat @ kitten == pytest.approx(0.779, abs=0.01)
    assert cat @ physics == pytest.approx(0.320, abs=0.01)
    assert pet @ mechanics < 0.1


@pytest.mark.model
def test_vector_of_a_text_does_not_depend_on_the_batch(minilm: LlamaEmbedder) -> None:
    """Flash attention rounds differently in another layout; this file's three bits amplify it."""
    alone = one_by_one(minilm, *TEXTS)
    together = normalized(minilm.compute(tokens_of(minilm, *TEXTS)))
    turned = normalized(minilm.compute(tokens_of(minilm, *reversed(TEXTS))))[::-1]
    assert (alone * together).sum(axis=1).min() > 0.999
    assert (alone * turned).sum(axis=1).min() > 0.999
    near = np.abs(alone @ alone.T - np.eye(len(TEXTS))).max()
    assert near < 0.9  # so that swapped texts would fail


@pytest.mark.model
def test_longest_text_and_largest_batch(minilm: LlamaEmbedder) -> None:
    longest = minilm.text_inputs().build("word " * 2000, 0, truncate=True)
    assert len(longest) == minilm.context == 512
    assert longest[0] == 101
    assert longest[-1] == 102
    assert minilm.compute([longest]).shape == (1, 384)
    many = tokens_of(minilm, *["cat"] * minilm.batch_texts)
    assert np.ptp(minilm.compute(many), axis=0).max() < 1e-5


@pytest.mark.model
def test_info_reports_the_embedding_model(minilm: LlamaEmbedder) -> None:
    info = minilm.info()
    assert (info.task, info.dimensions, info.context) == (ModelTask.EMBED, 384, 512)
    assert info.kv_bytes == info.kv_capacity == 0


@pytest.mark.model
@pytest.mark.slow
def test_nomic_equals_the_reference(nomic_path: Path) -> None:
    texts = ["search_query: " + text for text in TEXTS[:5]]
    embedder = make_embedder(nomic_path, context=2048)
    try:
        ours = one_by_one(embedder, *texts)
        together = normalized(embedder.compute(tokens_of(embedder, *texts)))
    finally:
        embedder.close()
    assert (ours * together).sum(axis=1).min() > 0.99999
    expected = reference_vectors(nomic_path, *texts, n_ctx=2048, n_batch=2048, n_ubatch=2048)
    assert np.abs(ours - expected).max() < 1e-5
    assert ours[0] @ ours[1] > ours[0] @ ours[2]


@pytest.mark.slow
@pytest.mark.model
def test_causal_model_uses_last_token_pooling(smollm2_path: Path) -> None:
    """Checks that all tokens count, not only the last; the model was not trained for embeddings.

    Chunked prefill changes a quantised model's numbers a little, so vectors are near, not equal.
    """
    texts = [*TEXTS[:4], "x " * 700, "y " * 700]
    embedder = make_embedder(smollm2_path, context=2048, pooling=Pooling.LAST)
    try:
        alone = one_by_one(embedder, *texts)
        together = normalized(embedder.compute(tokens_of(embedder, *texts[:4], texts[0])))
    finally:
        embedder.close()
    expected = reference_vectors(
        smollm2_path, *texts, n_ctx=2048, n_batch=2048, n_ubatch=2048, pooling_type=3
    )
    own = (alone * expected).sum(axis=1)
    others = [alone[i] @ expected[j] for i, j in itertools.permutations(range(len(texts)), 2)]
    assert own.min() > 0.99
    assert own.min() > max(others)
    assert (together[:4] * alone[:4]).sum(axis=1).min() > 0.99
    assert together[4] @ together[0] > 0.99


@pytest.mark.parametrize("pooling", [Pooling.MEAN, Pooling.CLS, Pooling.LAST])
def test_pooling_option(make_bert: MakeBert, pooling: Pooling) -> None:
    path = make_bert()
    embedder = make_embedder(path, context=64, pooling=pooling)
    try:
        ours = one_by_one(embedder, "cat dog sea", "dog")
    finally:
        embedder.close()
    number = {Pooling.MEAN: 1, Pooling.CLS: 2, Pooling.LAST: 3}[pooling]
    expected = reference_vectors(path, "cat dog sea", "dog", n_ctx=64, pooling_type=number)
    assert np.abs(ours - expected).max() < 1e-5


def test_reranking_with_random_weights(make_bert: MakeBert) -> None:
    """No real reranking model can be fetched: order and range are tested, not the quality."""
    embedder = make_embedder(make_bert(ranks=True), context=64, task=ModelTask.RERANK)
    try:
        pairs = embedder.text_pairs()
        documents = ["cat", "dog", "physics sea", "a b c"]
        texts = [pairs.build("kitten", text, "It", truncate=False) for text in documents]
        assert texts[0] == [2, 6, 3, 5, 3]  # [CLS] kitten [SEP] cat [SEP]
        together = scores(embedder.compute(texts))
        alone = np.concatenate([scores(embedder.compute([text])) for text in texts])
        assert embedder.info().dimensions == 0
    finally:
        embedder.close()
    assert together.shape == (4,)
    assert np.abs(together - alone).max() < 1e-5
    assert ((together > 0) & (together < 1)).all()
    assert len(set(together.tolist())) == 4


def test_tokens_of_the_document_have_the_second_type(make_bert: MakeBert) -> None:
    """Against the same network in numpy: llama.cpp alone gives both texts the first type."""
    path = make_bert(ranks=True)
    tensors = {each.name: each.data for each in gguf.GGUFReader(path).tensors}
    embedder = make_embedder(path, context=64, task=ModelTask.RERANK)
    try:
        pairs = embedder.text_pairs()
        texts = [pairs.build("kitten cat", text, "It", truncate=False) for text in ("dog", "sea a")]
        found = embedder.compute(texts)[:, 0]
    finally:
        embedder.close()
    for text, score in zip(texts, found, strict=True):
        second = np.arange(len(text)) > text.index(3)
        assert score == pytest.approx(bert_logit(tensors, text, second), abs=2e-3)
        assert score != pytest.approx(bert_logit(tensors, text, 0 * second), abs=2e-2)


def bert_logit(tensors: dict[str, Vectors], tokens: list[int], types: NDArray[Any]) -> float:
    """The classifier's output of a BERT of one layer with two heads."""

    def linear(name: str, x: Vectors) -> Vectors:
        return x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]

    def normed(name: str, x: Vectors) -> Vectors:
        x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
        return x * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]

    x = tensors["token_embd.weight"][tokens] + tensors["position_embd.weight"][: len(tokens)]
    x = normed("token_embd_norm", x + tensors["token_types.weight"][types.astype(int)])
    q, k, v = (
        linear(f"blk.0.attn_{name}", x).reshape(len(x), 2, -1).transpose(1, 0, 2) for name in "qkv"
    )
    weights = np.exp(q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[2]))
    heads = weights / weights.sum(2, keepdims=True) @ v
    mixed = linear("blk.0.attn_output", heads.transpose(1, 0, 2).reshape(len(x), -1))
    x = normed("blk.0.attn_output_norm", x + mixed)
    up = linear("blk.0.ffn_up", x)
    gelu = up / 2 * (1 + np.vectorize(math.erf)(up / math.sqrt(2)))
    x = normed("blk.0.layer_output_norm", x + linear("blk.0.ffn_down", gelu))
    return float(linear("cls.output", np.tanh(linear("cls", x[:1])))[0, 0])


def test_too_long_pair_is_rejected(make_bert: MakeBert) -> None:
    embedder = make_embedder(make_bert(ranks=True), context=64, task=ModelTask.RERANK)
    try:
        pairs = embedder.text_pairs()
        with pytest.raises(InputTooLong, match="It is 104 tokens long, 40 too many"):
            pairs.build("kitten", "cat " * 100, "It", truncate=False)
        cut = pairs.build("kitten", "cat " * 100, "It", truncate=True)
        assert len(cut) == 64
        assert cut[-1] == 3
        with pytest.raises(InputTooLong):
            pairs.build("kitten " * 100, "cat", "It", truncate=True)
    finally:
        embedder.close()
