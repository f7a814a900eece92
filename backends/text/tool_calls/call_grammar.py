"""Grammars of answers that are calls, or thoughts and then something else."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...base import Grammar, GrammarKind
from ...conversation import Tool
from ..reasoning_tags import ReasoningTags
from .argument_schemas import ArgumentSchemas
from .call_format import CallFormat
from .control_tags import ControlTags

_PLACES = re.compile("(«[a-z0-9]+»)")
_SYNTAX = re.compile(r"[\\/.^$*+?()\[\]{}|]")
_IDS = {"«id»": "/[0-9]{1,3}/", "«id9»": "/[a-zA-Z0-9]{9}/"}


@dataclass(frozen=True)
class AnswerGrammar:
    """A grammar in Lark whose `start` may refer to that of the text as `@content`."""

    lark: str
    content: Grammar | None = None

    @property
    def as_lark(self) -> Grammar:
        """Itself, as messages about it name it."""
        return Grammar(GrammarKind.LARK, self.lark, param="tools")


class AnswerRules:
    """Collects the rules of one grammar."""

    def __init__(self, controls: ControlTags, schemas: ArgumentSchemas) -> None:
        self._controls = controls
        self._schemas = schemas
        self._rules: list[str] = []

    def finish(self, start: str, content: Grammar | None = None) -> AnswerGrammar:
        """The grammar of what matches `start`."""
        return AnswerGrammar("\n".join([f"start: {start}", *self._rules]), content)

    def thoughts(self, tags: ReasoningTags, *, begun: bool) -> str:
        """The expression for thoughts, which may be left out if they are not `begun`."""
        close = tags.closes[0]
        if self._controls.holds_control(close):
            self._rules.append("thought: /(?s:.*)/ " + self._controls.expression(close))
        else:
            self._rules.append(f"thought[lazy]: /(?s:.*){lark_pattern(close)}/")
        blanks = "/[ \\n]{0,3}/"
        if begun:
            return f"thought {blanks}"
        return f"({self._controls.expression(tags.opens[0])} thought {blanks})?"

    def calls(self, call_format: CallFormat, tools: Sequence[Tool], *, parallel: bool) -> str:
        """The expression for one call of any of the tools, or more of them where `parallel`."""
        written = call_format.written
        for index, tool in enumerate(tools):
            self._rules.append(f"call_{index}: {self._call(written.call, index, tool)}")
        self._rules.append("call: " + " | ".join(f"call_{index}" for index in range(len(tools))))
        begin, between, end = map(
            self._controls.expression, (written.begin, written.between, written.end)
        )
        more = f"({between} call)*" if parallel else ""
        return f"{begin} call {more} {end}"

    def _call(self, text: str, index: int, tool: Tool) -> str:
        items: list[str] = []
        for piece in _PLACES.split(text):
            if piece == "«name»":
                items.append(json.dumps(tool.name))
            elif piece == "«arguments»":
                self._rules.append(f"arguments_{index}: %json {self._schemas.of(tool)}")
                items.append(f"arguments_{index}")
            else:
                items.append(_IDS.get(piece) or self._controls.expression(piece))
        return " ".join(items)


def lark_pattern(text: str) -> str:
    """A text within a regular expression."""
    return _SYNTAX.sub(r"\\\g<0>", text).replace("\n", "\\n")
