"""How a model writes reasoning, calls and text, and what a request makes of that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..base import GenerateRequest, Grammar
from .answer_parser import AnswerParser
from .tokenizer import Tokenizer


@dataclass(frozen=True)
class AnswerForm:
    """What the answer to one request must match, and how it is read.

    Without `new_parser` all of it is text. The control tokens in `visible` are read as the text
    that stands for them; others write nothing.
    """

    grammar: Grammar | None = None
    new_parser: Callable[[], AnswerParser] | None = None
    visible: frozenset[int] = frozenset()


class AnswerForms:
    """The forms of one model's answers, told from its chat template; used from one thread."""

    def __init__(self, tokenizer: Tokenizer, template: str | None) -> None:
        self._tokenizer = tokenizer
        self._template = template

    def of(self, request: GenerateRequest, tail: str) -> AnswerForm:
        """The form of one request, whose prompt ends with the text `tail`."""
        return AnswerForm(request.grammar)
