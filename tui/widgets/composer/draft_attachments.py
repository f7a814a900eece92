"""Attachments of a draft: previewed while it is typed, read when it is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import RenderResult
from textual.content import Content
from textual.widget import Widget

from ...chats.message import Attachment
from ...composing.file_mentions import AttachmentPreview, find_mentions
from ...text import number_format
from ...text.terminal_safe_text import clean

if TYPE_CHECKING:
    from ...composing.attachment_reader import AttachmentReading
    from .composer import Composer

AddPassages = Callable[
    [str, Sequence[Attachment], Path], Awaitable[tuple[tuple[Attachment, ...], list[str]]]
]

READ_SECONDS = 10.0
"""Time limit in seconds for reading the files of a prompt."""
PAUSE = 0.15
"""Idle seconds after which the mentioned files are examined."""


class AttachmentLine(Widget):
    """Names, sizes and problems of attachments above the composer; hidden if there are none."""

    DEFAULT_CSS = """
    AttachmentLine { height: auto; max-height: 4; width: 100%; padding: 0 2; display: none; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._facts: Sequence[AttachmentPreview] = ()

    def show(self, facts: Sequence[AttachmentPreview]) -> None:
        """Show these attachments; without any, hide the line."""
        if facts != self._facts:
            self._facts = facts
            self.display = bool(facts)
            self.refresh(layout=True)

    def render(self) -> RenderResult:
        parts = [self._part(facts) for facts in self._facts]
        return Content("  ·  ").stylize("$edge").join(parts)

    @staticmethod
    def _part(facts: AttachmentPreview) -> Content:
        if facts.problem:
            return Content(f"! {clean(facts.problem)}").stylize("$warning")
        size = number_format.size(facts.size)
        count = f"{number_format.counted(facts.files, 'file')}, " if facts.files != 1 else ""
        name = Content(f"+ {clean(facts.name)} ").stylize("$secondary")
        return Content.assemble(name, (f"({count}{size})", "$muted"))


class DraftAttachments:
    """The files and chips of a composer's draft."""

    def __init__(self, composer: Composer) -> None:
        self._composer = composer
        self._glances: dict[str, AttachmentPreview] = {}
        self._given: dict[str, Attachment] = {}
        self._line: AttachmentLine | None = None
        self.add_passages: AddPassages | None = None
        """Adds passages of mentioned folders to the attachments of a text."""

    def give(self, attachment: Attachment) -> None:
        """Keep the content of a mentioned file, in case the file is gone when it is read again."""
        self._given[attachment.name] = attachment

    def forget(self) -> None:
        """Drop the kept contents, once the draft was sent."""
        self._given.clear()

    def look(self) -> None:
        """Schedule an examination of the mentioned files."""
        text = self._composer.text
        if "@" in text or self._glances:
            job = partial(self._look, text)
            self._composer.run_worker(job, group="glance", exclusive=True)

    async def _look(self, text: str) -> None:
        from ...composing.attachment_reader import preview_mention

        await asyncio.sleep(PAUSE)
        composer, folder = self._composer, self._composer.folder
        mentions = {mention.path: mention for mention in find_mentions(text)}
        found = await asyncio.to_thread(
            lambda: [preview_mention(mention, folder) for mention in mentions.values()]
        )
        self._glances = {seen.name: seen for seen in found if seen is not None}
        # A file that was there once stays expected: its loss is reported.
        composer.mentioned = frozenset(self._glances) | (composer.mentioned & mentions.keys())
        composer.notify_style_update()
        composer.show_facts()

    def show(self) -> list[AttachmentPreview]:
        """Update the line above the composer; return its attachments."""
        facts = self._facts()
        if self._line is None and facts:
            self._line = AttachmentLine()
            self._composer.mount_above(self._line)
        if self._line is not None:
            self._line.show(facts)
        return facts

    def _facts(self) -> list[AttachmentPreview]:
        composer, text = self._composer, self._composer.text
        facts: list[AttachmentPreview] = []
        typed = composer.completing.typed_file
        for path in dict.fromkeys(mention.path for mention in find_mentions(text)):
            seen = self._glances.get(path)
            if path == typed:
                continue
            given = self._given.get(path)
            if seen is not None:
                facts.append(seen)
            elif given is not None:
                picture = bool(given.picture)
                facts.append(AttachmentPreview(path, given.size, is_picture=picture))
            elif path in composer.mentioned:
                problem = f"{path} no longer exists"
                facts.append(AttachmentPreview(path, problem=problem))
        for chip in composer.chips.attachments(text):
            facts.append(AttachmentPreview(chip.name, len(chip.text.encode())))
        return facts

    async def read(self, text: str) -> tuple[tuple[Attachment, ...], Sequence[str]]:
        """The attachments of `text`, and a sentence for each file that cannot be read."""
        chips = self._composer.chips.attachments(text)
        mentions = find_mentions(text)
        if not mentions:
            return chips, ()
        reading = await self._read(text)
        found = {attachment.name for attachment in reading.attachments}
        given = [
            self._given[mention.path]
            for mention in mentions
            if mention.path in self._given and mention.path not in found
        ]
        problems = [] if given else reading.problems
        files = tuple(reading.attachments)
        if self.add_passages is not None:
            files, failed = await self.add_passages(text, files, self._composer.folder)
            problems = [*problems, *failed]
        return (*files, *given, *chips), problems

    async def _read(self, text: str) -> AttachmentReading:
        from ...composing.attachment_reader import AttachmentReading, read_mentions

        composer = self._composer
        job = asyncio.to_thread(read_mentions, text, composer.folder, composer.mentioned)
        try:
            return await asyncio.wait_for(job, READ_SECONDS)
        except TimeoutError:
            return AttachmentReading(problems=["The files take too long to be read."])
