"""Files that are sent along with a prompt of the plain chat."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..chats.message import Attachment

if TYPE_CHECKING:
    from .plain_session import PlainSession


def read_mentioned(session: PlainSession, text: str) -> list[Attachment] | None:
    """The files that a prompt mentions as `@name`; None if it is not to be sent.

    Text from a pipe is not searched for mentions, since anyone may have written it.
    """
    if "@" not in text or not session.reader.is_person:
        return []
    attachments, failed = read_files(session, text)
    if failed and not session.reader.confirm("Send it all the same?"):
        return None
    return attachments


def read_files(
    session: PlainSession, text: str, promised: Sequence[str] = ()
) -> tuple[list[Attachment], bool]:
    """Read the mentioned files and report each; whether one of them could not be read."""
    from ..composing.attachment_reader import read_mentions
    from ..text import number_format

    reading = read_mentions(text, Path.cwd(), promised)
    for problem in reading.problems:
        session.output.error(problem)
    for attachment in reading.attachments:
        size = number_format.size(len(attachment.text.encode()))
        session.output.line(f"Attached: {attachment.name}, {size}.")
    return reading.attachments, bool(reading.problems)
