"""Counting what is still sent, without a model."""

from __future__ import annotations

from compaction_cases.chat_maker import make_chat
from compaction_cases.slots import load_slots
from compaction_cases.without_model import count_values


async def test_values_and_old_sentences_are_counted_by_round() -> None:
    made = make_chat(1, load_slots().tune, tokens=4000)
    found = await count_values([made], 2)
    told = sum(fact.kind != "never said" for fact in made.facts)
    assert [counts["asked"] for counts in found.values()] == [told, told]
    assert [counts["corrected"] for counts in found.values()] == [6, 8]
    assert all(counts["lost"] <= 2 and counts["stand"] <= 1 for counts in found.values())


async def test_an_old_sentence_that_nothing_corrects_stands() -> None:
    made = make_chat(1, load_slots().tune, tokens=4000)
    late = [fact for fact in made.facts if fact.late]
    for fact in late:
        fact.late = 1  # counted as corrected, though nothing of the kind was said yet
    found = await count_values([made], 1)
    assert found[1]["stand"] >= len(late) - 1
