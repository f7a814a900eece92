"""Loading and saving the chat's preferences."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from ingle.tui.settings.preferences import (
    FILE,
    Preferences,
    PreferencesBroken,
    load_preferences,
    save_preference,
)

pytestmark = pytest.mark.quick


def test_missing_file_gives_the_defaults(tmp_path: Path) -> None:
    assert load_preferences(tmp_path) == Preferences()
    assert load_preferences(None) == Preferences()
    (tmp_path / FILE).write_text("")
    assert load_preferences(tmp_path) == Preferences()


def test_saved_preferences_are_loaded(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    save_preference(folder, "theme", 'odd "name"')
    save_preference(folder, "motion", False)
    save_preference(folder, "compact_at", 70)
    save_preference(folder, "compact_at", 75)
    assert load_preferences(folder) == Preferences('odd "name"', False, compact_at=75)
    assert [file.name for file in folder.iterdir()] == [FILE]


def test_saving_keeps_the_rest_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / FILE
    file.write_text('# mine\nmotion = true # calm\nother = 1\n[table]\nmotion = "x"\n')
    save_preference(tmp_path, "motion", False)
    save_preference(tmp_path, "theme", "ingle")
    saved = tomllib.loads(file.read_text())
    assert saved == {
        "theme": "ingle",
        "motion": False,
        "other": 1,
        "table": {"motion": "x"},
    }
    assert "# mine" in file.read_text()


def test_malformed_file_is_reported_and_not_changed(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("motion = perhaps\n")
    assert "is not TOML" in load_preferences(tmp_path).trouble
    with pytest.raises(PreferencesBroken, match="not changed"):
        save_preference(tmp_path, "motion", False)
    assert (tmp_path / FILE).read_text() == "motion = perhaps\n"


@pytest.mark.parametrize("line", ['motion = "no"', "compact_at = 5", "compact_at = true"])
def test_invalid_value_is_reported(tmp_path: Path, line: str) -> None:
    (tmp_path / FILE).write_text(f'{line}\ntheme = "ingle"\n')
    preferences = load_preferences(tmp_path)
    assert preferences.theme == "ingle"
    assert "has an invalid value for" in preferences.trouble
    assert preferences._replace(theme="", trouble="") == Preferences()


def test_saving_keeps_a_symlink(tmp_path: Path) -> None:
    (tmp_path / "real.toml").write_text("")
    (tmp_path / FILE).symlink_to(tmp_path / "real.toml")
    save_preference(tmp_path, "motion", False)
    assert (tmp_path / FILE).is_symlink()
    assert "false" in (tmp_path / "real.toml").read_text()
