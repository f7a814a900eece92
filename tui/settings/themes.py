"""The chat's themes: ember (dark), daylight, high contrast, and sixteen colours."""

from __future__ import annotations

from typing import Any

from textual.theme import BUILTIN_THEMES, Theme


def _theme(
    name: str,
    *,
    dark: bool,
    background: str,
    primary: str,
    selection: str,
    scrollbar: tuple[str, str],
    code: tuple[str, str, str, str, str],
    variables: dict[str, str],
    **colours: Any,
) -> Theme:
    """A theme; `scrollbar` is its colour and that under the pointer.

    `code` colours keywords, strings, numbers, comments and names.
    """
    names = ("keyword", "string", "number", "comment", "name")
    derived = {
        "scrollbar": scrollbar[0],
        "scrollbar-hover": scrollbar[1],
        "scrollbar-active": primary,
        "scrollbar-background": background,
        "scrollbar-background-hover": background,
        "scrollbar-background-active": background,
        "screen-selection-background": selection,
        "input-selection-background": selection,
        **{f"syntax-{part}": colour for part, colour in zip(names, code, strict=True)},
    }
    if name != "ingle-light":  # which has the block cursor of Textual
        derived |= {"block-cursor-background": primary, "block-cursor-foreground": background}
    return Theme(
        name=name,
        dark=dark,
        background=background,
        primary=primary,
        variables=derived | variables,
        **colours,
    )


EMBER = _theme(
    "ingle",
    dark=True,
    background="#151312",
    surface="#1d1a18",
    panel="#262220",
    foreground="#ddd6cb",
    primary="#e39a62",
    secondary="#c9ab7c",
    accent="#8fb3b8",
    success="#a3b87f",
    warning="#e2b567",
    error="#e07a66",
    selection="#3d3128",
    scrollbar=("#3a332d", "#5a4d42"),
    code=("#d99a77", "#a9b98a", "#c7a8c2", "#92897d", "#9dbcc4"),
    variables={"muted": "#958c80", "edge": "#4a3f36", "ground": "#1e1b19"},
)
DAYLIGHT = _theme(
    "ingle-light",
    dark=False,
    background="#faf6ef",
    surface="#f3ede3",
    panel="#ebe3d6",
    foreground="#2c2622",
    primary="#9c4816",
    secondary="#7a5c2e",
    accent="#2f6d78",
    success="#4f6b2a",
    warning="#8a5a00",
    error="#b03a26",
    selection="#f0dfc8",
    scrollbar=("#d8ccba", "#bfae97"),
    code=("#9a4314", "#4d6a22", "#7b4478", "#6b6055", "#24616d"),
    variables={"muted": "#675d52", "edge": "#cdbfac", "ground": "#f1eadf"},
)
CONTRAST = _theme(
    "ingle-contrast",
    dark=True,
    background="#000000",
    surface="#0d0d0d",
    panel="#1a1a1a",
    foreground="#ffffff",
    primary="#ffb672",
    secondary="#f2d59b",
    accent="#a6dbe3",
    success="#b9e07e",
    warning="#ffd166",
    error="#ffaba1",
    selection="#3a2f24",
    scrollbar=("#6b645c", "#9a9188"),
    code=("#ffb88f", "#c5e09a", "#e6bfe0", "#c8c1b7", "#b5dcea"),
    variables={"muted": "#cfc8be", "edge": "#9a9188", "ground": "#121212"},
)
"""High contrast: every text has at least seven times the luminance of its background."""
CONTRAST_LIGHT = _theme(
    "ingle-contrast-light",
    dark=False,
    background="#ffffff",
    surface="#fbfbf9",
    panel="#f1efeb",
    foreground="#000000",
    primary="#7a3100",
    secondary="#533c12",
    accent="#0b4551",
    success="#2c470c",
    warning="#5c3a00",
    error="#871b0c",
    selection="#f5dfbe",
    scrollbar=("#a49a90", "#7a7067"),
    code=("#6f2a05", "#2f480d", "#5b2459", "#4c443c", "#0d4450"),
    variables={"muted": "#453d36", "edge": "#7a7067", "ground": "#f6f4f1"},
)

FALLBACK_VARIABLES = {
    "muted": "ansi_bright_black",
    "edge": "ansi_bright_black",
    "ground": "ansi_default",
    "syntax-keyword": "ansi_magenta",
    "syntax-string": "ansi_green",
    "syntax-number": "ansi_cyan",
    "syntax-comment": "ansi_bright_black",
    "syntax-name": "ansi_blue",
}
"""For other themes; the sixteen colours follow the terminal."""

SIXTEEN = Theme(
    name="ingle-16",
    ansi=True,
    primary="ansi_yellow",
    secondary="ansi_cyan",
    accent="ansi_cyan",
    success="ansi_green",
    warning="ansi_yellow",
    error="ansi_red",
    foreground="ansi_default",
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
    boost="ansi_default",
    variables={
        **BUILTIN_THEMES["ansi-dark"].variables,
        **FALLBACK_VARIABLES,
        "border": "ansi_bright_black",
        "border-blurred": "ansi_bright_black",
        "block-cursor-background": "ansi_yellow",
        "block-cursor-foreground": "ansi_black",
        "input-selection-background": "ansi_yellow",
        "input-selection-foreground": "ansi_black",
        "screen-selection-background": "ansi_yellow",
        "screen-selection-foreground": "ansi_black",
    },
)
"""The sixteen colours and the background of the terminal itself."""

THEMES = (EMBER, DAYLIGHT, CONTRAST, CONTRAST_LIGHT, SIXTEEN)
