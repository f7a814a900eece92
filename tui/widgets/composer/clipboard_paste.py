"""Pastes the clipboard: its text, else its picture."""

from __future__ import annotations

import asyncio
import os
import sys
from base64 import b64encode
from itertools import count
from typing import TYPE_CHECKING

from ...chats.message import Attachment
from ...composing.attachment_reader import MAX_PICTURE
from ...terminal.clipboard import paste, paste_picture, picture_readers, readers
from ...text import number_format

if TYPE_CHECKING:
    from .composer import Composer

_NO_PROGRAM = (
    "No program here can read the clipboard; the terminal's own paste can (ctrl+shift+v or cmd+v)."
)


async def paste_clipboard(composer: Composer) -> None:
    """Insert the clipboard's text, or mention its picture, which is kept until it is sent."""
    if text := await asyncio.to_thread(paste):
        composer.add_paste(text)
        return
    picture = await asyncio.to_thread(paste_picture)
    if not picture:
        composer.notify(_why_nothing(), severity="warning")
        return
    if len(picture) > MAX_PICTURE:
        size, limit = number_format.size(len(picture)), number_format.size(MAX_PICTURE)
        composer.notify(f"The picture has {size}; the limit is {limit}.", severity="warning")
        return
    taken = composer.text
    name = next(name for number in count(1) if (name := f"clipboard-{number}.png") not in taken)
    uri = f"data:image/png;base64,{b64encode(picture).decode()}"
    composer.attaching.give(Attachment(name, "", uri))
    composer.attach(f"@{name}")


def _why_nothing() -> str:
    if not readers(os.environ):
        return _NO_PROGRAM
    if not picture_readers(os.environ):
        needed = "pngpaste" if sys.platform == "darwin" else "wl-paste or xclip"
        return f"The clipboard has no text; to paste pictures, install {needed}."
    return "The clipboard has neither text nor a picture."
