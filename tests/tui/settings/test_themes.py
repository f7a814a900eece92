"""Themes: contrast of their colours, choice by terminal, and saving."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from textual.color import Color
from textual.theme import Theme

from ingle.tui.app.first_frame import SHADES
from ingle.tui.settings.chat_folders import ChatFolders
from ingle.tui.settings.preferences import Preferences, load_preferences, save_preference
from ingle.tui.settings.theme_choice import choose_theme
from ingle.tui.settings.themes import (
    CONTRAST,
    CONTRAST_LIGHT,
    DAYLIGHT,
    EMBER,
    FALLBACK_VARIABLES,
    SIXTEEN,
    THEMES,
)

if TYPE_CHECKING:
    from ..conftest import Chat, OpenChat

TEXTS = ("foreground", "primary", "secondary", "accent", "success", "warning", "error", "muted")
GROUNDS = ("background", "surface", "panel", "ground")
CODE = ("syntax-keyword", "syntax-string", "syntax-number", "syntax-comment", "syntax-name")
SELECTION = "screen-selection-background"
RICH = [theme for theme in THEMES if not theme.ansi]


def shade(theme: Theme, name: str) -> Color:
    value = theme.variables.get(name) or getattr(theme, name)
    return Color.parse(value)


def contrast(theme: Theme, text: str, ground: str) -> float:
    """The ratio of WCAG 2.2, from 1 to 21."""
    lights = sorted(_luminance(shade(theme, name)) for name in (text, ground))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def _luminance(color: Color) -> float:
    parts = [value / 255 for value in color.rgb]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_contrast_ratio_follows_wcag() -> None:
    assert contrast(CONTRAST_LIGHT, "foreground", "background") == pytest.approx(21)
    assert contrast(CONTRAST_LIGHT, "foreground", "foreground") == pytest.approx(1)


@pytest.mark.parametrize("theme", RICH, ids=lambda theme: theme.name)
def test_text_has_sufficient_contrast(theme: Theme) -> None:
    least = 7.0 if theme in (CONTRAST, CONTRAST_LIGHT) else 4.5
    pairs = [(text, ground) for text in TEXTS for ground in GROUNDS]
    pairs += [(text, ground) for text in CODE for ground in ("background", "ground")]
    pairs += [("foreground", SELECTION), ("foreground", "input-selection-background")]
    ratios = {pair: round(contrast(theme, *pair), 2) for pair in pairs}
    assert {pair: ratio for pair, ratio in ratios.items() if ratio < least} == {}


@pytest.mark.parametrize("theme", RICH, ids=lambda theme: theme.name)
def test_selected_text_has_sufficient_contrast(theme: Theme) -> None:
    least = 7.0 if theme in (CONTRAST, CONTRAST_LIGHT) else 3.0
    ratios = {text: round(contrast(theme, text, SELECTION), 2) for text in (*TEXTS, *CODE)}
    assert {text: ratio for text, ratio in ratios.items() if ratio < least} == {}


def test_sixteen_colour_theme_uses_ansi_colours() -> None:
    named = {"primary": SIXTEEN.primary, "ground": SIXTEEN.background, **SIXTEEN.variables}
    others = {name for name, value in named.items() if not str(value).startswith("ansi_")}
    assert others == {"input-cursor-text-style"}
    assert all(theme.variables.keys() >= FALLBACK_VARIABLES.keys() for theme in THEMES)


@pytest.mark.parametrize("theme", RICH, ids=lambda theme: theme.name)
def test_first_frame_has_the_colours_of_the_theme(theme: Theme) -> None:
    ground, text, accent, edge = (Color.parse(colour).rgb for colour, _ in SHADES[theme.name])
    assert ground == shade(theme, "background").rgb
    assert text == shade(theme, "muted").rgb
    assert accent == shade(theme, "primary").rgb
    mixed = shade(theme, "background").blend(shade(theme, "primary"), 0.6).rgb
    assert all(abs(a - b) <= 1 for a, b in zip(edge, mixed, strict=True))


@pytest.mark.parametrize(
    ("remembered", "environ", "expected"),
    [
        ("", {"TERM": "xterm-256color"}, EMBER),
        ("", {"TERM": "xterm", "COLORTERM": "truecolor"}, EMBER),
        ("", {"TERM": "xterm-256color", "COLORFGBG": "0;15"}, DAYLIGHT),
        ("", {"TERM": "xterm-256color", "COLORFGBG": "0;default;7"}, DAYLIGHT),
        ("", {"TERM": "xterm-256color", "COLORFGBG": "15;0"}, EMBER),
        ("", {"TERM": "linux"}, SIXTEEN),
        ("", {"TERM": "vt220", "COLORFGBG": "0;15"}, SIXTEEN),
        ("ingle-contrast", {"TERM": "linux", "COLORFGBG": "0;15"}, CONTRAST),
    ],
)
def test_theme_is_chosen_by_preference_and_terminal(
    remembered: str, environ: dict[str, str], expected: Theme
) -> None:
    assert choose_theme(remembered, environ) == expected.name


def test_theme_preference_is_saved(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    assert load_preferences(None) == load_preferences(folder) == Preferences()
    save_preference(folder, "theme", "ingle-light")
    assert load_preferences(folder) == Preferences("ingle-light")
    file = folder / "chat.toml"
    file.write_text('# mine\nmotion = false\ntheme = "ingle"\n[later]\nx = 1\n')
    save_preference(folder, "theme", "ingle-16")
    assert load_preferences(folder) == Preferences("ingle-16", motion=False)
    assert "# mine" in file.read_text()


@pytest.mark.parametrize("text", ["theme = 3\nmotion = 'no'", "theme = ", "\x80"])
def test_invalid_preferences_are_reported(tmp_path: Path, text: str) -> None:
    (tmp_path / "chat.toml").write_bytes(text.encode("latin-1"))
    preferences = load_preferences(tmp_path)
    assert preferences.trouble
    assert preferences._replace(trouble="") == Preferences()


async def test_theme_command_saves_the_theme(open_chat: OpenChat, tmp_path: Path) -> None:
    folders = ChatFolders(tmp_path / "chats", tmp_path / "config")
    async with open_chat(folders=folders) as chat:
        assert chat.app.theme == EMBER.name
        await chat.send("/theme ingle-contrast")
        await chat.until(lambda: load_preferences(folders.config).theme == "ingle-contrast")
        await chat.send("/theme bogus")
        await chat.until_shown("There is no theme bogus")
        assert chat.app.theme == "ingle-contrast"


async def test_transcript_is_redrawn_when_the_theme_changes(open_chat: OpenChat) -> None:
    async with open_chat() as chat:
        await chat.until_shown("smollm2:135m on disk")
        await chat.send("Hi")
        await chat.until_shown("Hello there.")
        chat.app.theme = DAYLIGHT.name
        primary = shade(DAYLIGHT, "primary").rgb
        await chat.until(lambda: any(near(color, primary) for color in colours(chat, "▌ you")))
        chat.app.theme = EMBER.name
        primary = shade(EMBER, "primary").rgb
        await chat.until(lambda: any(near(color, primary) for color in colours(chat, "▌ you")))


def colours(chat: Chat, text: str) -> list[tuple[int, ...]]:
    """The foreground colours in the line that has `text`."""
    strips = chat.app.screen._compositor.render_strips()  # pyright: ignore[reportPrivateUsage]
    segments = (segment for strip in strips if text in strip.text for segment in strip)
    styles = (segment.style for segment in segments if segment.style)
    return [tuple(style.color.get_truecolor()) for style in styles if style.color]


def near(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether two colours are equal up to rounding."""
    return all(abs(a - b) <= 2 for a, b in zip(one, other, strict=True))
