"""What the client lets its user choose for a session: mode, model, thinking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from acp.schema import (
    SessionConfigOptionBoolean,
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
)

from ingle.daemon.client.model_types import ModelEntry
from ingle.daemon.client.tool_types import ToolEffect

from ..tools.chat_tools import ALL_EFFECTS

AgentMode = Literal["ask", "edit", "read"]
OptionName = Literal["mode", "model", "thought_level"]
SessionOption = SessionConfigOptionSelect | SessionConfigOptionBoolean

MODES: dict[AgentMode, tuple[str, str]] = {
    "ask": ("Ask", "Ask before each edit, command, page and call of a server"),
    "edit": ("Allow edits", "Edit files in the folder without a question; ask before the rest"),
    "read": ("Read only", "Read the folder; no edits, commands, pages or calls of servers"),
}
"""Name and description of each mode."""
OFFERED: dict[AgentMode, frozenset[ToolEffect]] = {
    "ask": ALL_EFFECTS,
    "edit": ALL_EFFECTS,
    "read": frozenset(("read",)),
}
"""What the tools that a model is offered may do, by mode."""
THINKING = {"": "Default", "off": "Off", "low": "Low", "medium": "Medium", "high": "High"}
DEFAULT = "default"
"""The value of the choice of the daemon or of the model."""


def mode_state(mode: AgentMode) -> SessionModeState:
    """Return the modes, for clients from before there were options."""
    modes = [
        SessionMode(id=name, name=title, description=does) for name, (title, does) in MODES.items()
    ]
    return SessionModeState(current_mode_id=mode, available_modes=modes)


def session_options(
    mode: AgentMode, models: Sequence[ModelEntry], model: str | None, thinking: str
) -> list[SessionOption]:
    """Return the options and their current values; models are those on this machine."""
    names = [entry.name for entry in models if entry.installed and entry.writes]
    if model is not None and model not in names:
        names.insert(0, model)
    return [
        _select("mode", "Mode", mode, {name: title for name, (title, _) in MODES.items()}),
        _select("model", "Model", model or DEFAULT, {n: n for n in names} or {DEFAULT: "Default"}),
        _select(
            "thought_level",
            "Thinking",
            thinking or DEFAULT,
            {name or DEFAULT: title for name, title in THINKING.items()},
        ),
    ]


def _select(
    kind: OptionName, name: str, value: str, choices: dict[str, str]
) -> SessionConfigOptionSelect:
    """Return one option; its current value is always among its choices."""
    choices = choices if value in choices else {**choices, value: value}
    options = [SessionConfigSelectOption(value=one, name=title) for one, title in choices.items()]
    return SessionConfigOptionSelect(
        type="select", id=kind, name=name, category=kind, current_value=value, options=options
    )
