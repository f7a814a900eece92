from __future__ import annotations

from ingle.backends.text.answers.answer_output import ReasoningBudget


def test_what_is_thought_is_counted() -> None:
    budget = ReasoningBudget(10, [7])
    assert budget.left(0, thinking=True) == 10
    assert budget.left(4, thinking=True) == 6
    assert budget.left(10, thinking=True) == 0


def test_the_answer_costs_nothing() -> None:
    budget = ReasoningBudget(10, [7])
    assert budget.left(0, thinking=False) is None
    assert budget.left(100, thinking=False) is None
    assert budget.left(101, thinking=True) == 10
    assert budget.left(105, thinking=False) is None
    assert budget.left(500, thinking=True) == 6


def test_what_cannot_be_ended_goes_on() -> None:
    budget = ReasoningBudget(1, [7, 8])
    assert budget.left(0, thinking=True) == 1
    assert budget.left(3, thinking=True) == 0
    assert budget.left(4, thinking=True) == 0
    assert budget.end() == [7, 8]
    assert budget.left(6, thinking=True) is None


def test_the_next_thought_is_ended_at_once() -> None:
    budget = ReasoningBudget(1, [7])
    assert budget.left(0, thinking=True) == 1
    assert budget.left(1, thinking=True) == 0
    budget.end()
    assert budget.left(2, thinking=False) is None
    assert budget.left(9, thinking=True) == 0
