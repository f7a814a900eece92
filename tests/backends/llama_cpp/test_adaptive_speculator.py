"""Speculation on real models does not change greedy text.

Steps of another shape give slightly different logits, so two nearly tied tokens may swap. Where
texts differ, the test proves such a tie: it computes the logits at that position in steps of
several shapes. The two tokens must be the likeliest in each, and no further apart than the shape of
the step moves them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import llama_cpp
import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from ingle.backends.base.errors import LoadFailed
from ingle.backends.base.load_spec import LoadSpec, SpeculationKind
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.batch import Batch
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.kv.cell_cache import CellCache
from ingle.backends.engine.sequence import Sequence
from ingle.backends.engine.speculation.adaptive_speculator import AdaptiveSpeculator
from ingle.backends.engine.speculation.draft import Speculator
from ingle.backends.engine.speculation.model_drafter import ModelDrafter
from ingle.backends.engine.speculation.ngram_drafter import NgramDrafter
from ingle.backends.engine.speculation.step_costs import StepCosts
from ingle.backends.llama_cpp.draft_runner import open_drafter
from ingle.backends.llama_cpp.model_runner import LlamaModelRunner

FetchModel = Callable[[str], Path]

GREEDY = SamplingParams(temperature=0)
PARAGRAPH = (
    "The harbour of Ellmouth was built in 1823 by a company of fishermen. It has two stone piers, "
    "a lighthouse with a green lamp, and a market hall where fish is sold every morning."
)
CODE = '''class Inventory:
    """Keeps track of the items in a warehouse."""

    def __init__(self):
        self.items = {}

    def add(self, name, count):
        self.items[name] = self.items.get(name, 0) + count

    def remove(self, name, count):
        if self.items.get(name, 0) < count:
            raise ValueError(f"not enough {name}")
        self.items[name] -= count
'''


class OpenRunner(LlamaModelRunner):
    """Exposes the logits of the last step."""

    def logits(self, rows: int) -> NDArray[np.float32]:
        shape = (rows, self.tokenizer.vocab_size)
        return np.ctypeslib.as_array(llama_cpp.llama_get_logits(self._ctx), shape).copy()


def chat(text: str) -> str:
    return f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"


def spec_of(path: Path) -> LoadSpec:
    return LoadSpec(engine="llama.cpp", path=str(path), context=1024, slots=4)


@pytest.fixture(scope="module")
def runner(smollm2_path: Path) -> Iterator[OpenRunner]:
    runner = OpenRunner(spec_of(smollm2_path))
    yield runner
    runner.close()


class AlwaysDrafting:
    """Proposes n-gram drafts, whether they pay or not."""

    def __init__(self, context: int, length: int) -> None:
        self._drafter = NgramDrafter(context)
        self._length = length

    def propose(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
        most = min(self._length, room // len(decoding))
        return {s: self._drafter.propose(s, most).cut(most) for s in decoding}

    def waits(self, decoding: list[Sequence], room: int) -> bool:
        return True

    def observe(self, batch: Batch, seconds: float) -> None: ...

    def forget(self, sequence: Sequence) -> None:
        self._drafter.forget(sequence)


def generate(
    runner: LlamaModelRunner, text: str, speculator: Speculator | None, max_tokens: int = 64
) -> Sequence:
    tokens = runner.tokenizer.encode(text, add_special=True, parse_special=True)
    sequence = Sequence("r", 0, tokens, GREEDY, max_tokens=max_tokens, ignore_eos=True)
    engine = Engine(runner, speculator)
    engine.add(sequence)
    while engine.has_work:
        engine.step()
    return sequence


def assert_same_but_for_ties(runner: OpenRunner, one: Sequence, other: Sequence) -> None:
    assert len(one.token_ids) == len(other.token_ids)
    pairs = enumerate(zip(one.token_ids, other.token_ids, strict=True))
    position = next((position for position, (a, b) in pairs if a != b), None)
    if position is None:
        return
    candidates = {one.token_ids[position], other.token_ids[position]}
    shapes = [(512, 0, 0), (512, 3, 0), (512, 7, 0), (33, 0, 0), (1, 0, 1), (1, 0, 7), (3, 5, 40)]
    rows = np.stack([_logits(runner, one.token_ids[:position], *shape) for shape in shapes])
    for row in rows:
        assert set(np.argsort(-row)[:2].tolist()) == candidates, f"no tie at token {position}"
    gaps = [float(row[one.token_ids[position]] - row[other.token_ids[position]]) for row in rows]
    moved = max(gaps) - min(gaps)
    assert min(map(abs, gaps)) <= moved, f"{gaps} at token {position}: the shape moves only {moved}"


def _logits(
    runner: OpenRunner, tokens: list[int], most: int, drafts: int, between: int
) -> NDArray[np.float32]:
    """Return the logits after the tokens, prefilled in chunks of `most` with so many `drafts`.

    Another sequence holds `between` cells between two chunks: attention sums in the order of cells,
    and rounds.
    """
    CellCache(runner)  # empties it
    sequence, other = (Sequence("r", slot, tokens * 40, GREEDY) for slot in (0, 1))
    sequence.token_ids = tokens
    sequence.slot, other.slot = 0, 1
    while sequence.num_pending:
        if between:
            _compute(runner, other, between)
        count = min(most, max(1, sequence.num_pending - 1))
        _compute(runner, sequence, count, drafts if sequence.num_pending == 1 else 0)
    row = runner.logits(1 + drafts)[0]
    CellCache(runner)
    return row


def _compute(runner: OpenRunner, sequence: Sequence, count: int, drafts: int = 0) -> None:
    batch = Batch()
    batch.add(sequence, count, (0,) * drafts)
    runner.launch(batch)
    runner.collect()
    sequence.num_computed += count


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.parametrize("length", [3, 12])
def test_copied_text_is_unchanged_and_takes_fewer_steps(runner: OpenRunner, length: int) -> None:
    prompt = chat(f"Copy this text exactly:\n\n{PARAGRAPH}\n\n{PARAGRAPH}")
    plain = generate(runner, prompt, None)
    drafted = generate(runner, prompt, AlwaysDrafting(1024, length))
    assert_same_but_for_ties(runner, plain, drafted)
    assert drafted.accepted_tokens > 8


@pytest.mark.slow
@pytest.mark.model
def test_text_without_repetition_is_unchanged(runner: OpenRunner) -> None:
    prompt = "Once upon a time, in a small village by the sea,"
    plain = generate(runner, prompt, None)
    assert_same_but_for_ties(runner, plain, generate(runner, prompt, AlwaysDrafting(1024, 4)))
    speculation = AdaptiveSpeculator(context=1024, ngrams=NgramDrafter(1024))
    assert_same_but_for_ties(runner, plain, generate(runner, prompt, speculation))


@pytest.mark.slow
@pytest.mark.model
def test_batched_texts_are_unchanged(runner: OpenRunner) -> None:
    """Drafts of one sequence beside others with drafts of other lengths, and none."""
    prompts = [chat(f"Copy this text:\n\n{PARAGRAPH}"), "one two three " * 20, chat("Hello!")]
    tokens = [runner.tokenizer.encode(p, add_special=True, parse_special=True) for p in prompts]

    def together(speculator: Speculator | None) -> list[Sequence]:
        sequences = [
            Sequence("r", i, list(t), GREEDY, max_tokens=40, ignore_eos=True)
            for i, t in enumerate(tokens)
        ]
        engine = Engine(runner, speculator)
        for sequence in sequences:
            engine.add(sequence)
        while engine.has_work:
            engine.step()
        return sequences

    for one, other in zip(together(None), together(AlwaysDrafting(1024, 5)), strict=True):
        assert_same_but_for_ties(runner, one, other)


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["draft", "auto"])
def test_draft_model_does_not_change_code_and_edits(
    fetch_model: FetchModel, kind: SpeculationKind
) -> None:
    """Edits and new code, with a real draft model; "auto" may find that it does not pay."""
    runner = OpenRunner(spec_of(fetch_model("qwen2.5-coder:1.5b")))
    try:
        spec = msgspec.structs.replace(
            spec_of(fetch_model("qwen2.5-coder:1.5b")),
            draft_path=str(fetch_model("qwen2.5-coder:0.5b")),
            speculation=kind,
        )
        costs, model = StepCosts(), None
        try:
            model = open_drafter(spec, runner, costs)
        except LoadFailed:
            assert kind == "auto"
        ngrams = NgramDrafter(1024) if kind == "auto" else None
        speculation = AdaptiveSpeculator(context=1024, costs=costs, ngrams=ngrams, model=model)
        for text in (f"Rename `add` to `put`:\n\n{CODE}", "Write a quicksort in Python."):
            plain = generate(runner, chat(text), None, max_tokens=96)
            drafted = generate(runner, chat(text), speculation, max_tokens=96)
            assert_same_but_for_ties(runner, plain, drafted)
        if model is not None:
            always = generate(
                runner, chat("Write a quicksort."), AlwaysDraftingModel(model), max_tokens=48
            )
            plain = generate(runner, chat("Write a quicksort."), None, max_tokens=48)
            assert_same_but_for_ties(runner, plain, always)
            assert always.accepted_tokens > 16
        speculation.close()
    finally:
        runner.close()


class AlwaysDraftingModel(AlwaysDrafting):
    """Proposes all tokens of a draft model, whether they pay or not."""

    def __init__(self, model: ModelDrafter) -> None:
        super().__init__(1024, 4)
        self._model = model

    def propose(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
        ready = [sequence for sequence in decoding if self._model.catch_up(sequence)]
        drafts = self._model.draft(ready, min(4, room // len(decoding)))
        return {sequence: tuple(draft.tokens) for sequence, draft in drafts.items()}

    def forget(self, sequence: Sequence) -> None:
        self._model.forget(sequence)
