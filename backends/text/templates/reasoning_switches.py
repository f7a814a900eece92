"""Sets a chat template's variables for the requested reasoning effort."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from ...base.conversation import Reasoning

_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_USUAL = ("low", "medium", "high")
"""Efforts assumed for a template that lists none."""

_EFFORT_VARIABLES = ("reasoning_effort", "thinking_effort")
_OFF_EFFORTS = ("no_think", "none", "minimal")
_BOOLEANS = ("enable_thinking", "thinking")
_LITERAL = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
_NAME = re.compile(r"(?<![\w.])[a-z_]+\b")


def reasoning_requested(reasoning: Reasoning) -> bool | None:
    """Return whether reasoning is requested; None leaves it to the model."""
    if reasoning.enabled is False or reasoning.budget == 0 or reasoning.effort == "none":
        return False
    return True if reasoning.enabled or reasoning.effort is not None else None


class ReasoningSwitches:
    """The variables by which one template controls reasoning."""

    def __init__(self, source: str) -> None:
        self._source = source

    @cached_property
    def can_switch_off(self) -> bool:
        """Return whether a variable can disable reasoning."""
        return any(True for _ in self._switches(on=False))

    def variables(self, reasoning: Reasoning) -> dict[str, object]:
        """Return the template variables for the requested reasoning."""
        wanted = reasoning_requested(reasoning)
        if wanted is False:
            # If reasoning cannot be disabled, ask for the least.
            return {**dict(self._efforts("minimal")), **dict(self._switches(on=False))}
        variables = dict(self._switches(on=True)) if wanted else {}
        if reasoning.effort is not None:
            variables |= self._efforts(reasoning.effort)
        if reasoning.budget is not None and "thinking_budget" in self._names:
            variables["thinking_budget"] = reasoning.budget
        return variables

    @cached_property
    def _names(self) -> frozenset[str]:
        """Return the variable names in the template's statements."""
        code = (_LITERAL.sub("''", code) for code in _code(self._source))
        return frozenset(name for piece in code for name in _NAME.findall(piece))

    def _switches(self, *, on: bool) -> Iterator[tuple[str, object]]:
        for name in _BOOLEANS:
            if name in self._names:
                yield name, on
        if re.search(r"\breasoning is (not )?(un)?defined", self._source):
            yield "reasoning", on
        if re.search(r"thinking_mode\s*==\s*['\"]disabled", self._source):
            yield "thinking_mode", "enabled" if on else "disabled"
        if on:
            # Such a template does not reason unless an effort is set.
            for name in self._names.intersection(_EFFORT_VARIABLES):
                if "'no_think'" in self._source:
                    yield name, "high"
            return
        if "thinking_budget" in self._names:
            yield "thinking_budget", 0
        for name in self._names.intersection(_EFFORT_VARIABLES):
            for effort in _OFF_EFFORTS:
                if f"'{effort}'" in self._source or f'"{effort}"' in self._source:
                    yield name, effort
                    break

    def _efforts(self, effort: str) -> Iterator[tuple[str, object]]:
        for name in self._names.intersection(_EFFORT_VARIABLES):
            yield name, _nearest(effort, self._taken(name))

    def _taken(self, name: str) -> Sequence[str]:
        """Return the efforts that the template accepts; it rejects or ignores others."""
        listed = re.search(rf"{name}\s+not\s+in\s*[\[(]([^\])]{{0,200}})[\])]", self._source)
        if listed is not None:
            return [word for word in _EFFORTS if f"'{word}'" in listed[1].replace('"', "'")]
        known = re.findall(rf"{name}\s*==\s*['\"](\w+)['\"]", self._source)
        return [word for word in _EFFORTS if word in _USUAL or word in known]


def _code(source: str) -> Iterator[str]:
    """Yield the code between the delimiters of statements and expressions."""
    for begin, end in (("{%", "%}"), ("{{", "}}")):
        at = source.find(begin)
        while at >= 0 and (until := source.find(end, at)) >= 0:
            yield source[at + 2 : until]
            at = source.find(begin, until)


def _nearest(effort: str, taken: Sequence[str]) -> str:
    """Return the effort if the template accepts it, else the closest one."""
    if effort in taken or effort not in _EFFORTS or not taken:
        return effort
    rank = _EFFORTS.index(effort)
    return min(taken, key=lambda word: (abs(_EFFORTS.index(word) - rank), _EFFORTS.index(word)))
