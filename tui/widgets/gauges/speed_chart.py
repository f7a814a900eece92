"""`SpeedChart`: tokens per second over the last minute, and other figures of speed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from textual.content import Content

from ...chats.message import MessageFacts
from ...commands.answer_statistics import reuse
from ...gauges.gauge_glyphs import SPARKS
from ...gauges.gauge_state import GaugeState
from ...gauges.speed_meter import TokenRates
from ...text import number_format
from .glyph_text import columns, signs, wrapped
from .lines_widget import LinesWidget


def resampled(values: Sequence[float], width: int) -> list[float]:
    """`values` as the means of `width` columns; no more columns than values."""
    width = min(width, len(values))
    edges = [round(index * len(values) / width) for index in range(width + 1)] if width else []
    return [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]


def chart(values: Sequence[float], width: int, height: int) -> list[str]:
    """Columns of block signs, `height` lines, the highest value as high as the chart."""
    heights = resampled(values, width)
    top = max(heights, default=0.0)
    steps = [round(v / top * height * len(SPARKS)) if top > 0 else 0 for v in heights]
    lines: list[str] = []
    for line in range(height - 1, -1, -1):
        below = line * len(SPARKS)
        signs_ = (_sign(max(0, min(len(SPARKS), step - below)), line == 0) for step in steps)
        lines.append("".join(signs_))
    return lines


def _sign(eighths: int, is_ground: bool) -> str:
    """A block of some eighths; the ground line always shows."""
    return SPARKS[max(0, eighths - 1)] if eighths or is_ground else " "


class SpeedChart(LinesWidget):
    """A title, the chart of `rows` lines, and facts in words."""

    def __init__(self, rows: int = 1) -> None:
        super().__init__()
        self._rows = rows

    def draw(self, state: GaugeState, width: int) -> list[Content]:
        """Title, chart and facts."""
        speed = state.meter.speed(state.now)
        top = max(speed.history, default=0.0)
        scale = f"tok/s, last 60 s · top {top:.0f}" if top else "tok/s, last 60 s"
        title = columns(signs([("SPEED", "bold")]), signs([(scale, "$muted")]), width)
        style = "$primary" if top else "$edge"
        drawn = [signs([(line, style)]) for line in chart(speed.history, width, self._rows)]
        facts = (signs([(fact, "$muted")]) for fact in _facts(speed, state.last))
        return [title, *drawn, *wrapped(facts, width, signs([(" · ", "$muted")]))]


def _facts(speed: TokenRates, last: MessageFacts | None) -> list[str]:
    facts = [f"now {number_format.speed(speed.now)}" if speed.now else "now idle"]
    prefill: list[str] = []
    if speed.prefill_tokens:
        share = number_format.percent(speed.prefilled_tokens / speed.prefill_tokens)
        prefill.append(f"{share} of {number_format.tokens(speed.prefill_tokens)}")
    if speed.prompt:
        prefill.append(number_format.speed(speed.prompt))
    if prefill:
        facts.append(f"prefill {' at '.join(prefill)}")
    if last is not None and last.first_token is not None:
        facts.append(f"first token {number_format.duration(last.first_token)}")
    if last is not None and last.prompt_tokens:
        facts.append(f"last send: {reuse(last)}")
    if speed.acceptance is not None:
        facts.append(f"drafted {number_format.percent(speed.acceptance)} right")
    if speed.running or speed.waiting:
        waiting = f", {speed.waiting} waiting" if speed.waiting else ""
        facts.append(f"{speed.running} running{waiting}")
    else:
        facts.append("queue 0")
    if speed.watts is not None:
        facts.append(f"{speed.watts:.0f} W")
    if speed.joules_per_token is not None:
        facts.append(f"{speed.joules_per_token:.2g} J a token")
    return facts
