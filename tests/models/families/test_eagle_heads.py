"""EAGLE-3 heads: what they compute, that text is the same, and that a good one is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from ingle.backends.base.errors import LoadFailed
from ingle.backends.base.load_spec import KVStoreSpec, LoadSpec
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.cuda.draft_model import open_drafter
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.kv_store.kv_store import KVStore
from ingle.backends.engine.sequence import Sequence
from ingle.backends.engine.speculation.head_drafter import HeadSteps
from ingle.backends.engine.speculation.step_costs import StepCosts
from ingle.backends.testing.byte_tokenizer import ByteTokenizer
from ingle.kernels.operations import Operations
from ingle.models.heads.eagle_files import open_eagle_head
from ingle.models.heads.layer_heads import EagleHead
from tests.harness.eagle_models import SIZES, EagleModel
from tests.harness.full_attention import FullAttention
from tests.harness.headed_models import (
    LENGTH,
    EagerSpeculator,
    HeadedRunners,
    headed_engine,
    run,
)

_CPU, _EXACT = torch.device("cpu"), Operations(torch.float32)


@pytest.fixture
def model(make_random_model: Any) -> EagleModel:
    return EagleModel(make_random_model("llama", **SIZES))


@pytest.fixture
def runners() -> Iterator[HeadedRunners]:
    made = HeadedRunners()
    yield made
    made.close()


def prompts(model: EagleModel, *lengths: int) -> list[Sequence]:
    random = np.random.default_rng(2)
    known = cast("list[int]", model.tokens.tolist())  # pyright: ignore[reportUnknownMemberType]
    return [
        Sequence(
            "r",
            index,
            [known[place] for place in random.integers(0, len(known), length)],
            SamplingParams(seed=index, temperature=0.0 if index % 2 else 0.8),
            max_tokens=LENGTH,
            ignore_eos=True,
        )
        for index, length in enumerate(lengths or range(40, 126, 17))
    ]


@pytest.mark.parametrize("norms_residual", [False, True])
@torch.inference_mode()
def test_a_head_computes_what_the_paper_says(
    model: EagleModel, norms_residual: bool, tmp_path: Path
) -> None:
    model.settings["norm_before_residual"] = norms_residual
    files = model.source.files
    target = files.load(_CPU, _EXACT)
    found = open_eagle_head(model.save(tmp_path / "head"), files.config)
    head = EagleHead(found, target, device=_CPU, operations=_EXACT)
    tokens = torch.randint(3, 250, (60,), generator=torch.Generator().manual_seed(5))
    places = torch.arange(len(tokens))

    seen: list[torch.Tensor] = []
    head.join(lambda residuals: seen.append(head.features(residuals)))
    target.forward(tokens, places, FullAttention(files.config), places)
    expected = model.streams(tokens) @ model.tensors["fc.weight"].T
    torch.testing.assert_close(seen[0], expected, atol=1e-4, rtol=1e-4)

    before = torch.cat((torch.zeros(1, expected.shape[1]), expected[:-1]))
    context = FullAttention(head.config)
    logits, features = head.step(tokens, before, places, context)
    wanted = model.reference(tokens, before)
    torch.testing.assert_close(logits, wanted[0], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(features, wanted[1], atol=1e-4, rtol=1e-4)
    assert head.token_ids(torch.tensor([0, 5])).equal(torch.tensor([3, 13]))


@torch.inference_mode()
def test_tokens_behind_the_vocabulary_of_a_head_are_read_as_its_last_one(
    model: EagleModel, tmp_path: Path
) -> None:
    rows = SIZES["vocab_size"] - 8
    model.settings["vocab_size"] = rows
    model.tensors["embed_tokens.weight"] = torch.randn(rows, SIZES["hidden_size"])
    files = model.source.files
    found = open_eagle_head(model.save(tmp_path / "head"), files.config)
    head = EagleHead(found, files.load(_CPU, _EXACT), device=_CPU, operations=_EXACT)
    before, places = torch.zeros(2, SIZES["hidden_size"]), torch.arange(2)
    behind, last = (
        head.step(torch.tensor([3, token]), before, places, FullAttention(head.config))[0]
        for token in (SIZES["vocab_size"] - 1, rows - 1)
    )
    torch.testing.assert_close(behind, last)


@pytest.mark.slow
def test_text_is_the_same_with_a_head(
    model: EagleModel, runners: HeadedRunners, tmp_path: Path
) -> None:
    source, head = model.source, str(model.save(tmp_path / "head"))
    plain = runners.load(source, draft_path=None)
    alone = [run(Engine(plain), [each])[0] for each in prompts(model)]
    engine = headed_engine(runners.load(source, draft_path=head, kv_capacity=4096))
    assert run(engine, prompts(model)) == alone
    assert run(engine, prompts(model)) == alone, "with the prompts in the cache"
    assert engine.gauges().drafted_tokens_total > 20
    engine = headed_engine(runners.load(source, draft_path=head, context=256, kv_capacity=320))
    assert run(engine, prompts(model)) == alone, "preempted"
    assert engine.gauges().preemptions_total > 0


def test_a_good_head_is_right(model: EagleModel, runners: HeadedRunners, tmp_path: Path) -> None:
    model.become_cycle()
    source, head = model.source, str(model.save(tmp_path / "head"))
    plain = runners.load(source, draft_path=None)
    texts = run(Engine(plain), prompts(model))
    engine = headed_engine(runners.load(source, draft_path=head, kv_capacity=4096))
    assert run(engine, prompts(model)) == texts
    assert run(engine, prompts(model)) == texts, "with the prompts in the cache"
    gauges = engine.gauges()
    assert gauges.drafted_tokens_total > 100
    assert gauges.accepted_tokens_total / gauges.drafted_tokens_total > 0.99

    spec = KVStoreSpec(folder=str(tmp_path), model="ab" * 32, disk_bytes=2**30, memory_bytes=2**28)
    for life in range(2):
        runner = runners.load(source, draft_path=head)
        store = KVStore(spec, runner.state_key, spare=lambda: 2**30)
        engine = headed_engine(runner, store=store)
        (long,) = prompts(model, 400)
        run(engine, [long])
        while engine.has_unsaved:
            engine.save(0.05)
        store.close(5)
        assert (long.cached_tokens >= 256) is (life == 1)
        gauges = engine.gauges()
        assert gauges.accepted_tokens_total / gauges.drafted_tokens_total > 0.99


class FewWords(ByteTokenizer):
    """Lacks the tokens that fill the model's vocabulary up."""

    vocab_size = 150


