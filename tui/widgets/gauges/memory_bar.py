"""`MemoryBar`: VRAM and RAM used by weights, KV cache and others."""

from __future__ import annotations

from textual.content import Content

from ...gauges.context_usage import apportion
from ...gauges.gauge_state import GaugeState
from ...gauges.memory_usage import PARTS, MemoryUse, binary_size
from .glyph_text import StyledText, columns, in_columns, signs
from .lines_widget import LinesWidget

GLYPHS = ("█", "▓", "▒", "┈")
STYLES = ("$primary", "$accent", "$secondary", "$edge")


class MemoryBar(LinesWidget):
    """A bar and its numbers for each memory; beside a GPU, RAM is one line unless `full`."""

    def __init__(self, *, full: bool = False) -> None:
        super().__init__()
        self._full = full

    def draw(self, state: GaugeState, width: int) -> list[Content]:
        """The lines of all bars, with one between them."""
        lines: list[Content] = []
        for index, use in enumerate(state.memory()):
            if index:
                lines.append(Content(""))
            short = use.kind == "RAM" and index > 0 and not self._full
            lines += [memory_words(use, width)] if short else memory_lines(use, width)
        return lines or [signs([("MEMORY", "bold"), ("  not known yet", "$muted")])]


def memory_lines(use: MemoryUse, width: int) -> list[Content]:
    """A title, the bar, and its legend, which says the numbers."""
    total = binary_size(use.total)
    facts = f"{use.device} · {total}" if use.device else total
    title = columns(signs([(use.kind, "bold")]), signs([(facts, "$muted")]), width)
    legend = [
        signs([(glyph, style), " ", word, " ", (binary_size(amount, unit=False), "$muted")])
        for glyph, style, word, amount in zip(GLYPHS, STYLES, PARTS, use.parts, strict=True)
    ]
    return [title, signs(memory_bar(use, width)), *in_columns(legend, width)]


def memory_bar(use: MemoryUse, width: int) -> list[StyledText]:
    """The bar alone."""
    cells = apportion(use.parts, width)
    return [(g * n, style) for g, n, style in zip(GLYPHS, cells, STYLES, strict=True) if n]


def memory_words(use: MemoryUse, width: int) -> Content:
    """One line: `RAM 14.2 of 31.2 GiB used`."""
    used = f"{binary_size(use.total - use.free)} of {binary_size(use.total)} used"
    return columns(signs([(use.kind, "bold")]), signs([(used, "$muted")]), width)
