"""A quantised KV cache hardly changes a real model's output distribution."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
import torch

from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.cuda.graphs.step_inputs import StepInputs
from ingle.backends.cuda.kv_pool import KVPool, PagedContext
from ingle.backends.cuda.model_files import open_model, open_tokenizer
from ingle.backends.engine.batch import Batch, ScheduledChunk
from ingle.backends.engine.sequence import Sequence
from ingle.backends.jobs.verification.scored_text import default_text
from ingle.kernels.operations import Operations
from ingle.models.fit.paged_fit import PAGE_SIZE
from ingle.models.kv_type import KVType
from ingle.models.layers.transformer import Transformer

pytestmark = pytest.mark.model

TOKENS, CHUNK = 224, 28
CPU = torch.device("cpu")
EXACT = Operations(torch.float32)


def read(model: Transformer, text: list[int], kv_type: KVType) -> torch.Tensor:
    """Return logprobs at every token of a text, prefilled in chunks into shuffled pages."""
    config, pages = model.config, -(-len(text) // PAGE_SIZE)
    pool = KVPool(
        heads=dict(zip(config.key_layers, config.key_heads, strict=True)),
        num_blocks=pages,
        kv_type=kv_type,
        device=CPU,
        key_biases=model.key_biases(pages * PAGE_SIZE),
    )
    inputs = StepInputs(tokens=CHUNK, sequences=1, max_pages=pages, device=CPU)
    context = PagedContext(config, EXACT, pool, inputs)
    order = list(range(pages))
    random.Random(1).shuffle(order)
    rows: list[torch.Tensor] = []
    for start in range(0, len(text), CHUNK):
        sequence = Sequence("text", 0, text[: start + 1], SamplingParams())
        sequence.slot, sequence.num_computed, sequence.block_table = 0, start, order
        # Draft positions get logits, which are wanted for every token here.
        drafts = tuple(text[start + 1 : start + CHUNK])
        inputs.fill(Batch([ScheduledChunk(sequence, 1, True, drafts)], CHUNK))
        inputs.upload()
        logits = model.forward(inputs.token_ids, inputs.positions, context, inputs.output_rows)
        rows.append(logits.log_softmax(-1))
    return torch.cat(rows)


@pytest.mark.slow
def test_quantised_kv_cache_of_smollm2_has_low_divergence(smollm2_path: Path) -> None:
    """The smallest model is affected most; llama.cpp's 8-bit activations cost it 3e-3."""
    files = open_model(smollm2_path)
    tokenizer = open_tokenizer(smollm2_path, files.config.vocab_size)
    text = tokenizer.encode(default_text(), add_special=True, parse_special=False)[:TOKENS]
    with torch.inference_mode():
        model = files.load(CPU, EXACT)
        plain = read(model, text, KVType.F32)
        for kv_type, divergence, perplexity in (
            (KVType.F16, 1e-5, 1.001),
            (KVType.Q8_0, 5e-4, 1.01),
            (KVType.Q4_0, 8e-2, 1.15),
        ):
            found = read(model, text, kv_type)
            mean = float((plain.exp() * (plain - found)).sum(-1).mean())
            assert 0 < mean < divergence
            chances = [
                each[:-1].gather(1, torch.tensor(text[1:])[:, None]) for each in (plain, found)
            ]
            more = float((chances[0] - chances[1]).mean())
            assert abs(more) < math.log(perplexity)
