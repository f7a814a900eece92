"""Files that are sent along with a prompt of the plain chat."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..chats.message import Attachment
from ..text import number_format

if TYPE_CHECKING:
    from ..composing.attachment_reader import AttachmentReading
    from .plain_session import PlainSession


class Files:
    """Reads the files that are named, and reports what could not be read."""

    def __init__(self, session: PlainSession) -> None:
        self._session = session

    def of(self, text: str) -> list[Attachment] | None:
        """The files that a prompt mentions as `@name`; None if it is not to be sent.

        Text from a pipe is not searched for mentions, since anyone may have written it.
        """
        if "@" not in text or not self._session.reader.is_person:
            return []
        from ..composing.attachment_reader import read_mentions

        reading = read_mentions(text, Path.cwd())
        self._tell(reading)
        if reading.problems and not self._session.reader.confirm("Send it all the same?"):
            return None
        return reading.attachments

    def attach(self, argument: str) -> None:
        """`/attach FILE`: have a file, a folder's listing, or a pattern's files go along."""
        from ..composing.attachment_reader import read_mentions
        from ..composing.file_mentions import find_mentions, resolve

        output = self._session.output
        if not argument:
            output.error("Say which file: /attach FILE.")
            return
        # In quotes it may have spaces; a pattern has none of its own there.
        name = argument.strip("\"'")
        mention = f'@"{name}"'
        paths = [found.path for found in find_mentions(mention)]
        if not paths:
            output.error(f"There is no file {name}.")
            return
        reading = read_mentions(mention, Path.cwd(), promised=paths)
        self._session.attachments += reading.attachments
        self._tell(reading)
        if reading.attachments:
            output.line("It goes along with the next prompt.")
        elif not reading.problems:
            output.error(f"There is no file {resolve(name, Path.cwd())}.")

    def _tell(self, reading: AttachmentReading) -> None:
        output = self._session.output
        for problem in reading.problems:
            output.error(problem)
        for attachment in reading.attachments:
            size = number_format.size(len(attachment.text.encode()))
            output.line(f"Attached: {attachment.name}, {size}.")