class NotingSpeculator(EagerSpeculator):
    """Keeps what was drafted."""

    def __init__(self, head: HeadSteps) -> None:
        super().__init__(head)
        self.drafted: set[int] = set()

    def propose(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
        found = super().propose(decoding, room)
        self.drafted |= {token for tokens in found.values() for token in tokens}
        return found


def test_tokens_that_the_tokenizer_lacks_are_not_drafted(
    model: EagleModel, runners: HeadedRunners, tmp_path: Path
) -> None:
    model.tokens = model.tokens + 100
    model.become_cycle()
    source = replace(model.source, tokenizer=FewWords())
    runner = runners.load(source, draft_path=str(model.save(tmp_path / "head")))
    speculator = NotingSpeculator(runner.head)
    run(Engine(runner, speculator), prompts(model, 40, 57))
    assert speculator.drafted
    assert max(speculator.drafted) < FewWords.vocab_size


def _without_projection(model: EagleModel) -> None:
    del model.tensors["fc.weight"]


def _with_other_tokens(model: EagleModel) -> None:
    model.tokens = model.tokens + 200


def _with(**settings: Any) -> Callable[[EagleModel], None]:
    return lambda model: model.settings.update(settings)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_with(vocab_size=500), "a vocabulary of 500, not for one with 64 and 264"),
        (_with(target_hidden_size=128), "128 hidden elements"),
        (_with(eagle_aux_hidden_state_layer_ids=[2, 4, 9]), "layers that the model does not have"),
        (_with(eagle_aux_hidden_state_layer_ids=[4, 2, 5]), "do not ascend"),
        (_with(draft_vocab_size=65), "a vocabulary of"),
        (_with(num_hidden_layers=2), "a head of 2 layers"),
        (_without_projection, "fc.weight"),
        (_with_other_tokens, "does not have"),
    ],
)
def test_a_head_that_does_not_fit_is_refused(
    model: EagleModel,
    change: Callable[[EagleModel], None],
    reason: str,
    runners: HeadedRunners,
    tmp_path: Path,
) -> None:
    """The model is loaded without it, and the reason is known."""
    source = model.source
    change(model)
    head = str(model.save(tmp_path / "head"))
    runner = runners.load(source, draft_path=head)
    assert not runner.head.is_loaded
    spec = LoadSpec(engine="cuda", path="random", draft_path=head, context=512)
    with pytest.raises(LoadFailed, match=reason):
        open_drafter(spec, runner, StepCosts())
