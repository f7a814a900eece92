"""Vim's keys in the composer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ..conftest import OpenComposer

NAMES = {"$": "dollar_sign", "^": "circumflex_accent", " ": "space"}


@pytest.mark.parametrize(
    ("before", "keys", "after"),
    [
        ("one two", "x", "one tw"),
        ("one two", "0x", "ne two"),
        ("one two", "02x", "e two"),
        ("one two", "bx", "one wo"),
        ("one two", "0wiX", "one Xtwo"),
        ("one two", "0eaX", "oneX two"),
        ("one two", "0lllD", "one"),
        ("one two three", "02dw", "three"),
        ("one two three", "0d$", ""),
        ("one two three", "wdb", "one two e"),
        ("one two", "0cwX", "X two"),
        ("one two", "0IXIa", "XIaone two"),
        ("one two", "0A!", "one two!"),
        ("one two", "0xp", "noe two"),
        ("one two", "0ywP", "one one two"),
        ("one two", "0$aX", "one twoX"),
        ("a\nb\nc", "ggdd", "b\nc"),
        ("a\nb\nc", "dd", "a\nb"),
        ("a\nb\nc", "k2dd", "a"),
        ("a\nb", "ddp", "a\nb"),
        ("a\nb", "kyyjp", "a\nb\na"),
        ("a\nb", "gyyP", "a\na\nb"),
        ("a\nb", "koX", "a\nX\nb"),
        ("a\nb", "kOX", "X\na\nb"),
        ("a\nb\nc", "2GccX", "a\nX\nc"),
        ("one two", "0dwu", "one two"),
        ("one", "qz#", "one"),
        ("  one", "^iX", "  Xone"),
        ("", "dwxpbu", ""),
    ],
)
async def test_normal_mode_edits(
    open_composer: OpenComposer, before: str, keys: str, after: str
) -> None:
    async with open_composer() as harness:
        harness.composer.set_vim(True)
        harness.composer.load_text(before)
        harness.composer.move_cursor(harness.composer.document.end)
        harness.composer.escape(clears=False)
        await harness.press(*(NAMES.get(key, key) for key in keys))
        assert harness.text == after


async def test_escape_begins_normal_mode_and_sending_ends_it(open_composer: OpenComposer) -> None:
    async with open_composer() as harness:
        composer = harness.composer
        await harness.press("j")
        assert not composer.escape(clears=False)
        composer.set_vim(True)
        await harness.press("k")
        assert harness.text == "jk"
        assert composer.escape(clears=False)
        assert "NORMAL" in str(composer.border_subtitle)
        await harness.press("2", "d")
        assert "NORMAL 2d" in str(composer.border_subtitle)
        assert composer.escape(clears=False)
        assert not composer.escape(clears=False)
        await harness.press("enter")
        await harness.until(lambda: harness.app.submitted)
        assert "NORMAL" not in str(composer.border_subtitle)
        await harness.press("j", "k")
        assert harness.text == "jk"
        composer.escape(clears=False)
        composer.set_vim(False)
        await harness.press("x")
        assert harness.text == "jxk"


async def test_up_in_the_first_line_walks_earlier_prompts(open_composer: OpenComposer) -> None:
    async with open_composer() as harness:
        harness.composer.set_vim(True)
        harness.composer.remember("an earlier prompt")
        harness.composer.escape(clears=False)
        await harness.press("k")
        assert harness.text == "an earlier prompt"
        await harness.press("j")
        assert harness.text == ""


async def test_chips_are_deleted_whole(open_composer: OpenComposer) -> None:
    async with open_composer() as harness:
        harness.composer.set_vim(True)
        harness.composer.add_paste("line\n" * 30)
        harness.composer.escape(clears=False)
        await harness.press("0", "d", "w")
        assert harness.text == ""
