"""`KVStore` behind an engine: offload to memory and disk, restore, limits, privacy and failures."""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ingle.backends.base.events import FinishReason
from ingle.backends.base.requests import Priority
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.kv_store.disk_tier import KVDisk
from ingle.backends.engine.scheduling.kv_fetches import Fetches
from ingle.backends.engine.sequence import Sequence

Chat = Callable[[int, int], list[int]]
MakeEngine = Callable[..., Any]


def test_evicted_tokens_are_restored_from_memory(storing: MakeEngine, chat: Chat) -> None:
    engine = storing(disk=0)
    first = engine.ask(chat(1, 700))
    engine.ask(chat(2, 900))  # needs the room
    assert engine.engine.gauges().kv_memory_bytes == 4 * 702
    before = engine.engine.gauges().prompt_tokens_total
    again = engine.ask(first.token_ids + chat(3, 20))
    assert again.cached_tokens == 702
    gauges = engine.engine.gauges()
    assert gauges.restored_tokens_total == 702
    assert gauges.prompt_tokens_total - before == 1 + 20
    assert not engine.folder.exists()


def test_idle_chats_are_offloaded_while_others_decode(storing: MakeEngine, chat: Chat) -> None:
    """A step's attention runs over all used cells: cached ones are moved to memory and restored."""
    engine = storing(context=4096)
    idle = [engine.ask(chat(seed, 600)) for seed in (1, 2)]
    secret = engine.ask(chat(3, 600), private=True)
    engine.ask(chat(4, 100), max_tokens=9)
    gauges = engine.engine.gauges()
    assert gauges.kv_kept < 800, "the private one has no other place"
    assert gauges.kv_memory_bytes > 0
    for sequence in (*idle, secret):
        again = engine.ask(sequence.token_ids + chat(5, 10))
        assert again.cached_tokens >= 600


def test_nothing_is_offloaded_when_the_machine_has_no_memory(
    storing: MakeEngine, chat: Chat
) -> None:
    engine = storing(context=4096, disk=0, spare=-1)
    engine.ask(chat(1, 600))
    engine.ask(chat(3, 600), max_tokens=9)
    assert engine.engine.gauges().kv_memory_bytes == 0
    assert engine.ask(chat(1, 600) + chat(5, 10)).cached_tokens == 600


def test_nothing_is_offloaded_beyond_the_memory_limit(storing: MakeEngine, chat: Chat) -> None:
    engine = storing(context=4096, memory=1000 * 4)
    engine.ask(chat(1, 100))
    engine.ask(chat(2, 900))
    engine.ask(chat(3, 100), max_tokens=9)
    assert engine.ask(chat(2, 900) + chat(5, 10)).cached_tokens == 900


def test_restarted_worker_restores_from_disk(storing: MakeEngine, chat: Chat) -> None:
    engine = storing(memory=0)
    first = engine.ask(chat(1, 700))
    engine.save()
    assert engine.engine.gauges().kv_disk_bytes == sum(f.stat().st_size for f in engine.files())
    engine.store.close(5)
    second = storing(memory=0)
    assert second.ask(first.token_ids + chat(2, 50)).cached_tokens == 702
    edited = first.token_ids[:600] + chat(3, 50)
    third = storing(memory=0)
    assert third.ask(edited).cached_tokens == 600, "part of a chunk is enough"


def test_next_turn_writes_only_new_chunks(storing: MakeEngine, chat: Chat) -> None:
    engine = storing()
    first = engine.ask(chat(1, 600))
    engine.save()
    before = {file: file.stat().st_mtime_ns for file in engine.files()}
    assert len(before) == 3
    engine.ask(first.token_ids + chat(2, 100))
    engine.save()
    after = set(engine.files())
    assert len(after) == 3, "the longer end replaces the shorter one"
    assert len(after & set(before)) == 2


