"""`ReasoningBudget`: counting and ending reasoning."""

from __future__ import annotations

from ingle.backends.text.answers.answer_output import ReasoningBudget


def test_reasoning_tokens_are_counted() -> None:
    budget = ReasoningBudget(10, [7])
    assert budget.left(0, thinking=True) == 10
    assert budget.left(4, thinking=True) == 6
    assert budget.left(10, thinking=True) == 0


def test_answer_tokens_are_not_counted() -> None:
    budget = ReasoningBudget(10, [7])
    assert budget.left(0, thinking=False) is None
    assert budget.left(100, thinking=False) is None
    assert budget.left(101, thinking=True) == 10
    assert budget.left(105, thinking=False) is None
    assert budget.left(500, thinking=True) == 6


def test_reasoning_continues_if_it_cannot_be_ended() -> None:
    budget = ReasoningBudget(1, [7, 8])
    assert budget.left(0, thinking=True) == 1
    assert budget.left(3, thinking=True) == 0
    assert budget.left(4, thinking=True) == 0
    assert budget.end() == [7, 8]
    assert budget.left(6, thinking=True) is None


def test_exhausted_budget_ends_the_next_reasoning_immediately() -> None:
    budget = ReasoningBudget(1, [7])
    assert budget.left(0, thinking=True) == 1
    assert budget.left(1, thinking=True) == 0
    budget.end()
    assert budget.left(2, thinking=False) is None
    assert budget.left(9, thinking=True) == 0
