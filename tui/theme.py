"""The chat's own themes: the calm of embers, by night and by day."""

from __future__ import annotations

from textual.theme import Theme

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
        "screen-selection-background": "#51402f",
        "input-selection-background": "#51402f",
        "block-cursor-background": PRIMARY,
        "block-cursor-foreground": BACKGROUND,
        "syntax-keyword": "#d99a77",
        "syntax-string": "#a9b98a",
        "syntax-number": "#c7a8c2",
        "syntax-comment": "#857c71",
        "syntax-name": "#9dbcc4",
    },
)

DAYLIGHT = Theme(
    name="ingle-light",
    primary="#a8501c",
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
        "muted": "#71675b",
        "edge": "#cdbfac",
        "ground": "#f1eadf",
        "scrollbar": "#d8ccba",
        "scrollbar-hover": "#bfae97",
        "scrollbar-active": "#a8501c",
        "scrollbar-background": "#faf6ef",
        "scrollbar-background-hover": "#faf6ef",
        "scrollbar-background-active": "#faf6ef",
        "screen-selection-background": "#ecd3b6",
        "input-selection-background": "#ecd3b6",
        "syntax-keyword": "#9a4314",
        "syntax-string": "#4d6a22",
        "syntax-number": "#7b4478",
        "syntax-comment": "#857a6c",
        "syntax-name": "#24616d",
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
"""For themes that are not ours; the sixteen colours follow the terminal."""
