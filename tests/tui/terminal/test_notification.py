"""Notifications by terminal sequences."""

from __future__ import annotations

import pytest

from ingle.tui.terminal.notification import notification

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("env", "sequence"),
    [
        ({"TERM": "xterm-256color"}, "\x1b]9;Done.\x07"),
        ({"TERM": "foot"}, "\x1b]777;notify;ingle;Done.\x1b\\"),
        ({"VTE_VERSION": "7600"}, "\x1b]777;notify;ingle;Done.\x1b\\"),
        ({"TMUX": "x"}, "\x1bPtmux;\x1b\x1b]9;Done.\x07\x1b\\"),
    ],
)
def test_sequence_is_one_that_the_terminal_knows(env: dict[str, str], sequence: str) -> None:
    assert notification("Done.", env) == sequence