def test_short_chat_is_kept_in_memory_but_not_on_disk(storing: MakeEngine, chat: Chat) -> None:
    engine = storing(context=512)
    short = engine.ask(chat(1, 200))
    engine.save()
    engine.ask(chat(2, 500), private=True)  # needs the room
    assert engine.engine.gauges().kv_memory_bytes == 4 * 202
    engine.save()
    assert not engine.engine.has_unsaved
    assert engine.files() == []
    grown = engine.ask(short.token_ids + chat(3, 100))
    assert grown.cached_tokens == 202
    engine.save()
    assert len(engine.files()) == 2
    engine.engine.trim()


def test_short_chats_evicted_from_memory_are_not_written(storing: MakeEngine, chat: Chat) -> None:
    engine = storing(context=512, memory=4 * 300)
    for seed in range(1, 6):
        engine.ask(chat(seed, 200))
    engine.engine.trim()
    engine.save()
    assert engine.engine.gauges().kv_memory_bytes == 0
    assert engine.files() == []


def test_chats_share_stored_chunks_of_a_common_prefix(storing: MakeEngine, chat: Chat) -> None:
    engine = storing(context=4096)
    system = chat(1, 512)
    for seed in (2, 3, 4):
        engine.ask(system + chat(seed, 100))
    engine.save()
    assert len(engine.files()) == 2 + 3


def test_restore_extends_the_prefix_that_is_cached(storing: MakeEngine, chat: Chat) -> None:
    """The cache holds the start, the store a longer prefix: only the remainder is restored."""
    engine = storing(context=2048)
    whole = engine.ask(chat(1, 1000))
    engine.save()
    engine.store.close(5)
    second = storing(context=2048)
    second.ask(whole.token_ids[:300])
    again = second.ask(whole.token_ids + chat(2, 9))
    assert again.cached_tokens == 1002
    assert second.engine.gauges().restored_tokens_total == 300 - 1 + 1002 - 256


def test_preempted_sequence_is_restored_not_recomputed(storing: MakeEngine, chat: Chat) -> None:
    engine = storing(context=512, slots=2)
    both = [
        Sequence("r", 0, chat(seed, 200), SamplingParams(), max_tokens=100, ignore_eos=True)
        for seed in (1, 2)
    ]
    for sequence in both:
        engine.engine.add(sequence)
    engine.run()
    gauges = engine.engine.gauges()
    assert gauges.preemptions_total > 0
    assert gauges.restored_tokens_total > 200
    assert [sequence.num_generated for sequence in both] == [100, 100]


def test_private_sequences_are_never_stored(storing: MakeEngine, chat: Chat) -> None:
    engine = storing()
    private = engine.ask(chat(1, 700), private=True)
    engine.save()
    engine.ask(chat(2, 900))
    engine.ask(chat(3, 900))
    engine.save()
    secret = {np.array(chat(1, 60), np.int32).tobytes()[4 * i : 4 * i + 40] for i in range(9)}
    for file in engine.files():
        content = file.read_bytes()
        assert not any(part in content for part in secret)
    assert engine.store.match(np.array(private.token_ids, np.int32)) == 0
    assert engine.ask(private.token_ids, private=True).cached_tokens == 0


def test_private_turn_is_cached_for_the_next_private_turn(storing: MakeEngine, chat: Chat) -> None:
    engine = storing()
    first = engine.ask(chat(1, 300), private=True)
    assert engine.ask(first.token_ids + chat(2, 10), private=True).cached_tokens == 302
    engine.save()
    assert engine.files() == []


def test_public_prefix_of_a_chat_that_turned_private_is_saved(
    storing: MakeEngine, chat: Chat
) -> None:
    engine = storing()
    public = engine.ask(chat(1, 300))
    private = engine.ask(public.token_ids + chat(2, 300), private=True)
    assert private.cached_tokens == 302
    engine.save()
    assert engine.store.match(np.array(private.token_ids, np.int32)) == 302


