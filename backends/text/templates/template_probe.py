"""Detects a template's traits by rendering probe conversations."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterator, Sequence

from ...base.conversation import ChatMessage, Tool, ToolCall
from .message_variants import MessageVariant, message_variants
from .template_errors import LimitExceeded, TemplateError
from .template_traits import TemplateTraits
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
# How arguments look if they were encoded to JSON twice or not at all.
_GARBLED = ('\\"probed_city', "{'probed_city': 'Probe")


def probe_traits(render: RenderForm, source: str) -> TemplateTraits:
    """Return the traits of the template with this `source`; raises `TemplateError` if it fails."""
    traits = TemplateTraits(
        reasoning_fields=tuple(_named(_REASONING_FIELDS, source)),
        call_marks=next((marks for mark, marks in _CALL_MARKS.items() if mark in source), ("", "")),
    )
    probe = _Probe(render)
    traits = _with_messages(probe, _without_tools(probe, traits, source))
    return _with_calls(probe, _with_tools(probe, traits, source))


class _Probe:
    """Renders conversations in the first variant that follows from given traits."""

    def __init__(self, render: RenderForm) -> None:
        self._render = render

    def text(
        self, messages: Sequence[ChatMessage], tools: Sequence[Tool], traits: TemplateTraits
    ) -> str:
        """Return the text, "" if the template refuses; raises `TemplateError`."""
        return self._render(next(message_variants(messages, tools, traits))) or ""

    def shows(
        self,
        expected: Sequence[str],
        messages: Sequence[ChatMessage],
        tools: Sequence[Tool],
        traits: TemplateTraits,
    ) -> bool:
        """Return whether the text contains all that is expected, without a failure."""
        try:
            text = self.text(messages, tools, traits)
        except LimitExceeded:
            raise
        except TemplateError:
            return False
        return all(piece in text for piece in expected) and not any(bad in text for bad in _GARBLED)


def _named(fields: Sequence[str], source: str) -> Iterator[str]:
    """Yield the fields that the template reads."""
    for field in fields:
        if re.search(rf"""(\.|\[\s*['"]|get\(\s*['"]){field}\b|['"]{field}['"]\s+in\b""", source):
            yield field


def _without_tools(probe: _Probe, traits: TemplateTraits, source: str) -> TemplateTraits:
    """Detect whether it fails without an empty list of tools."""
    try:
        probe.text([USER_PROBE], [], traits)
    except LimitExceeded:
        raise
    except TemplateError:
        for variable in _TOOL_VARIABLES:
            needy = dataclasses.replace(traits, tools=variable, needs_tools=True)
            if variable in source and probe.shows([USER_PROBE.content], [USER_PROBE], [], needy):
                return needy
        raise
    return traits


def _with_messages(probe: _Probe, traits: TemplateTraits) -> TemplateTraits:
    """Detect whether it drops system messages, or text that is not in parts."""
    both = [SYSTEM_PROBE, USER_PROBE]
    text = probe.text(both, [], traits) or probe.text([USER_PROBE], [], traits)
    if text and USER_PROBE.content not in text:
        parted = dataclasses.replace(traits, expects_parts=True)
        text = probe.text(both, [], parted) or probe.text([USER_PROBE], [], parted)
        traits = parted if USER_PROBE.content in text else traits
    text = probe.text(both, [], traits)
    drops_system = bool(text) and SYSTEM_PROBE.content not in text
    if drops_system:
        return dataclasses.replace(traits, drops_system=True)
    later = ChatMessage("system", "Probe of a later system message.")
    messages = [*both, *_ANSWER[:1], later, *_ANSWER[1:]]
    text = probe.text(messages, [], traits)
    one_system = bool(text) and not (SYSTEM_PROBE.content in text and later.content in text)
    return dataclasses.replace(traits, one_system=one_system)


def _with_tools(probe: _Probe, traits: TemplateTraits, source: str) -> TemplateTraits:
    """Detect the variable with the tools."""
    expected = [USER_PROBE.content, *_described()]
    for variable in _TOOL_VARIABLES:
        knowing = dataclasses.replace(traits, tools=variable)
        if variable in source and probe.shows(expected, [USER_PROBE], _TOOLS, knowing):
            return knowing
    return traits if traits.needs_tools else dataclasses.replace(traits, tools=None)


def _described() -> Iterator[str]:
    for tool, call in zip(_TOOLS, _CALLS, strict=True):
        yield tool.name
        yield tool.description
        yield call.arguments.split('"')[1]


def _with_calls(probe: _Probe, traits: TemplateTraits) -> TemplateTraits:
    """Detect the style of calls and results."""
    if traits.tools is None:
        return traits
    styles = [CallStyle(*flags) for flags in itertools.product((False, True), repeat=5)]
    styles.sort(key=lambda style: sum(dataclasses.astuple(style)))
    for beside in (_BESIDE, ""):  # some have no place for text beside calls
        for style in styles:
            able = dataclasses.replace(traits, calls=style)
            if all(_shows_calls(probe, able, beside, end) for end in ([], _ANSWER)):
                return able
    return traits


def _shows_calls(
    probe: _Probe, traits: TemplateTraits, beside: str, end: Sequence[ChatMessage]
) -> bool:
    calling = ChatMessage("assistant", beside, tool_calls=_CALLS)
    messages = [SYSTEM_PROBE, USER_PROBE, calling, *_RESULTS, *end]
    said = [message.content for message in messages]
    values = [call.arguments.split('"')[3] for call in _CALLS]
    return probe.shows([*said, *values, *_described()], messages, _TOOLS, traits)
