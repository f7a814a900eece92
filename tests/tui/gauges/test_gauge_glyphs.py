"""Glyphs of the gauges, and their ASCII fallback."""

from __future__ import annotations

import pytest

from ingle.tui.gauges.context_usage import Role
from ingle.tui.gauges.gauge_glyphs import SPARKS, ascii_only, plain
from ingle.tui.gauges.page_map_cells import PageState


def test_page_glyphs_have_documented_ascii_fallbacks() -> None:
    assert plain("◆█▲▒·") == "#@u+."
    assert len({plain(state.glyph) for state in PageState}) == len(PageState)


def test_every_glyph_has_a_single_character_fallback() -> None:
    everything = "".join(role.glyph for role in Role) + SPARKS + "┊─┆╌▓┈×≈●○↓"
    assert plain(everything).isascii()
    assert len(plain(everything)) == len(everything)
    assert len({plain(role.glyph) for role in Role}) == len(Role)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TERM": "linux"}, True),
        ({"TERM": "xterm-256color"}, False),
        ({"TERM": "xterm", "LANG": "de_DE.ISO-8859-1"}, True),
        ({"TERM": "xterm", "LANG": "de_DE.ISO-8859-1", "LC_ALL": "C.UTF-8"}, False),
        ({"TERM": "xterm", "LANG": "C"}, False),
    ],
)
def test_ascii_fallback_depends_on_term_and_locale(
    environment: dict[str, str], expected: bool
) -> None:
    assert ascii_only(environment) is expected
