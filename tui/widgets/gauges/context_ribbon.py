"""`ContextRibbon`: the use of the context by role, in one line."""

from __future__ import annotations

from textual.app import RenderResult
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from ...compaction.compaction_planner import SUGGEST_AT
from ...gauges.context_usage import FULL_AT, ContextUse, Role, ribbon
from ...text import number_format
from .glyph_text import StyledText, signs

WIDEST = 72
NARROWEST = 8
WIDEST_BESIDE = 40
"""Cells at most beside other figures in a line."""
FEW_COLUMNS = 70
"""Columns below which there are only numbers."""


def percent(use: ContextUse) -> str:
    """The percentage in use; `<1 %` is not 0 %."""
    if 0 < use.fraction < 0.01:
        return "<1 %"
    return number_format.percent(use.fraction)


def number_style(use: ContextUse) -> str:
    """The colour of the numbers, by how full the context is."""
    return "$error" if use.fraction >= FULL_AT else "$warning" if use.fraction >= SUGGEST_AT else ""


def ribbon_line(use: ContextUse, room: int, *, widest: int = WIDEST) -> Content:
    """`ctx ◆≡███┊──┆╌╌  4 120 / 16 384  25 %` in at most `room` cells, shorter where need be."""
    if not use.context:
        return Content("")
    about = "" if use.exact else "≈ "
    style = number_style(use)
    used, whole = number_format.tokens(use.used), number_format.tokens(use.context)
    part = percent(use)
    tails: tuple[list[StyledText], ...] = (
        [(f"{about}{used}", style), f" / {whole}", (f"  {part}", style)],
        [(f"{about}{_short(use.used)}", style), f" / {_short(use.context)}"],
        [(part, style)],
    )
    for tail in tails:
        words = signs([("ctx ", "$muted"), *tail])
        width = min(widest, room - words.cell_length - 2)
        if width >= NARROWEST:
            return signs([("ctx ", "$muted"), *ribbon(use, width), "  ", *tail])
    for tail in tails:
        words = signs([("ctx ", "$muted"), *tail])
        if words.cell_length <= room:
            return words
    return Content("")


def fixed_ribbon(use: ContextUse, columns: int) -> Content:
    """The ribbon and its numbers in a line of `columns` cells, as wide however full it is."""
    if not use.context:
        return Content("")
    about = "" if use.exact else "≈ "
    style = number_style(use)
    part = percent(use).rjust(len("100 %"))
    whole = number_format.tokens(use.context)
    if columns < FEW_COLUMNS:
        used, whole = f"{about}{_short(use.used)}", _short(use.context)
    else:
        used = f"{about}{number_format.tokens(use.used)}"
    numbers = used.rjust(len(f"≈ {whole}"))
    cells = max(NARROWEST, min(WIDEST_BESIDE, (columns - 56) // 2))
    return signs(
        [
            ("ctx ", "$muted"),
            *(ribbon(use, cells) if columns >= FEW_COLUMNS else ()),
            (numbers, style),
            f" / {whole}",
            (f" {part}", style),
        ]
    )


def _short(count: int) -> str:
    """`4.1k`; whole below a thousand."""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 10_000 else f"{count / 1000:.0f}k"


def role_legend(use: ContextUse) -> list[Content]:
    """Signs and numbers of the roles that have any tokens."""
    about = "" if use.exact else "≈ "
    return [
        signs(
            [
                (role.glyph, role.style),
                " ",
                role.word,
                (f" {about}{number_format.tokens(use.roles[role])}", "$muted"),
            ]
        )
        for role in Role
        if use.roles[role]
    ]


class ContextRibbon(Widget):
    """The ribbon with its legend; two lines."""

    DEFAULT_CSS = "ContextRibbon { height: 2; width: 100%; }"

    use: reactive[ContextUse] = reactive(ContextUse())

    def render(self) -> RenderResult:
        width = self.size.width
        use = self.use
        if not use.context:
            return signs([("ctx  not known before a model is chosen", "$muted")])
        legend = role_legend(use)
        if use.reserve:
            tokens = number_format.tokens(use.reserve)
            legend.append(signs([("╌", "$edge"), " reply", (f" {tokens}", "$muted")]))
        share = number_format.percent(SUGGEST_AT)
        legend.append(signs([("┆", "$edge"), (f" compacting at {share}", "$muted")]))
        below = Content("   ").join(legend).truncate(width, ellipsis=True)
        return Content("\n").join([ribbon_line(use, width, widest=width), below])
