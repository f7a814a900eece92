"""The measurements of a run as a picture."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any, NamedTuple

_WIDTH, _LABEL, _ROW, _FIGURE = 900, 330, 20, 90
_BAR = _WIDTH - _LABEL - _FIGURE


class Bar(NamedTuple):
    """One measurement: its name, its share of the longest bar (0 to 1), and its figure."""

    name: str
    share: float
    figure: str


class Group(NamedTuple):
    """Bars that can be compared with one another."""

    title: str
    bars: list[Bar]


def svg(parts: dict[str, Any]) -> str | None:
    """Return a chart of the parts' measurements, None without any."""
    groups = [group for group in _groups(parts) if group.bars]
    if not groups:
        return None
    height = sum(_ROW * (len(group.bars) + 2) for group in groups) + _ROW
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
    ]
    y = _ROW
    for group in groups:
        y += _ROW
        lines.append(f'<text x="10" y="{y}" font-weight="bold">{escape(group.title)}</text>')
        for bar in group.bars:
            y += _ROW
            lines += _drawn(bar, y)
    return "\n".join([*lines, "</svg>", ""])


def _drawn(bar: Bar, y: int) -> Iterable[str]:
    length = round(_BAR * min(1.0, max(0.0, bar.share)))
    yield f'<text x="{_LABEL - 8}" y="{y}" text-anchor="end">{escape(bar.name)}</text>'
    yield f'<rect x="{_LABEL}" y="{y - 12}" width="{length}" height="14" fill="#4878a8"/>'
    yield f'<text x="{_LABEL + length + 6}" y="{y}">{escape(bar.figure)}</text>'


def _groups(parts: dict[str, Any]) -> Iterable[Group]:
    bandwidth, engine, peers = (_result(parts, name) for name in ("bandwidth", "engine", "peers"))
    products: list[dict[str, Any]] = bandwidth.get("products", [])
    for columns in sorted({row["columns"] for row in products}):
        title = f"Products with {columns} columns, % of a copy"
        yield Group(title, _best(row for row in products if row["columns"] == columns))
    models: list[dict[str, Any]] = engine.get("models", [])
    others: list[dict[str, Any]] = peers.get("transformers", [])
    rates: list[tuple[str, float]] = [
        (f"{model['kind']}, {row['streams']} streams", row["tokens_a_second"])
        for model in models
        for row in model["decode"]
    ]
    rates += [
        (f"transformers, {row['what']}", row["tokens_a_second"])
        for row in others
        if "streams" in row["what"]
    ]
    yield Group("An 8B model, tokens a second", _of_largest(rates))
    prompts: list[tuple[str, float]] = [
        (f"{model['kind']}, {model['prompt']['tokens']} tokens", model["prompt"]["tokens_a_second"])
        for model in models
    ]
    yield Group("A prompt, tokens a second", _of_largest(prompts))


def _result(parts: dict[str, Any], name: str) -> dict[str, Any]:
    return parts.get(name, {}).get("result") or {}


def _best(rows: Iterable[dict[str, Any]]) -> list[Bar]:
    """Of each kind and shape the quickest variant."""
    found: dict[str, float] = {}
    for row in rows:
        name = f"{row['kind']} {row['shape']}"
        found[name] = max(found.get(name, 0.0), row["percent_of_copy"])
    return [Bar(name, percent / 100, f"{percent:.0f} %") for name, percent in found.items()]


def _of_largest(figures: list[tuple[str, float]]) -> list[Bar]:
    most = max((figure for _, figure in figures), default=1.0) or 1.0
    return [Bar(name, figure / most, f"{figure:,.1f}") for name, figure in figures]
