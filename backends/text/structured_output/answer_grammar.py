"""Builds Lark grammars for answers with reasoning, tool calls and constrained text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any

from ...base.conversation import Tool
from ...base.sampling_params import Grammar
from ..streaming.json_repair import escaped, quoted
from ..templates.reasoning_tags import ReasoningTags
from ..tokenization.tokenizer import Tokenizer
from ..tool_calls.argument_types import kinds, texts
from ..tool_calls.call_format import CallFormat
from .argument_schemas import argument_schema, parameter_schema

_PLACES = re.compile("(«[a-z0-9]+»)")
_IDS = {"«id»": "/[0-9]{1,3}/", "«id9»": "/[a-zA-Z0-9]{9}/"}
_SYNTAX = re.compile(r"[\\/.^$*+?()\[\]{}|]")
_ANY = "/(?s:.*)/"
_NAME_FOLLOWS = r"\{\s*\"name\"\s*:\s*"
_FIRST_BEGINS = rf"\s*(<tool_call>\s*|```[a-z_]*\s*)?{_NAME_FOLLOWS}"
_NEXT_BEGINS = rf"(<tool_call>\s*)?{_NAME_FOLLOWS}"
_HELD = (
    r"GOES_ON: /\s*,\s*\"(arguments|parameters)\"\s*:\s*/",
    r"ENDS: /\s*\}/",
    r'closed: BLANKS? (("```" | "</tool_call>") BLANKS?)?',
    r"BLANKS: /\s+/",
)
"""No two of these that may come next share a prefix: the lexer does not backtrack."""


@dataclass(frozen=True)
class AnswerGrammar:
    """A Lark grammar whose `start` may refer to the text's grammar as `@content`.

    An `optional` one that cannot be compiled is omitted.
    """

    lark: str
    content: Grammar | None = None
    optional: bool = False


class AnswerRules:
    """Collects the rules of one grammar."""

    def __init__(self, controls: ControlTags) -> None:
        self._controls = controls
        self._rules: list[str] = []

    def finish(
        self, start: str, content: Grammar | None = None, *, optional: bool = False
    ) -> AnswerGrammar:
        """Return the grammar whose start rule is `start`."""
        return AnswerGrammar("\n".join([f"start: {start}", *self._rules]), content, optional)

    def reasoning(self, tags: ReasoningTags, *, begun: bool) -> str:
        """Return the expression for reasoning, optional unless `begun`."""
        thought = self._text_until("thought", tags.closes[0])
        blanks = "/[ \\n]{0,3}/"
        if begun:
            return f"{thought} {blanks}"
        return f"({self._controls.expression(tags.opens[0])} {thought} {blanks})?"

    def calls(self, call_format: CallFormat, tools: Sequence[Tool], *, parallel: bool) -> str:
        """Return the expression for one call of any of the tools, or several if `parallel`."""
        for index, tool in enumerate(tools):
            self._rules.append(f"call_{index}: {self._call(call_format, index, tool)}")
        self._rules.append("call: " + " | ".join(f"call_{index}" for index in range(len(tools))))
        begin, between, end = map(self._controls.expression, call_format.around)
        more = f"({between} call)*" if parallel and not call_format.one_call else ""
        return f"{begin} call {more} {end}"

    def calls_or_text(self, tools: Sequence[Tool], *, parallel: bool) -> str:
        """Return the expression for any text that, if it begins with a JSON call, must be a valid
        one.

        Text before the call's name is one terminal, so that the longest-match lexer switches to the
        call once the name is complete.
        """
        names = [_pattern(escaped(tool.name)) for tool in tools]
        self._rules.append(f'TEXT: {_ANY} & ~/(?s:{_FIRST_BEGINS}"({"|".join(names)})".*)/')
        for index, tool in enumerate(tools):
            name = f'"{names[index]}"'
            self._rules.append(f"first_{index}: /{_FIRST_BEGINS}{name}/ held_{index}")
            self._rules.append(f"next_{index}: /{_NEXT_BEGINS}{name}/ held_{index}")
            self._rules.append(f"held_{index}: GOES_ON held_arguments_{index} ENDS closed")
            schema = argument_schema(tool, flexible=True)
            self._rules.append(f"held_arguments_{index}: %json {schema}")
        self._rules += _HELD
        for which in ("first", "next"):
            choices = " | ".join(f"{which}_{index}" for index in range(len(tools)))
            self._rules.append(f"{which}: {choices}")
        return "TEXT | first next*" if parallel else "TEXT | first"

    def content(self, call_format: CallFormat) -> str:
        """Return the expression for constrained text."""
        before, behind = map(
            self._controls.expression, (call_format.before_text, call_format.behind_text)
        )
        return f"{before} @content {behind}"

    def _call(self, call_format: CallFormat, index: int, tool: Tool) -> str:
        items: list[str] = []
        for piece in _PLACES.split(call_format.call):
            if piece == "«name»":
                items.append(quoted(escaped(tool.name)))
            elif piece == "«arguments»" and call_format.member is None:
                self._rules.append(f"arguments_{index}: %json {argument_schema(tool)}")
                items.append(f"arguments_{index}")
            elif piece == "«arguments»":
                items.append(self._members(call_format, index, tool))
            else:
                items.append(_IDS.get(piece) or self._controls.expression(piece))
        return " ".join(item for item in items if item)

    def _members(self, call_format: CallFormat, index: int, tool: Tool) -> str:
        """Return the rule for a list of arguments in the order of the schema."""
        schema: dict[str, Any] = json.loads(argument_schema(tool))
        properties: dict[str, Any] = schema.get("properties") or {}
        required: list[str] = schema.get("required") or []
        separator = self._controls.expression(call_format.separator)
        rest = first = '""'
        for place, key in reversed(list(enumerate(properties))):
            name = f"member_{index}_{place}"
            self._rules.append(f"{name}: {self._member(call_format, name, tool, schema, key)}")
            behind, ahead = f"rest_{index}_{place}", f"first_{index}_{place}"
            may_lack = key not in required
            self._rules.append(
                f"{behind}: {separator} {name} {rest}" + (f" | {rest}" if may_lack else "")
            )
            self._rules.append(f"{ahead}: {name} {rest}" + (f" | {first}" if may_lack else ""))
            rest, first = behind, ahead
        return first

    def _member(
        self, call_format: CallFormat, name: str, tool: Tool, schema: dict[str, Any], key: str
    ) -> str:
        allowed = kinds(schema["properties"][key], schema)
        is_text = "string" in allowed and (
            call_format.values == "text" or call_format.quotes is not None
        )
        member = (call_format.member or "").replace("«key»", key)
        before, _, after = member.replace("«text»", "true" if is_text else "false").partition(
            "«value»"
        )
        if not is_text:
            self._rules.append(f"{name}_value: %json {parameter_schema(tool, key)}")
            return self._join(before, f"{name}_value", after)
        if call_format.quotes is not None:
            before, after = before + call_format.quotes[0], call_format.quotes[1] + after
        choices = texts(schema["properties"][key])
        if choices:
            return self._join(before, f"({' | '.join(map(quoted, choices))})", after)
        # The parser ends a value at the tag wherever it is, so surrounding line breaks belong to
        # it.
        tag, blanks = after.strip(), after[len(after.rstrip()) :]
        return self._join(before, self._text_until(f"{name}_text", tag), blanks)

    def _join(self, before: str, middle: str, after: str) -> str:
        expression = self._controls.expression
        return " ".join(filter(None, (expression(before), middle, expression(after))))

    def _text_until(self, name: str, tag: str) -> str:
        """Return the name of the rule for any text up to the tag, and the tag."""
        if not tag:
            self._rules.append(f"{name}: {_ANY}")
        elif self._controls.holds_control(tag):
            self._rules.append(f"{name}: {_ANY} {self._controls.expression(tag)}")
        else:
            self._rules.append(f"{name}[lazy]: /(?s:.*){_pattern(tag)}/")
        return name


def _pattern(text: str) -> str:
    """Escape a text for a regular expression."""
    return _SYNTAX.sub(r"\\\g<0>", text).replace("\n", "\\n")


_CANDIDATES = re.compile(r"(\]<\]minimax\[>\[|<[^<>\s«»]+>|\[/?[A-Z_]+\])")


class ControlTags:
    """Knows which parts of a text are control tokens of a vocabulary."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._control = lru_cache(maxsize=1024)(self._look_up)

    def visible(self, texts: Iterable[str]) -> frozenset[int]:
        """Return the control tokens in any of the texts."""
        found = (self._control(piece) for text in texts for piece in _CANDIDATES.split(text))
        return frozenset(token for token in found if token is not None)

    def holds_control(self, text: str) -> bool:
        """Return whether any part of the text is a control token."""
        return bool(self.visible([text]))

    def expression(self, text: str) -> str:
        """Return a text as a Lark expression; "" for an empty text."""
        items: list[str] = []
        for token, pieces in groupby(_CANDIDATES.split(text), key=self._control):
            if token is not None:
                items += [f"<[{token}]>" for _ in pieces]
            elif plain := "".join(pieces):
                items.append(quoted(plain))
        return " ".join(items)

    def _look_up(self, text: str) -> int | None:
        if not _CANDIDATES.fullmatch(text) or self._tokenizer.find_token(text) is None:
            return None
        ids = self._tokenizer.encode(text, add_special=False, parse_special=True)
        return ids[0] if len(ids) == 1 and not self._tokenizer.token_bytes(ids[0]) else None
