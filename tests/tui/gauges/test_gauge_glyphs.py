from __future__ import annotations

import pytest

from ingle.tui.gauges.context_usage import Role
from ingle.tui.gauges.gauge_glyphs import SPARKS, ascii_only, plain
from ingle.tui.gauges.page_map_cells import PageState


def test_pages_have_the_ascii_signs_that_are_promised() -> None:
    assert plain("◆█▲▒·") == "#@u+."
    assert len({plain(state.glyph) for state in PageState}) == len(PageState)


def test_all_signs_have_a_twin_of_one_character() -> None:
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
def test_what_the_terminal_can_show_is_told_by_its_name_and_locale(
    environment: dict[str, str], expected: bool
) -> None:
    assert ascii_only(environment) is expected
