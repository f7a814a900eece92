"""`ThumbnailsFeature`: small pictures in the transcript, decoded by the daemon."""

from __future__ import annotations

from ingle.daemon.client.client_errors import ClientError

from ...session.turn import Turn
from ...transcript.entries.prompt_entry import PromptEntry
from ..feature import Feature

MOST = 20
"""Pictures of a chat that are drawn, the latest ones."""


class ThumbnailsFeature(Feature):
    """Asks for the pictures of the chat on screen, one after another."""

    def on_chat_opened(self) -> None:
        """See `Feature`."""
        self._draw()

    def on_path_changed(self) -> None:
        """See `Feature`."""
        self._draw()

    def on_connected(self) -> None:
        """See `Feature`."""
        self._draw()

    def on_turn_started(self, turn: Turn) -> None:
        """See `Feature`."""
        self._draw()

    def _draw(self) -> None:
        entries = [each for each in self.host.transcript.entries if isinstance(each, PromptEntry)]
        if any(entry.pictures() for entry in entries):
            self.host.run_worker(self._draw_all(entries), group="thumbnails", exclusive=True)

    async def _draw_all(self, entries: list[PromptEntry]) -> None:
        from ...transcript.entries.thumbnail_lines import COLUMNS, ROWS, thumbnail_lines

        waiting = [(entry, *picture) for entry in reversed(entries) for picture in entry.pictures()]
        for entry, index, picture in waiting[:MOST]:
            try:
                found = await self.host.client.thumbnail(picture, COLUMNS, ROWS)
                lines = thumbnail_lines(found)
            except (ClientError, ValueError):
                lines = []  # its name stands for it
            entry.set_thumbnail(index, lines)
            if entry in self.host.transcript.entries:
                self.host.transcript.update_entry(entry)
