"""The styles of all parts of the transcript, from the stylesheet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

from rich.style import Style


@dataclass(frozen=True, slots=True)
class TranscriptStyles:
    """One style per part; each field is the component class `transcript--<field>`."""

    you: Style
    model: Style
    muted: Style
    error: Style
    notice: Style
    caret: Style
    chip: Style
    thought: Style
    seam: Style
    cursor: Style
    cursor_mark: Style
    hit: Style
    hit_current: Style
    heading: Style
    strong: Style
    emphasis: Style
    struck: Style
    code: Style
    link: Style
    quote: Style
    rule: Style
    fence: Style
    fence_label: Style
    syntax_keyword: Style
    syntax_string: Style
    syntax_number: Style
    syntax_comment: Style
    syntax_name: Style
    diff_added: Style
    diff_removed: Style
    math: Style

    @classmethod
    def resolve(cls, get_style: Callable[[str], Style]) -> TranscriptStyles:
        """Resolve each style by its component class."""
        return cls(**{name: get_style(class_name) for name, class_name in component_classes()})


def component_classes() -> list[tuple[str, str]]:
    """Return field names with their component classes."""
    return [
        (field.name, f"transcript--{field.name.replace('_', '-')}")
        for field in fields(TranscriptStyles)
    ]
