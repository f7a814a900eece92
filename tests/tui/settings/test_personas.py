"""Personas in their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingle.tui.chats.command_refused import CommandRefused
from ingle.tui.settings.personas import (
    FOLDER,
    Persona,
    delete_persona,
    load_persona,
    persona_names,
    save_persona,
)

pytestmark = pytest.mark.quick


def test_persona_is_saved_listed_and_deleted(tmp_path: Path) -> None:
    kept = Persona(
        system='Say "no".\n\tDon\'t\x7f \\ guess. ☂',
        model="qwen:1b",
        sampling={"temperature": 0.2, "top_k": 20},
    )
    save_persona(tmp_path, "critic", kept)
    save_persona(tmp_path, "plain", Persona())
    assert persona_names(tmp_path) == ["critic", "plain"]
    assert load_persona(tmp_path, "critic") == kept
    assert load_persona(tmp_path, "plain") == Persona()
    delete_persona(tmp_path, "critic")
    assert persona_names(tmp_path) == ["plain"]
    with pytest.raises(CommandRefused, match="There is no persona critic"):
        load_persona(tmp_path, "critic")


@pytest.mark.parametrize("text", ["system = 1", "temperature = 0.1", "system = ", "\xff"])
def test_invalid_file_is_refused(tmp_path: Path, text: str) -> None:
    save_persona(tmp_path, "odd", Persona())
    (tmp_path / FOLDER / "odd.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(CommandRefused, match=r"odd.toml cannot be read"):
        load_persona(tmp_path, "odd")


@pytest.mark.parametrize("name", ["", "../x", "a b", "x/y"])
def test_invalid_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CommandRefused):
        save_persona(tmp_path, name, Persona())
    with pytest.raises(CommandRefused):
        load_persona(tmp_path, name)
