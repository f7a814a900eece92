"""Draws ratios as bars with 95 % intervals, and a line at equality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from ratio import Ratio

_LABELS, _PLOT, _ROW, _TOP = 300, 440, 20, 46
_COLOURS = {"xllamacpp": "#c2571a", "llama-server": "#2f6f8f", "llama-cpp-python": "#6b7f2a"}


@dataclass(frozen=True)
class Bar:
    """One row of the picture."""

    label: str
    peer: str
    ratio: Ratio


def draw(title: str, bars: Sequence[Bar]) -> str:
    """Return an SVG document, readable on a light and on a dark page."""
    end = max([1.5, *(min(bar.ratio.high, 4.0) for bar in bars)]) * 1.05
    height = _TOP + _ROW * len(bars) + 30
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LABELS + _PLOT + 90}" '
        f'height="{height}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="#fffdf8"/>',
        f'<text x="12" y="22" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]
    for tick in (0.5, 1.0, 1.5, 2.0, 3.0, 4.0):
        if tick < end:
            lines += _tick(tick, _x(tick, end), height)
    for row, bar in enumerate(bars):
        lines += _bar(bar, _TOP + row * _ROW, end)
    return "\n".join([*lines, "</svg>", ""])


def _x(value: float, end: float) -> float:
    return round(_LABELS + _PLOT * min(value, end) / end, 1)


def _tick(value: float, x: float, height: int) -> list[str]:
    strong = ' stroke-width="2"' if value == 1 else ""
    colour = "#444" if value == 1 else "#ddd"
    return [
        f'<line x1="{x}" x2="{x}" y1="{_TOP - 6}" y2="{height - 24}" stroke="{colour}"{strong}/>',
        f'<text x="{x}" y="{height - 8}" text-anchor="middle">{value:g}×</text>',
    ]


def _bar(bar: Bar, y: int, end: float) -> list[str]:
    colour = _COLOURS.get(bar.peer, "#666")
    ratio, middle = bar.ratio, y + _ROW / 2
    low, high, x = _x(ratio.low, end), _x(ratio.high, end), _x(ratio.median, end)
    return [
        f'<text x="{_LABELS - 8}" y="{middle + 4}" text-anchor="end">'
        f"{escape(f'{bar.label}, {bar.peer}')}</text>",
        f'<rect x="{_LABELS}" y="{y + 4}" width="{x - _LABELS:.1f}" height="{_ROW - 8}" '
        f'fill="{colour}" fill-opacity="0.75"/>',
        f'<line x1="{low}" x2="{high}" y1="{middle}" y2="{middle}" stroke="#222"/>',
        f'<text x="{max(x, high) + 8:.1f}" y="{middle + 4}">{ratio.median:.2f}×</text>',
    ]
