"""Detects a template's traits by rendering probe conversations."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...base.conversation import ChatMessage, Tool, ToolCall
from .message_variants import MessageVariant, TemplateTraits, message_variants
from .template_errors import LimitExceeded, TemplateError
from .tool_messages import CallStyle

RenderForm = Callable[[MessageVariant], str | None]
"""Returns the text, or None if the template refuses; raises `TemplateError` if it fails."""

SYSTEM_PROBE = ChatMessage("system", "Probe of the system role.")
USER_PROBE = ChatMessage("user", "Probe of the user role.")

_TOOL_VARIABLES = ("tools", "xml_tools", "functions")
_REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking", "thought")
_CALL_MARKS = {
    "<tool_call>": ("<tool_call>\n", "\n</tool_call>"),
    "<|tool_call|>": ("<|tool_call|>", ""),
}
_SCHEMA = (
    '{"type":"object","properties":{"%s":{"type":"string","description":"A probe."}},'
    '"required":["%s"]}'
)
_TOOLS = [
    Tool("probe_weather", "Probe of weather.", _SCHEMA.replace("%s", "probed_city")),
    Tool("probe_notes", "Probe of notes.", _SCHEMA.replace("%s", "probed_text")),
]
_CALLS = [
    ToolCall("call_probe_1", "probe_weather", '{"probed_city":"Probe of Paris"}'),
    ToolCall("call_probe_2", "probe_notes", '{"probed_text":"Probe of a note"}'),
]
_BESIDE = "Probe of text beside calls."
_RESULTS = [
    ChatMessage("tool", "Probe of rain.", "probe_weather", tool_call_id="call_probe_1"),
    ChatMessage("tool", "Probe of success.", "probe_notes", tool_call_id="call_probe_2"),
]
_ANSWER = [ChatMessage("assistant", "Probe of an answer."), ChatMessage("user", "Probe of more.")]
# Arguments that were encoded to JSON twice, or not at all.
_GARBLED = ('\\"probed_city', "{'probed_city': 'Probe")


def probe_traits(render: RenderForm, source: str) -> TemplateTraits:
    """Return the traits of the template with this `source`; raises `TemplateError` if it fails."""
    probe = _Probe(render, source)
    probe.detect_needed_tools()
    probe.detect_messages()
    probe.detect_tools()
    probe.detect_calls()
    return probe.traits


class _Probe:
    """Renders conversations in the first variant that follows from the traits found so far."""

    def __init__(self, render: RenderForm, source: str) -> None:
        self._render = render
        self._source = source
        marks = (marks for mark, marks in _CALL_MARKS.items() if mark in source)
        self.traits = TemplateTraits(
            reasoning_fields=tuple(field for field in _REASONING_FIELDS if _names(source, field)),
            call_marks=next(marks, ("", "")),
        )

    def detect_needed_tools(self) -> None:
        """Detect whether it fails without an empty list of tools."""
        try:
            self._text([USER_PROBE])
        except LimitExceeded:
            raise
        except TemplateError:
            for variable in _TOOL_VARIABLES:
                traits = {"tools": variable, "needs_tools": True}
                if variable in self._source and self._adopt([USER_PROBE.content], [], traits):
                    return
            raise

    def detect_messages(self) -> None:
        """Detect whether it drops system messages, or text that is not in parts."""
        both = [SYSTEM_PROBE, USER_PROBE]
        text = self._text(both) or self._text([USER_PROBE])
        if text and USER_PROBE.content not in text:
            plain, self.traits = self.traits, dataclasses.replace(self.traits, expects_parts=True)
            text = self._text(both) or self._text([USER_PROBE])
            if USER_PROBE.content not in text:
                self.traits = plain
        text = self._text(both)
        if text and SYSTEM_PROBE.content not in text:
            self.traits = dataclasses.replace(self.traits, drops_system=True)
            return
        later = ChatMessage("system", "Probe of a later system message.")
        text = self._text([*both, *_ANSWER[:1], later, *_ANSWER[1:]])
        one_system = bool(text) and not (SYSTEM_PROBE.content in text and later.content in text)
        self.traits = dataclasses.replace(self.traits, one_system=one_system)

    def detect_tools(self) -> None:
        """Detect the variable with the tools."""
        expected = [USER_PROBE.content, *_described()]
        for variable in _TOOL_VARIABLES:
            if variable in self._source and self._adopt(expected, _TOOLS, {"tools": variable}):
                return

    def detect_calls(self) -> None:
        """Detect the style of calls and results."""
        if self.traits.tools is None:
            return
        plain = self.traits
        styles = [CallStyle(*flags) for flags in itertools.product((False, True), repeat=5)]
        styles.sort(key=lambda style: sum(dataclasses.astuple(style)))
        for beside in (_BESIDE, ""):  # some have no place for text beside calls
            for style in styles:
                self.traits = dataclasses.replace(plain, calls=style)
                if all(self._shows_calls(beside, end) for end in ([], _ANSWER)):
                    return
        self.traits = plain

    def _adopt(
        self, expected: Sequence[str], tools: Sequence[Tool], changes: dict[str, Any]
    ) -> bool:
        """Change the traits if the user's probe then shows all that is expected."""
        before, self.traits = self.traits, dataclasses.replace(self.traits, **changes)
        shown = self._shows(expected, [USER_PROBE], tools)
        self.traits = self.traits if shown else before
        return shown

    def _text(self, messages: Sequence[ChatMessage], tools: Sequence[Tool] = ()) -> str:
        """Return the text, "" if the template refuses; raises `TemplateError`."""
        return self._render(next(message_variants(messages, tools, self.traits))) or ""

    def _shows(
        self, expected: Sequence[str], messages: Sequence[ChatMessage], tools: Sequence[Tool]
    ) -> bool:
        """Return whether the text contains all that is expected, without a failure."""
        try:
            text = self._text(messages, tools)
        except LimitExceeded:
            raise
        except TemplateError:
            return False
        return all(piece in text for piece in expected) and not any(bad in text for bad in _GARBLED)

    def _shows_calls(self, beside: str, end: Sequence[ChatMessage]) -> bool:
        calling = ChatMessage("assistant", beside, tool_calls=_CALLS)
        messages = [SYSTEM_PROBE, USER_PROBE, calling, *_RESULTS, *end]
        said = [message.content for message in messages]
        values = [call.arguments.split('"')[3] for call in _CALLS]
        return self._shows([*said, *values, *_described()], messages, _TOOLS)


def _names(source: str, field: str) -> bool:
    """Return whether the template reads a field of this name."""
    pattern = rf"""(\.|\[\s*['"]|get\(\s*['"]){field}\b|['"]{field}['"]\s+in\b"""
    return re.search(pattern, source) is not None


def _described() -> Iterator[str]:
    """Yield the texts by which a prompt shows each tool."""
    for tool, call in zip(_TOOLS, _CALLS, strict=True):
        yield tool.name
        yield tool.description
        yield call.arguments.split('"')[1]
