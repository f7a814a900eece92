"""The chat's themes: ember (dark), daylight, high contrast, and sixteen colours."""

from __future__ import annotations

from textual.theme import BUILTIN_THEMES, Theme

BACKGROUND = "#151312"
FOREGROUND = "#ddd6cb"
MUTED = "#958c80"
PRIMARY = "#e39a62"
BORDER = "#4a3f36"

EMBER = Theme(
    name="ingle",
    primary=PRIMARY,
    secondary="#c9ab7c",
    accent="#8fb3b8",
    success="#a3b87f",
    warning="#e2b567",
    error="#e07a66",
    foreground=FOREGROUND,
    background=BACKGROUND,
    surface="#1d1a18",
    panel="#262220",
    dark=True,
    variables={
        "muted": MUTED,
        "edge": BORDER,
        "ground": "#1e1b19",
        "scrollbar": "#3a332d",
        "scrollbar-hover": "#5a4d42",
        "scrollbar-active": PRIMARY,
        "scrollbar-background": BACKGROUND,
        "scrollbar-background-hover": BACKGROUND,
        "scrollbar-background-active": BACKGROUND,
        "screen-selection-background": "#3d3128",
        "input-selection-background": "#3d3128",
        "block-cursor-background": PRIMARY,
        "block-cursor-foreground": BACKGROUND,
        "syntax-keyword": "#d99a77",
        "syntax-string": "#a9b98a",
        "syntax-number": "#c7a8c2",
        "syntax-comment": "#92897d",
        "syntax-name": "#9dbcc4",
    },
)

DAYLIGHT = Theme(
    name="ingle-light",
    primary="#9c4816",
    secondary="#7a5c2e",
    accent="#2f6d78",
    success="#4f6b2a",
    warning="#8a5a00",
    error="#b03a26",
    foreground="#2c2622",
    background="#faf6ef",
    surface="#f3ede3",
    panel="#ebe3d6",
    dark=False,
    variables={
        "muted": "#675d52",
        "edge": "#cdbfac",
        "ground": "#f1eadf",
        "scrollbar": "#d8ccba",
        "scrollbar-hover": "#bfae97",
        "scrollbar-active": "#9c4816",
        "scrollbar-background": "#faf6ef",
        "scrollbar-background-hover": "#faf6ef",
        "scrollbar-background-active": "#faf6ef",
        "screen-selection-background": "#f0dfc8",
        "input-selection-background": "#f0dfc8",
        "syntax-keyword": "#9a4314",
        "syntax-string": "#4d6a22",
        "syntax-number": "#7b4478",
        "syntax-comment": "#6b6055",
        "syntax-name": "#24616d",
    },
)

CONTRAST = Theme(
    name="ingle-contrast",
    primary="#ffb672",
    secondary="#f2d59b",
    accent="#a6dbe3",
    success="#b9e07e",
    warning="#ffd166",
    error="#ffaba1",
    foreground="#ffffff",
    background="#000000",
    surface="#0d0d0d",
    panel="#1a1a1a",
    dark=True,
    variables={
        "muted": "#cfc8be",
        "edge": "#9a9188",
        "ground": "#121212",
        "scrollbar": "#6b645c",
        "scrollbar-hover": "#9a9188",
        "scrollbar-active": "#ffb672",
        "scrollbar-background": "#000000",
        "scrollbar-background-hover": "#000000",
        "scrollbar-background-active": "#000000",
        "screen-selection-background": "#3a2f24",
        "input-selection-background": "#3a2f24",
        "block-cursor-background": "#ffb672",
        "block-cursor-foreground": "#000000",
        "syntax-keyword": "#ffb88f",
        "syntax-string": "#c5e09a",
        "syntax-number": "#e6bfe0",
        "syntax-comment": "#c8c1b7",
        "syntax-name": "#b5dcea",
    },
)
"""High contrast: every text has at least seven times the luminance of its background."""

CONTRAST_LIGHT = Theme(
    name="ingle-contrast-light",
    primary="#7a3100",
    secondary="#533c12",
    accent="#0b4551",
    success="#2c470c",
    warning="#5c3a00",
    error="#871b0c",
    foreground="#000000",
    background="#ffffff",
    surface="#fbfbf9",
    panel="#f1efeb",
    dark=False,
    variables={
        "muted": "#453d36",
        "edge": "#7a7067",
        "ground": "#f6f4f1",
        "scrollbar": "#a49a90",
        "scrollbar-hover": "#7a7067",
        "scrollbar-active": "#7a3100",
        "scrollbar-background": "#ffffff",
        "scrollbar-background-hover": "#ffffff",
        "scrollbar-background-active": "#ffffff",
        "screen-selection-background": "#f5dfbe",
        "input-selection-background": "#f5dfbe",
        "block-cursor-background": "#7a3100",
        "block-cursor-foreground": "#ffffff",
        "syntax-keyword": "#6f2a05",
        "syntax-string": "#2f480d",
        "syntax-number": "#5b2459",
        "syntax-comment": "#4c443c",
        "syntax-name": "#0d4450",
    },
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
