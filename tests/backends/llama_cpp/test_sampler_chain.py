"""llama.cpp sampler chains: which tokens each sampler keeps, and llama-server's sampler order."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
import pytest
from numpy.typing import NDArray

from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.llama_cpp.batch_sampler import DrySamplers, SamplerChain
from ingle.backends.llama_cpp.llama_model import LlamaModel
from ingle.backends.llama_cpp.llama_tokenizer import LlamaTokenizer
from ingle.backends.llama_cpp.native_log import NativeLog

pytestmark = pytest.mark.model

# Only the temperature of 1 and the final sampling.
OFF: dict[str, Any] = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}
TOKENS = 64
SEED = 11
CONTEXT = 512

Logits = NDArray[np.float32]
MakeChain = Callable[..., SamplerChain]


@pytest.fixture(scope="module")
def model(smollm2_path: Path) -> Iterator[LlamaModel]:
    log = NativeLog()
    model = LlamaModel(smollm2_path, vocab_only=True, log=log)
    yield model
    model.close()
    log.close()


@pytest.fixture
def make_chain(model: LlamaModel) -> Iterator[MakeChain]:
    chains: list[SamplerChain] = []
    dry_samplers = DrySamplers(model.vocab, window=CONTEXT)

    def make(*, prompt: list[int] | None = None, index: int = 0, **fields: Any) -> SamplerChain:
        values: dict[str, Any] = {**OFF, "seed": SEED, **fields}
        chain = SamplerChain(
            SamplingParams(**values),
            vocab=model.vocab,
            index=index,
            prompt=prompt or [],
            context=CONTEXT,
            dry_samplers=dry_samplers,
        )
        chains.append(chain)
        return chain

    yield make
    for chain in chains:
        chain.close()
    dry_samplers.close()


def logits_of(probabilities: NDArray[np.float64], vocab_size: int = 49152) -> Logits:
    """Return logits that give the first tokens these probabilities; others are impossible."""
    logits = np.full(vocab_size, -np.inf, np.float32)
    logits[: len(probabilities)] = np.log(probabilities)
    return logits


def zipf(count: int = TOKENS) -> NDArray[np.float64]:
    weights = 1 / np.arange(1, count + 1) ** 1.1
    return weights / weights.sum()


def sample(chain: SamplerChain, logits: Logits, count: int = 3000) -> list[int]:
    allowed = np.flatnonzero(np.isfinite(logits))
    return [chain.sample_among(allowed, logits) for _ in range(count)]


def frequencies(tokens: list[int]) -> NDArray[np.float64]:
    return np.bincount(tokens, minlength=TOKENS)[:TOKENS] / len(tokens)


def assert_distribution(chain: SamplerChain, logits: Logits, expected: NDArray[np.float64]) -> None:
    """Check that all samples are expected ones, with expected frequencies (five sigmas)."""
    count = 4000
    seen = frequencies(sample(chain, logits, count))
    assert not seen[expected == 0].any()
    sigma = np.sqrt(expected * (1 - expected) / count)
    assert (np.abs(seen - expected) <= 5 * sigma + 1e-9).all()


def normalised(weights: NDArray[np.float64], keep: NDArray[np.bool_]) -> NDArray[np.float64]:
    kept = np.where(keep, weights, 0.0)
    return kept / kept.sum()


def test_plain_sampling(make_chain: MakeChain) -> None:
    p = zipf()
    assert_distribution(make_chain(), logits_of(p), p)


def test_temperature_sharpens_the_distribution(make_chain: MakeChain) -> None:
    p = zipf()
    assert_distribution(make_chain(temperature=0.5), logits_of(p), p**2 / (p**2).sum())


def test_top_k(make_chain: MakeChain) -> None:
    p = zipf()
    assert_distribution(make_chain(top_k=5), logits_of(p), normalised(p, np.arange(TOKENS) < 5))


def test_top_p_keeps_the_smallest_sufficient_set(make_chain: MakeChain) -> None:
    p = zipf()
    keep = np.concatenate(([True], np.cumsum(p)[:-1] < 0.6))
    assert_distribution(make_chain(top_p=0.6), logits_of(p), normalised(p, keep))


def test_min_p_is_relative_to_the_likeliest_token(make_chain: MakeChain) -> None:
    p = zipf()
    assert_distribution(make_chain(min_p=0.1), logits_of(p), normalised(p, p >= 0.1 * p[0]))


def test_typical_p_keeps_tokens_near_the_expected_surprise(make_chain: MakeChain) -> None:
    p = zipf()
    entropy = -(p * np.log(p)).sum()
    order = np.argsort(np.abs(-np.log(p) - entropy), kind="stable")
    count = int(np.flatnonzero(np.cumsum(p[order]) > 0.4)[0]) + 1
    keep = np.isin(np.arange(TOKENS), order[:count])
    assert not keep[0], "the likeliest one surprises too little here"
    assert_distribution(make_chain(typical_p=0.4), logits_of(p), normalised(p, keep))


def test_top_n_sigma_is_in_standard_deviations_of_logits(make_chain: MakeChain) -> None:
    p = zipf()
    logits = np.log(p)
    keep = logits >= logits.max() - 1.5 * logits.std()
    assert_distribution(make_chain(top_n_sigma=1.5), logits_of(p), normalised(p, keep))


def test_xtc_drops_all_but_the_last_token_above_the_threshold(make_chain: MakeChain) -> None:
    p = np.array([0.4, 0.3, 0.2, 0.06, 0.04])
    keep = np.array([False, False, True, True, True])
    expected = np.zeros(TOKENS)
    expected[:5] = normalised(p, keep)
    chain = make_chain(xtc_probability=1.0, xtc_threshold=0.1)
    assert_distribution(chain, logits_of(p), expected)
    never = make_chain(xtc_probability=1.0, xtc_threshold=0.6)
    assert sample(never, logits_of(p), 50).count(0) > 5


def test_dynamic_temperature_follows_the_entropy(make_chain: MakeChain) -> None:
    p = zipf()
    entropy = -(p * np.log(p)).sum() / np.log(TOKENS)
    temperature = 0.5 + (1.5 - 0.5) * entropy**2
    expected = p ** (1 / temperature)
    chain = make_chain(temperature=1.0, dynatemp_range=0.5, dynatemp_exponent=2.0)
    assert_distribution(chain, logits_of(p), expected / expected.sum())


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2])
def test_mirostat_keeps_the_surprise_at_its_target(make_chain: MakeChain, version: int) -> None:
    p = zipf(20000)
    p = p**0.9 / (p**0.9).sum()
    logits = logits_of(p)
    free = -np.log2(p[sample(make_chain(), logits, 400)]).mean()
    chain = make_chain(mirostat=version, mirostat_tau=4.0, mirostat_eta=0.1, top_k=1)
    tokens = sample(chain, logits, 400)
    assert len(set(tokens)) > 1, "top-k has no part in it"
    # Mirostat measures the surprise among the tokens that it keeps.
    assert -np.log2(p[tokens[100:]]).mean() < free - 1


def test_penalties_count_sampled_tokens_within_the_window(make_chain: MakeChain) -> None:
    logits = logits_of(np.array([0.5, 0.3, 0.2]))
    once = make_chain(temperature=0, presence_penalty=2.0, prompt=[0, 0, 0])
    assert sample(once, logits, 4) == [0, 1, 2, 0], "the prompt costs nothing"
    short = make_chain(temperature=0, presence_penalty=2.0, repeat_last_n=1)
    assert sample(short, logits, 4) == [0, 1, 0, 1]
    off = make_chain(temperature=0, presence_penalty=2.0, repeat_last_n=0)
    assert sample(off, logits, 3) == [0, 0, 0]
    often = make_chain(temperature=0, frequency_penalty=0.3)
    assert sample(often, logits, 5) == [0, 0, 1, 0, 1]
    # Negative logits are multiplied, so that a penalty never helps.
    divided = make_chain(temperature=0, repeat_penalty=2.0)
    assert sample(divided, logits, 2) == [0, 1]


def test_dry_prevents_repetition_including_the_prompt(
    make_chain: MakeChain, model: LlamaModel
) -> None:
    logits = logits_of(np.full(200, 1 / 200)).copy()
    logits[101] += 0.5  # what would continue the repetition
    story = [100, 102, 103, 101, 110, 100, 102, 103]
    plain = make_chain(temperature=0, prompt=story)
    assert sample(plain, logits, 1) == [101]
    dry = make_chain(temperature=0, prompt=story, dry_multiplier=1.0, dry_sequence_breakers=())
    assert sample(dry, logits, 1) != [101]
    near = make_chain(temperature=0, prompt=story, dry_multiplier=1.0, dry_penalty_last_n=3)
    assert sample(near, logits, 1) == [101], "the repeated words are too far back"
    long = make_chain(temperature=0, prompt=story, dry_multiplier=1.0, dry_allowed_length=4)
    assert sample(long, logits, 1) == [101], "three words in common are allowed"


def test_sequence_breaker_ends_a_dry_match(make_chain: MakeChain, model: LlamaModel) -> None:
    def encode(text: str) -> list[int]:
        return LlamaTokenizer(model).encode(text, add_special=False, parse_special=False)

    story = encode(" one two; three four. one two; three")
    follows = encode(" four")[0]
    logits = np.zeros(49152, np.float32)
    logits[follows] = 0.5
    for breakers, free in (((), False), ((";",), True), (("x",), False)):
        chain = make_chain(
            temperature=0,
            prompt=story,
            dry_multiplier=1.0,
            dry_allowed_length=2,
            dry_sequence_breakers=breakers,
        )
        assert (sample(chain, logits, 1) == [follows]) is free, breakers


def test_logit_bias_is_added(make_chain: MakeChain) -> None:
    logits = logits_of(np.array([0.5, 0.3, 0.2]))
    assert set(sample(make_chain(logit_bias={0: -100.0}), logits, 200)) == {1, 2}
    assert sample(make_chain(temperature=0, logit_bias={2: 2.0}), logits, 1) == [2]


ALL: dict[str, Any] = {
    "logit_bias": {3: 1.0},
    "repeat_penalty": 1.1,
    "frequency_penalty": 0.1,
    "dry_multiplier": 0.8,
    "top_n_sigma": 2.5,
    "top_k": 30,
    "typical_p": 0.95,
    "top_p": 0.9,
    "min_p": 0.02,
    "xtc_probability": 0.5,
    "temperature": 0.9,
    "dynatemp_range": 0.2,
}


def sampler_names(chain: SamplerChain) -> list[str]:
    native = chain._chain  # pyright: ignore[reportPrivateUsage]
    return [
        llama_cpp.llama_sampler_name(llama_cpp.llama_sampler_chain_get(native, i)).decode()
        for i in range(llama_cpp.llama_sampler_chain_n(native))
    ]


def test_sampler_order_equals_llama_servers(make_chain: MakeChain) -> None:
    """That of its default `samplers`; the additional `min-p` removes only impossible tokens."""
    cuts = ["top-n-sigma", "top-k", "min-p", "typical", "top-p", "min-p", "xtc", "temp-ext", "dist"]
    assert sampler_names(make_chain(**ALL)) == ["logit-bias", "penalties", "dry", *cuts]
    fixed = ["logit-bias", "penalties", "dry", "min-p", "temp"]
    assert sampler_names(make_chain(**ALL, mirostat=1)) == [*fixed, "mirostat"]
    assert sampler_names(make_chain(**ALL, mirostat=2)) == [*fixed, "mirostat-v2"]
    assert sampler_names(make_chain(**{**ALL, "temperature": 0.0})) == [*fixed[:3], "greedy"]
    assert sampler_names(make_chain()) == ["?temp-ext", "dist"], "a temperature of 1 does nothing"


def reference_chain(vocab: llama_cpp.llama_vocab_p, *, swapped: bool) -> llama_cpp.llama_sampler_p:
    """Build the same chain by hand, as llama-server does; `swapped` puts the temperature first."""
    chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
    bias = (llama_cpp.llama_logit_bias * 1)(llama_cpp.llama_logit_bias(3, 1.0))
    breakers = (ctypes.c_char_p * 4)(b"\n", b":", b'"', b"*")
    temperature = llama_cpp.llama_sampler_init_temp_ext(0.9, 0.2, 1.0)
    samplers = [
        llama_cpp.llama_sampler_init_logit_bias(49152, 1, bias),
        llama_cpp.llama_sampler_init_penalties(49152, CONTEXT, 1.1, 0.1, 0.0),
        llama_cpp.llama_sampler_init_dry(vocab, 0.8, 1.75, 2, CONTEXT, breakers, 4),  # pyright: ignore[reportUnknownMemberType]
        llama_cpp.llama_sampler_init_top_n_sigma(2.5),
        llama_cpp.llama_sampler_init_top_k(30),
        llama_cpp.llama_sampler_init_typical(0.95, 0),
        llama_cpp.llama_sampler_init_top_p(0.9, 0),
        llama_cpp.llama_sampler_init_min_p(0.02, 0),
        llama_cpp.llama_sampler_init_xtc(0.5, 0.1, 0, SEED),
    ]
    samplers.insert(3 if swapped else len(samplers), temperature)
    for sampler in (*samplers, llama_cpp.llama_sampler_init_dist(SEED)):
        llama_cpp.llama_sampler_chain_add(chain, sampler)
    return chain


def test_whole_chain_samples_like_llama_servers(make_chain: MakeChain, model: LlamaModel) -> None:
    random = np.random.default_rng(5)
    count = 4000
    rows = [(random.standard_normal(count) * 3).astype(np.float32) for _ in range(60)]
    allowed = np.arange(count)
    ours = make_chain(**ALL)
    expected = [ours.sample_among(allowed, row) for row in rows]

    def samples(*, swapped: bool) -> list[int]:
        chain = reference_chain(model.vocab, swapped=swapped)
        tokens: list[int] = []
        for row in rows:
            data = (llama_cpp.llama_token_data * count)(
                *((i, logit, 0.0) for i, logit in enumerate(row.tolist()))
            )
            array = llama_cpp.llama_token_data_array(data, count, -1, False)
            llama_cpp.llama_sampler_apply(chain, ctypes.pointer(array))  # pyright: ignore[reportArgumentType]
            tokens.append(array.data[array.selected].id)
            llama_cpp.llama_sampler_accept(chain, tokens[-1])
        llama_cpp.llama_sampler_free(chain)
        return tokens

    assert samples(swapped=False) == expected
    assert samples(swapped=True) != expected


def test_random_streams_depend_on_seed_and_index(make_chain: MakeChain) -> None:
    logits = logits_of(zipf())
    first = sample(make_chain(), logits, 30)
    assert sample(make_chain(), logits, 30) == first
    assert sample(make_chain(index=1), logits, 30) != first
    assert sample(make_chain(seed=SEED - 1, index=1), logits, 30) == first
    assert sample(make_chain(seed=None), logits, 30) != sample(make_chain(seed=None), logits, 30)


def test_tokens_of_zero_probability_are_handled(make_chain: MakeChain) -> None:
    """Typical-p and mirostat take logarithms; a probability of zero must not reach them."""
    logits = np.full(49152, -300.0, np.float32)
    logits[:4] = (3.0, 2.0, 1.0, 0.0)
    allowed = np.arange(49152)
    for fields in ({"typical_p": 0.9}, {"mirostat": 1}, {"mirostat": 2}, {"top_n_sigma": 1.0}):
        chain = make_chain(**fields)
        assert {chain.sample_among(allowed, logits) for _ in range(30)} <= {0, 1, 2, 3}, fields


def test_only_allowed_tokens_are_sampled(make_chain: MakeChain) -> None:
    """Truncating samplers apply to the allowed tokens, not to all."""
    logits = logits_of(zipf())
    before = logits.copy()
    allowed = np.array([40, 50, 60])
    chain = make_chain(top_k=2, typical_p=0.99)
    assert {chain.sample_among(allowed, logits) for _ in range(60)} == {40, 50}
    assert np.array_equal(logits, before), "the raw logits stay"
    assert make_chain().sample_among(np.array([7]), logits) == 7


def test_dry_samplers_are_cached_and_evicted(model: LlamaModel) -> None:
    samplers = DrySamplers(model.vocab, window=CONTEXT)
    for length in range(20):
        samplers.prepare(SamplingParams(dry_multiplier=1.0, dry_allowed_length=length))
    for length in (19, 0):
        fresh = samplers.new(SamplingParams(dry_multiplier=1.0, dry_allowed_length=length))
        llama_cpp.llama_sampler_free(fresh)
    assert len(samplers._made) == 8  # pyright: ignore[reportPrivateUsage]
    samplers.prepare(SamplingParams())
    assert len(samplers._made) == 8, "most requests ask for none"  # pyright: ignore[reportPrivateUsage]
    samplers.close()
