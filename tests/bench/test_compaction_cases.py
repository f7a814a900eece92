"""Generated chats for the compaction benchmark, and the grading of answers about their facts."""

from __future__ import annotations

import pytest
from compaction_cases.chat_maker import COUNTS, Fact, make_chat
from compaction_cases.grading import abstains, normalised, says
from compaction_cases.probing import Score, grade
from compaction_cases.rounds import Round, gates, retention
from compaction_cases.slots import load_slots
from compaction_cases.views import as_messages, cut_off


def test_same_seed_makes_the_same_chat() -> None:
    slots = load_slots().tune
    made = make_chat(1, slots, tokens=4000)
    assert made == make_chat(1, slots, tokens=4000)
    assert made != make_chat(2, slots, tokens=4000)
    assert len(made.facts) == sum(COUNTS.values()) == 45


def test_chat_states_every_fact_and_corrections_follow() -> None:
    made = make_chat(3, load_slots().report, tokens=4000)
    first = normalised(" ".join(turn.prompt for turn in made.turns))
    for fact in made.facts:
        if fact.kind == "never said":
            continue
        stated = fact.stale if fact.late else fact.value
        assert normalised(stated.split("|")[0]) in first, fact
        if fact.late:
            later = normalised(" ".join(turn.prompt for turn in made.rounds[fact.late - 2]))
            assert normalised(fact.value.split("|")[0]) in later


def test_tuning_and_reporting_slots_are_disjoint() -> None:
    slots = load_slots()
    assert not {slot.ask for slot in slots.tune} & {slot.ask for slot in slots.report}
    assert {slot.kind for slot in slots.tune} == {slot.kind for slot in slots.report}


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("It is on March 14th.", "14 March"),
        ("The code is 48-KX-913.", "48-KX-913"),
        ("1,150 euros", "1150"),
        ("They have four.", "4"),
        ("They love the mountains", "the mountains|mountain"),
        ("https://plates.example/id/55-b", "https://plates.example/id/55-b"),
        ("recycling", "they recycle old ones|recycl"),
    ],
)
def test_correct_answers_match_despite_their_wording(answer: str, value: str) -> None:
    assert says(answer, value)


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("It costs 1150.", "115"),
        ("48-KX-914", "48-KX-913"),
        ("unknown", "Ilse"),
        ("14 May", "14 March"),
    ],
)
def test_wrong_answers_do_not_match(answer: str, value: str) -> None:
    assert not says(answer, value)


def test_abstaining_is_correct_only_for_unstated_facts() -> None:
    assert abstains("Unknown.")
    assert abstains("That was not mentioned.")
    assert not abstains("Size 42")
    never = Fact("never said", "What is the user's shoe size?", "-")
    assert grade(never, "unknown", 1).right == 1
    assert grade(never, "42", 1).false_memories == 1


def test_old_value_is_stale_after_its_correction() -> None:
    fact = Fact("correction", "When?", "8:15", stale="9:40", late=2)
    assert grade(fact, "At 9:40.", 1).right == 1
    assert grade(fact, "At 9:40.", 2).stale == 1
    assert grade(fact, "At 8:15 instead of 9:40.", 2).stale == 0


def test_cut_off_keeps_the_last_turns() -> None:
    made = make_chat(1, load_slots().tune, tokens=4000)
    full = as_messages(made.turns)
    cut = cut_off(full, 0.25)
    assert cut == full[-len(cut) :]
    assert 0.15 < sum(len(m["content"]) for m in cut) / sum(len(m["content"]) for m in full) <= 0.25


def test_gates_list_missed_thresholds() -> None:
    done = Round(1, tokens={"full": 4000, "compacted": 1000})
    done.scores = {"full": Score(right=30, asked=40), "compacted": Score(right=24, asked=40)}
    done.cost.undo_is_exact, done.cost.after = True, 1000
    assert retention([done], "compacted") == pytest.approx(0.8)
    assert gates([[done]]) == ["retention after 1 is below 0.9"]
