"""The cache of states: where prompts go on, from which snapshots, and what the store keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ingle.backends.base.load_spec import KVStoreSpec
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.batch import Batch
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.kv_store.kv_store import KVStore
from ingle.backends.engine.sequence import Sequence

MakeRunner = Callable[..., Any]
PAGE = 32
TEXT = [(i * 7 + i * i) % 40 + 1 for i in range(900)]


def ask(engine: Engine, *prompts: list[int], answer: int = 5) -> list[Sequence]:
    """Run prompts together, each of which must get the answer that it has without a cache."""
    asked = [
        Sequence("r", 0, list(prompt), SamplingParams(), max_tokens=answer, ignore_eos=True)
        for prompt in prompts
    ]
    for sequence in asked:
        engine.add(sequence)
    finish(engine)
    runner: Any = engine.runner
    for sequence, prompt in zip(asked, prompts, strict=True):
        expected = runner.answer(list(prompt), answer)
        assert sequence.token_ids[len(prompt) :][: len(expected)] == expected
    return asked


def finish(engine: Engine) -> None:
    while engine.has_work or engine.is_fetching:
        engine.step()


@pytest.fixture(params=[False, True], ids=["in turn", "ahead"])
def runner(request: pytest.FixtureRequest, stateful_number_runner: MakeRunner) -> Any:
    return stateful_number_runner(
        block_size=PAGE, num_blocks=64, context=1024, snapshots=30, ahead=request.param
    )


def test_same_prompt_computes_its_last_token_only(runner: Any) -> None:
    engine = Engine(runner)
    (first,) = ask(engine, TEXT[:100])
    (again,) = ask(engine, TEXT[:100])
    assert (first.cached_tokens, again.cached_tokens) == (0, 99)


def test_next_turn_goes_on_where_the_answer_ended(runner: Any) -> None:
    engine = Engine(runner)
    (turn,) = ask(engine, TEXT[:100])
    (after,) = ask(engine, [*turn.token_ids, 3, 1, 4])
    assert after.cached_tokens == len(turn.token_ids) - 1


def test_token_that_was_computed_ahead_is_not_computed_again(runner: Any) -> None:
    engine = Engine(runner)
    stop = frozenset({runner.answer(TEXT[:100], 3)[-1]})
    turn = Sequence("r", 0, TEXT[:100], SamplingParams(), stop_token_ids=stop)
    engine.add(turn)
    finish(engine)
    (after,) = ask(engine, [*turn.token_ids, 3, 1, 4])
    assert after.cached_tokens == len(turn.token_ids) - (not runner.can_run_ahead)


def test_other_ending_of_a_prompt_goes_on_at_the_page_before(runner: Any) -> None:
    engine = Engine(runner)
    ask(engine, TEXT[:100])
    (other,) = ask(engine, TEXT[:96] + [9] * 20)
    assert other.cached_tokens == 96


def test_prefix_of_several_prompts_gets_a_snapshot(runner: Any) -> None:
    engine = Engine(runner)
    shared = TEXT[:150]
    cached = [ask(engine, shared + [number] * 60)[0].cached_tokens for number in (2, 3, 4)]
    assert cached == [0, 0, 128]


def test_choices_of_one_prompt_compute_it_once(runner: Any) -> None:
    engine = Engine(runner)
    first = Sequence("r", 0, TEXT[:100], SamplingParams(), max_tokens=9, ignore_eos=True)
    other = Sequence(
        "r", 1, TEXT[:100], SamplingParams(), max_tokens=9, ignore_eos=True, parent=first
    )
    for sequence in (first, other):
        engine.add(sequence)
    finish(engine)
    assert other.cached_tokens == 99
    assert other.token_ids == first.token_ids


def test_few_rows_suffice(stateful_number_runner: MakeRunner) -> None:
    """Where only rows without a draft are left for snapshots, answers are the same."""
    runner = stateful_number_runner(block_size=PAGE, num_blocks=64, context=1024, snapshots=0)
    engine = Engine(runner)
    ask(engine, *(TEXT[start : start + 80] for start in range(0, 400, 50)))
    (again,) = ask(engine, TEXT[:80])
    assert again.cached_tokens in (0, 79)


class RightDrafts:
    """Drafts seven right tokens of each answer."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner

    def propose(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
        return {s: tuple(self._runner.answer(s.token_ids, min(7, room))) for s in decoding}

    def waits(self, decoding: list[Sequence], room: int) -> bool:
        return True

    def observe(self, batch: Batch, seconds: float) -> None: ...

    def forget(self, sequence: Sequence) -> None: ...


def test_accepted_drafts_leave_regular_snapshots(stateful_number_runner: MakeRunner) -> None:
    for before in range(230, 240):  # the 256th token is drafted at different places
        runner = stateful_number_runner(block_size=PAGE, num_blocks=64, context=1024, snapshots=30)
        engine = Engine(runner, RightDrafts(runner))
        runner.eog = -1
        (long,) = ask(engine, TEXT[:before], answer=60)
        assert engine.gauges().accepted_tokens_total > 30
        (other,) = ask(engine, [*long.token_ids[:270], 9, 9], answer=1)
        assert other.cached_tokens == 256


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Callable[[], KVStore]]:
    spec = KVStoreSpec(folder=str(tmp_path), model="ab" * 32, disk_bytes=2**30, memory_bytes=2**28)
    stores: list[KVStore] = []

    def make() -> KVStore:
        stores.append(KVStore(spec, "states", spare=lambda: 2**30))
        return stores[-1]

    yield make
    for store in stores:
        store.close(5)


def test_conversation_is_restored_with_its_states(
    stateful_number_runner: MakeRunner, open_store: Callable[[], KVStore]
) -> None:
    turn: list[int] = TEXT[:700]
    for life in range(2):
        store = open_store()
        runner = stateful_number_runner(block_size=PAGE, num_blocks=64, context=1024, snapshots=30)
        engine = Engine(runner, store=store)
        (sequence,) = ask(engine, turn)
        assert sequence.cached_tokens == (704 if life else 0)
        if not life:
            turn = [*sequence.token_ids[:-1], 7, 7, 7]  # the last token was not computed
            while engine.has_unsaved:
                engine.save(0.05)
        store.close(5)


def test_damaged_states_are_computed_again(
    stateful_number_runner: MakeRunner, open_store: Callable[[], KVStore]
) -> None:
    store = open_store()
    runner = stateful_number_runner(block_size=PAGE, num_blocks=64, context=1024, snapshots=30)
    engine = Engine(runner, store=store)
    ask(engine, TEXT[:600])
    while engine.scheduler.kv.evict_oldest():
        pass

    def damaged(row: int, data: bytes) -> bool:
        return False

    runner.write_state = damaged
    (sequence,) = ask(engine, TEXT[:600])
    assert sequence.cached_tokens == 0


def test_snapshot_in_the_middle_of_a_page_is_copied_with_it(runner: Any) -> None:
    engine = Engine(runner)
    ask(engine, TEXT[:40], answer=60)
    copied = runner.copied
    (other,) = ask(engine, [*TEXT[:40], *[2] * 30])
    assert other.cached_tokens == 39
    assert runner.copied == copied + 1
