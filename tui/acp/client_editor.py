"""`ClientEditor`: the files of the client's editor, with changes that are not saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from acp import RequestError

from ingle.daemon.client.tool_types import EditorAnswer, EditorRequest, ReadEditor

if TYPE_CHECKING:
    from acp.interfaces import Client
    from acp.schema import ClientCapabilities


class ClientEditor:
    """See `ChatEditor`; a client that offers no files has none."""

    def __init__(
        self, client: Client, session: str, capabilities: ClientCapabilities | None
    ) -> None:
        files = None if capabilities is None else capabilities.fs
        self.reads = bool(files and files.read_text_file)
        self.writes = bool(files and files.write_text_file)
        self._client = client
        self._session = session

    async def answer(self, asked: EditorRequest) -> EditorAnswer:
        """Ask the client."""
        try:
            if isinstance(asked, ReadEditor):
                found = await self._client.read_text_file(self._session, asked.path)
                return EditorAnswer(asked.id, found.content)
            await self._client.write_text_file(self._session, asked.path, asked.text)
        except (RequestError, ConnectionError) as error:
            return EditorAnswer(asked.id, problem=str(error) or type(error).__name__)
        return EditorAnswer(asked.id)
