"""The compaction benchmark without a model: counts of the values that are still sent."""

from __future__ import annotations

from compaction_cases.chat_maker import make_chat
from compaction_cases.slots import load_slots
from compaction_cases.without_model import count_values


async def test_lost_values_and_stale_sentences_are_counted_by_round() -> None:
    made = make_chat(1, load_slots().tune, tokens=4000)
    found = await count_values([made], 2)
    stated = sum(fact.kind != "never said" for fact in made.facts)
    assert [counts["asked"] for counts in found.values()] == [stated, stated]
    assert [counts["corrected"] for counts in found.values()] == [6, 8]
    assert all(counts["lost"] <= 2 and counts["stand"] <= 1 for counts in found.values())


async def test_sentence_without_correction_is_counted_as_stale() -> None:
    made = make_chat(1, load_slots().tune, tokens=4000)
    late = [fact for fact in made.facts if fact.late]
    for fact in late:
        fact.late = 1  # counted as corrected before the chat has the correction
    found = await count_values([made], 1)
    assert found[1]["stand"] >= len(late) - 1
