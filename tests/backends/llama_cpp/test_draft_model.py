"""Draft models of llama.cpp: matching and mismatched pairs of random models."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from pathlib import Path

import gguf
import msgspec
import numpy as np
import pytest

from ingle.backends.base.errors import LoadFailed
from ingle.backends.base.load_spec import LoadSpec, SpeculationKind
from ingle.backends.base.model_info import ModelInfo
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.batch import Batch
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.sequence import Sequence
from ingle.backends.engine.speculation.draft import Speculator
from ingle.backends.engine.speculation.model_drafter import ModelDrafter
from ingle.backends.engine.speculation.step_costs import StepCosts
from ingle.backends.llama_cpp.draft_runner import open_drafter
from ingle.backends.llama_cpp.model_runner import LlamaModelRunner
from ingle.backends.worker.model_loader import load_model

WIDTH, VOCAB = 32, 40

MakeModel = Callable[..., Path]


@pytest.fixture(scope="module")
def make_model(tmp_path_factory: pytest.TempPathFactory) -> MakeModel:
    """Return a factory of tiny Llama files; equal seeds give equal models."""
    folder = tmp_path_factory.mktemp("models")

    def make(name: str, *, seed: int = 0, vocab: int = VOCAB, bos: int = 1, odd: str = "") -> Path:
        path = folder / f"{name}.gguf"
        if not path.exists():
            _write(path, seed, vocab, bos, odd)
        return path

    return make


def _write(path: Path, seed: int, vocab: int, bos: int, odd: str) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(512)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // 2)
    writer.add_vocab_size(vocab)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    tokens = [f"t{token}" for token in range(vocab)]
    if odd:
        tokens[20] = odd
    writer.add_token_list(tokens)
    writer.add_token_types([1] * vocab)
    writer.add_token_merges(["t 0"])
    writer.add_eos_token_id(0)
    writer.add_bos_token_id(bos)
    random = np.random.default_rng(seed)
    square = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    shapes: dict[str, tuple[int, ...]] = {f"blk.0.{name}": (WIDTH, WIDTH) for name in square}
    shapes |= {"token_embd": (vocab, WIDTH), "output": (vocab, WIDTH)}
    norms = ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm")
    for name, shape in shapes.items():
        weights = random.normal(0, 1.5 / np.sqrt(shape[-1]), shape).astype(np.float32)
        writer.add_tensor(f"{name}.weight", weights)
    for name in norms:
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def spec_of(path: Path, draft: Path | None = None, kind: SpeculationKind = "draft") -> LoadSpec:
    return LoadSpec(
        engine="llama.cpp",
        path=str(path),
        context=256,
        slots=3,
        batch=64,
        threads=1,
        draft_path=str(draft) if draft is not None else None,
        speculation=kind,
    )


@pytest.fixture
def target(make_model: MakeModel) -> Iterator[LlamaModelRunner]:
    runner = LlamaModelRunner(spec_of(make_model("target")))
    yield runner
    runner.close()


def generate(
    runner: LlamaModelRunner, speculation: Speculator | None, sampling: SamplingParams
) -> tuple[list[list[int]], Engine]:
    engine = Engine(runner, speculation)
    sequences = [
        Sequence("r", i, [1, 3 + i, 7], sampling, max_tokens=60 + 10 * i, ignore_eos=True)
        for i in range(3)
    ]
    for sequence in sequences:
        engine.add(sequence)
    while engine.has_work:
        engine.step()
    return [sequence.token_ids for sequence in sequences], engine


class AlwaysDrafting:
    """Proposes all tokens of the draft model, whether they pay or not."""

    def __init__(self, model: ModelDrafter) -> None:
        self._model = model

    def propose(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
        ready = [sequence for sequence in decoding if self._model.catch_up(sequence)]
        drafts = self._model.draft(ready, min(5, room // len(decoding)))
        return {sequence: tuple(draft.tokens) for sequence, draft in drafts.items()}

    def waits(self, decoding: list[Sequence], room: int) -> bool:
        return True

    def observe(self, batch: Batch, seconds: float) -> None: ...

    def forget(self, sequence: Sequence) -> None:
        self._model.forget(sequence)


@pytest.mark.parametrize("seed", [0, 5])
@pytest.mark.parametrize(
    "sampling",
    [SamplingParams(temperature=0), SamplingParams(temperature=0.3, seed=3, repeat_penalty=1.1)],
)
def test_draft_model_does_not_change_output(
    target: LlamaModelRunner, make_model: MakeModel, sampling: SamplingParams, seed: int
) -> None:
    """The same model as its own draft is mostly right; another with the same tokenizer seldom."""
    plain, _ = generate(target, None, sampling)
    draft = make_model(f"draft{seed}", seed=seed)
    drafter = open_drafter(spec_of(make_model("target"), draft), target, StepCosts())
    drafted, engine = generate(target, AlwaysDrafting(drafter), sampling)
    drafter.close()
    assert drafted == plain
    gauges = engine.gauges()
    rate = gauges.accepted_tokens_total / gauges.drafted_tokens_total
    if sampling.temperature == 0:
        assert rate > 0.9 if seed == 0 else rate < 0.5
    assert gauges.drafted_tokens_total > 10


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"vocab": 400}, "vocabularies have 40 and 400 tokens"),
        ({"bos": 2}, "bos_text"),
        ({"odd": "other"}, "token 20 is not the same text"),
    ],
)
def test_draft_model_with_another_tokenizer_is_rejected(
    target: LlamaModelRunner, make_model: MakeModel, fields: dict[str, int | str], reason: str
) -> None:
    draft = make_model(f"odd-{'-'.join(fields)}", **fields)
    with pytest.raises(LoadFailed, match=reason) as caught:
        open_drafter(spec_of(make_model("target"), draft), target, StepCosts())
    assert "same family" in str(caught.value.hint)


def test_vocabulary_padding_is_not_a_mismatch(
    target: LlamaModelRunner, make_model: MakeModel
) -> None:
    """The additional tokens of the larger vocabulary are never drafted."""
    draft = make_model("padded", vocab=VOCAB + 24)
    costs = StepCosts()
    drafter = open_drafter(spec_of(make_model("target"), draft), target, costs)
    sequence = Sequence("r", 0, [1, 3, 7], SamplingParams(temperature=0))
    for _ in range(10):
        assert drafter.catch_up(sequence)
        for draft in drafter.draft([sequence], 4).values():
            assert all(token < VOCAB for token in draft.tokens)
        sequence.token_ids.append(len(sequence.token_ids) % VOCAB)
    drafter.close()


def info_of(spec: LoadSpec) -> ModelInfo:
    with load_model(spec, lambda _: None, queue.SimpleQueue()) as (_, info):
        return info


def test_model_loads_without_an_unusable_draft_model(
    make_model: MakeModel, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    target, good = make_model("target"), make_model("draft0")
    assert info_of(spec_of(target, good)).draft == str(good)
    for draft, reason in [
        (make_model("odd-odd", odd="other"), "token 20"),
        (tmp_path / "gone.gguf", "cannot be read"),
    ]:
        info = info_of(spec_of(target, draft, "draft"))
        assert (info.draft, info.speculation) == (None, "off")
        assert reason in str(info.draft_note)
        assert reason in capfd.readouterr().err
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(good.read_bytes()[:2000])
    assert "cannot load broken.gguf" in str(info_of(spec_of(target, broken)).draft_note)
    capfd.readouterr()


@pytest.mark.parametrize(
    ("kind", "used"), [("auto", "ngram"), ("ngram", "ngram"), ("off", "off"), ("draft", "off")]
)
def test_speculation_kind_without_a_draft_model(
    make_model: MakeModel, kind: SpeculationKind, used: SpeculationKind
) -> None:
    assert info_of(spec_of(make_model("target"), None, kind)).speculation == used


def test_closed_draft_model_leaves_the_log_to_the_target(
    target: LlamaModelRunner, make_model: MakeModel
) -> None:
    """Later errors are still read by the target's log."""
    drafter = open_drafter(spec_of(make_model("target"), make_model("draft0")), target, StepCosts())
    drafter.close()
    target.listen()
    with pytest.raises(LoadFailed, match="token 20"):
        open_drafter(
            spec_of(make_model("target"), make_model("odd-odd", odd="other")), target, StepCosts()
        )


def test_load_spec_with_a_draft_survives_serialisation(make_model: MakeModel) -> None:
    spec = spec_of(make_model("target"), make_model("draft0"))
    encoded = msgspec.msgpack.encode(spec)
    assert msgspec.msgpack.decode(encoded, type=LoadSpec) == spec
    assert GenerateRequest(id="a").speculation