def test_public_chat_with_a_private_beginning_is_saved(storing: MakeEngine, chat: Chat) -> None:
    engine = storing()
    private = engine.ask(chat(1, 300), private=True)
    public = engine.ask(private.token_ids + chat(2, 300))
    engine.save()
    assert engine.store.match(np.array(public.token_ids, np.int32)) == 605


@pytest.mark.parametrize("number", [0, 1, 2])
def test_corrupt_file_is_recomputed(storing: MakeEngine, chat: Chat, number: int) -> None:
    engine = storing()
    first = engine.ask(chat(1, 700))
    engine.save()
    engine.store.close(5)
    path = engine.store._tree.match(np.array(first.token_ids, np.int32))
    file = engine.folder / f"{path[number][0].key.hex()}.kv"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    second = storing()
    again = second.ask(first.token_ids)
    assert again.cached_tokens == 256 * number
    assert again.finish_reason is FinishReason.LENGTH
    second.save()
    second.store.close(5)
    assert storing().ask(first.token_ids + chat(2, 9)).cached_tokens >= 702, "it is whole again"


def test_failed_restore_recomputes_and_drops_the_stored_chunk(
    storing: MakeEngine, chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = storing(disk=0)
    first = engine.ask(chat(1, 700))
    engine.ask(chat(2, 900))

    def refuse(*_: object) -> bool:
        return False

    monkeypatch.setattr(engine.runner, "restore", refuse)
    assert engine.ask(first.token_ids).cached_tokens == 0
    assert engine.store.match(np.array(first.token_ids, np.int32)) == 0
    assert engine.engine.gauges().restored_tokens_total == 0


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES])
def test_disk_errors_fail_no_request(
    storing: MakeEngine,
    chat: Chat,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    number: int,
) -> None:
    def fail(*_: object, **__: object) -> bool:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(KVDisk, "write", fail)
    engine = storing()
    with caplog.at_level(logging.WARNING):
        for seed in range(1, 4):
            engine.ask(chat(seed, 900))
            engine.save()
    assert engine.files() == []
    assert len(caplog.records) == 1
    assert not engine.engine.saves
    assert engine.ask(chat(2, 900)).cached_tokens >= 512, "memory still works"


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_inaccessible_folder_fails_no_request(
    storing: MakeEngine, chat: Chat, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with caplog.at_level(logging.WARNING):
        engine = storing(root=tmp_path / "link")
        assert engine.ask(chat(1, 300)).num_generated == 3
    assert "is a link" in caplog.text
    assert not engine.engine.has_unsaved
    assert list((tmp_path / "target").iterdir()) == []


def test_memory_tier_respects_its_limit(storing: MakeEngine, chat: Chat) -> None:
    engine = storing(disk=0, memory=4 * 1000)
    chats = [engine.ask(chat(seed, 700)) for seed in range(1, 6)]
    assert 0 < engine.engine.gauges().kv_memory_bytes <= 4 * 1000
    newest = np.array(chats[-2].token_ids, np.int32)
    oldest = np.array(chats[0].token_ids, np.int32)
    assert engine.store.match(newest) == 702
    assert engine.store.match(oldest) == 0


def test_memory_tier_keeps_the_most_recently_used(storing: MakeEngine, chat: Chat) -> None:
    engine = storing(disk=0, memory=4 * 1500)
    chats = [engine.ask(chat(seed, 700)) for seed in (1, 2, 3)]
    engine.ask(chats[0].token_ids)  # needs the room of the third, and uses the first
    first, second, third = (np.array(one.token_ids, np.int32) for one in chats)
    assert engine.store.match(first) == engine.store.match(third) == 702
    assert engine.store.match(second) == 0


def test_chat_larger_than_the_memory_limit_keeps_its_beginning(
    storing: MakeEngine, chat: Chat
) -> None:
    engine = storing(disk=0, memory=4 * 600)
    first = engine.ask(chat(1, 1000))
    engine.ask(chat(2, 1000))
    assert engine.store.match(np.array(first.token_ids, np.int32)) == 512


def test_memory_tier_uses_no_memory_the_machine_is_short_of(
    storing: MakeEngine, chat: Chat
) -> None:
    engine = storing(disk=0, spare=-1)
    engine.ask(chat(1, 700))
    engine.ask(chat(2, 900))
    assert engine.engine.gauges().kv_memory_bytes == 0


def test_chunks_beyond_the_memory_limit_go_to_disk(storing: MakeEngine, chat: Chat) -> None:
    engine = storing(memory=4 * 300)
    first = engine.ask(chat(1, 700))
    engine.ask(chat(2, 900))
    engine.save()
    engine.store.close(5)
    assert storing().ask([*first.token_ids, 1]).cached_tokens == 702


def test_reclaimed_memory_is_saved_to_disk(storing: MakeEngine, chat: Chat) -> None:
    engine = storing()
    first = engine.ask(chat(1, 700))
    engine.ask(chat(2, 900))
    engine.engine.trim()
    assert engine.engine.gauges().kv_memory_bytes == 0
    assert engine.ask([*first.token_ids, 1]).cached_tokens == 702


def test_disk_tier_respects_its_limit(storing: MakeEngine, chat: Chat) -> None:
    limit = 20_000
    engine = storing(disk=limit)
    chats: list[Sequence] = []
    for seed in range(1, 12):
        chats.append(engine.ask(chat(seed, 700)))
        engine.save()
        size = sum(file.stat().st_size for file in engine.files())
        assert size == engine.engine.gauges().kv_disk_bytes <= limit
    engine.store.close(5)
    later = storing(disk=limit)
    assert later.ask([*chats[-1].token_ids, 1]).cached_tokens == 702
    assert later.ask([*chats[0].token_ids, 1]).cached_tokens == 0


def test_chat_larger_than_the_disk_limit_keeps_a_prefix(storing: MakeEngine, chat: Chat) -> None:
    engine = storing(disk=6000)
    first = engine.ask(chat(1, 1000))
    engine.save()
    engine.store.close(5)
    found = storing(disk=6000).store.match(np.array(first.token_ids, np.int32))
    assert found in (256, 512)


def test_request_cancelled_during_its_fetch_frees_its_cells(
    storing: MakeEngine, chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = storing()
    first = engine.ask(chat(1, 700))
    engine.ask(chat(2, 900))
    gate = threading.Event()
    read = engine.store._read

    def read_late(*arguments: object) -> object:
        gate.wait(10)
        return read(*arguments)

    monkeypatch.setattr(engine.store, "_read", read_late)
    cancelled = Sequence("r", 0, list(first.token_ids), SamplingParams(), max_tokens=3)
    engine.engine.add(cancelled)
    engine.engine.step()
    assert engine.engine.is_fetching
    assert not engine.engine.has_work, "a step would have nothing to compute"
    other = Sequence("s", 0, chat(5, 40), SamplingParams(), max_tokens=3)
    engine.engine.add(other)
    while engine.engine.has_work:
        engine.engine.step()
    assert other.num_generated == 3, "no other sequence waits"
    engine.engine.finish(cancelled, FinishReason.CANCELLED)
    assert not engine.engine.is_fetching
    gate.set()
    engine.run()
    assert cancelled.num_generated == 0
    assert engine.engine.gauges().kv_used == 0


def test_sequence_waits_for_at_most_three_fetches(storing: MakeEngine, chat: Chat) -> None:
    """Others may take the cells of what was read again and again."""
    engine = storing()
    first = engine.ask(chat(1, 700))
    engine.ask(chat(2, 900))
    ended = threading.Event()
    fetches = Fetches(engine.store, ended.set)
    again = Sequence("r", 0, list(first.token_ids), SamplingParams(), max_tokens=3)
    begun = 0
    while fetches.begin(again, 0):
        begun += 1
        assert ended.wait(20)
        ended.clear()
        assert fetches.take_ended() == [again]
        again.stored = []
    assert begun == 3


def test_choices_of_one_prompt_wait_for_one_fetch(storing: MakeEngine, chat: Chat) -> None:
    engine = storing()
    first = engine.ask(chat(1, 700))
    engine.ask(chat(2, 900))
    prompt = first.token_ids[:700]
    parent = Sequence("r", 0, list(prompt), SamplingParams(), max_tokens=3)
    children = [
        Sequence("r", index, list(prompt), SamplingParams(), max_tokens=3, parent=parent)
        for index in (1, 2)
    ]
    for sequence in (parent, *children):
        engine.engine.add(sequence)
    engine.run()
    assert [s.cached_tokens for s in (parent, *children)] == [699] * 3
    assert engine.engine.gauges().restored_tokens_total == 699


def test_reader_errors_fail_no_request(
    storing: MakeEngine,
    chat: Chat,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = storing()
    first = engine.ask(chat(1, 700))
    engine.ask(chat(2, 900))

    def fail(_: object) -> float:
        return 1 / 0

    monkeypatch.setattr(engine.store, "_load", fail)
    assert engine.ask(first.token_ids).num_generated == 3
    assert "division by zero" in caplog.text


def test_updated_engine_does_not_reuse_stored_chunks(storing: MakeEngine, chat: Chat) -> None:
    engine = storing()
    first = engine.ask(chat(1, 700))
    engine.save()
    engine.store.close(5)
    other = type(engine.store)(engine_spec(engine), "scripted 2", spare=lambda: 0)
    assert other.match(np.array(first.token_ids, np.int32)) == 0
    other.close(5)
    assert engine.files() == [], "nothing of it can be used any more"


def engine_spec(engine: Any) -> Any:
    """Return the load spec that the engine's store was made with."""
    from ingle.backends.base.load_spec import KVStoreSpec

    return KVStoreSpec(
        folder=str(engine.folder.parent),
        model=engine.folder.name,
        disk_bytes=2**30,
        memory_bytes=0,
    )


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    turns=st.lists(
        st.tuples(
            st.integers(0, 3),  # conversation
            st.integers(0, 500),  # number of its tokens that are kept
            st.integers(1, 400),  # number of tokens added
            st.booleans(),  # private
            st.sampled_from(["ask", "save", "trim", "restart", "cancel"]),
        ),
        min_size=1,
        max_size=12,
    ),
    disk=st.sampled_from([0, 9_000, 2**30]),
    memory=st.sampled_from([0, 3_000, 2**30]),
    context=st.sampled_from([600, 1500]),
)
@example(  # a full disk rejects a chunk whose successors are still in memory
    turns=[
        (0, 20, 400, False, "ask"),
        (0, 400, 168, False, "ask"),
        (0, 276, 18, False, "ask"),
        (1, 71, 220, False, "ask"),
        (0, 400, 168, False, "ask"),
        (0, 206, 268, False, "ask"),
        (0, 52, 331, False, "restart"),
        (0, 494, 199, False, "ask"),
        (0, 500, 213, True, "ask"),
        (0, 0, 196, True, "ask"),
        (0, 53, 108, False, "ask"),
        (0, 339, 216, False, "ask"),
    ],
    disk=9_000,
    memory=2**30,
    context=600,
)
def test_random_histories_keep_every_cell_consistent(
    storing: MakeEngine,
    tmp_path_factory: pytest.TempPathFactory,
    turns: list[tuple[int, int, int, bool, str]],
    disk: int,
    memory: int,
    context: int,
) -> None:
    """The scripted runner compares the slots with their sequences in each step."""
    fields = {"disk": disk, "memory": memory, "context": context, "slots": 2}
    root = tmp_path_factory.mktemp("kv")
    engine = storing(root=root, **fields)
    chats: dict[int, list[int]] = {}
    for number, (which, kept, added, private, action) in enumerate(turns):
        tokens = (chats.get(which, [])[:kept] + [number % 250] * added)[: context - 10]
        sequence = Sequence("r", 0, list(tokens), SamplingParams(), max_tokens=4, private=private)
        engine.engine.add(sequence)
        if action == "cancel":
            engine.engine.step()
            engine.engine.finish(sequence, FinishReason.CANCELLED)
        engine.run()
        chats[which] = sequence.token_ids
        assert engine.engine.gauges().kv_memory_bytes <= memory
        if action == "save":
            engine.save()
        elif action == "trim":
            engine.engine.trim()
        elif action == "restart":
            engine.save()
            engine.store.close(5)
            engine = storing(root=root, **fields)
        assert engine.runner.free_cells == context - engine.engine.gauges().kv_kept
    engine.save()
    engine.store.close(5)
    gauges = engine.engine.gauges()
    assert gauges.kv_used == 0
    assert gauges.kv_disk_bytes == sum(file.stat().st_size for file in engine.files()) <= disk
    if all(private for *_, private, _ in turns):
        assert gauges.kv_disk_bytes == gauges.kv_memory_bytes == 0


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    requests=st.lists(
        st.tuples(
            st.integers(0, 2),  # conversation it belongs to
            st.integers(0, 400),  # tokens it shares with the others of that conversation
            st.integers(1, 80),  # tokens of its own
            st.integers(1, 40),  # max_tokens
            st.integers(1, 3),  # n
            st.sampled_from(Priority),
            st.integers(0, 40),  # arrives after this many steps
            st.one_of(st.none(), st.integers(0, 60)),  # cancelled after this many steps
        ),
        min_size=1,
        max_size=8,
    ),
    slots=st.integers(1, 4),
    memory=st.sampled_from([3_000, 2**30]),
)
def test_random_load_completes(
    storing: MakeEngine,
    tmp_path_factory: pytest.TempPathFactory,
    requests: list[tuple[int, int, int, int, int, Priority, int, int | None]],
    slots: int,
    memory: int,
) -> None:
    root = tmp_path_factory.mktemp("kv")
    engine = storing(root=root, context=600, slots=slots, memory=memory)
    arrivals: dict[int, list[Sequence]] = {}
    cancels: dict[int, list[Sequence]] = {}
    everything: list[Sequence] = []
    for number, (chat, common, own, max_tokens, n, priority, at, cancel) in enumerate(requests):
        prompt = [(chat * 50 + i) % 250 for i in range(common)] + [number] * own
        group: list[Sequence] = []
        for index in range(n):
            parent = group[0] if group else None
            group.append(
                Sequence("r", index, list(prompt), SamplingParams(), max_tokens, parent=parent)
            )
            group[-1].priority = priority
            group[-1].ignore_eos = True
        arrivals.setdefault(at, []).extend(group)
        everything += group
        if cancel is not None:
            cancels.setdefault(max(at, cancel), []).append(group[0])
    for step in range(20_000):
        for sequence in arrivals.pop(step, []):
            engine.engine.add(sequence)
        for sequence in cancels.pop(step, []):
            engine.engine.finish(sequence, FinishReason.CANCELLED)
        if engine.engine.has_work:
            engine.engine.step()
            scheduler = engine.engine.scheduler
            assert engine.runner.free_cells == 600 - scheduler.kv.used - scheduler.kv.kept
        elif engine.engine.is_fetching:
            engine.run()
        elif not arrivals and not cancels:
            break
    assert not engine.engine.has_work
    assert not engine.engine.is_fetching
    assert engine.engine.gauges().kv_used == 0
    for sequence in everything:
        if sequence.finish_reason is not FinishReason.CANCELLED:
            assert sequence.num_generated == min(
                sequence.max_tokens or 0, 600 - sequence.prompt_length
            )
