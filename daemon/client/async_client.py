"""Async client of the native API over a unix socket or TCP, on asyncio streams and h11.

httpx would do the same, but its import alone exceeds the time budget of the chat's start.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from .client_errors import ConnectionLost, DaemonError, DaemonUnreachable
from .document_types import FoundPassages, Thumbnail
from .engine_types import EngineEntries, EngineEntry, InstallProgress
from .error_types import read_error
from .generation_types import PromptTokenCounts
from .model_types import DownloadProgress, LoadedModel, ModelEntries, ModelEntry, Unloaded
from .routing_types import Explanation, LedgerTotals, RoutingState
from .sse_parser import ServerSentEvent, ServerSentEventParser
from .watch_types import WatchedPrompt

if TYPE_CHECKING:
    from .client_connection import ClientConnection

CONNECT_TIMEOUT = 5.0
STREAM_SILENCE = 45.0
"""Seconds without a byte after which a stream counts as lost; the daemon comments every 15."""
LOAD_PATIENCE = 600.0
"""Seconds that loading a model with another context may take."""

P = TypeVar("P")
T = TypeVar("T")


class AsyncDaemonClient:
    """One daemon's HTTP API; every request has a connection of its own, closed on cancellation.

    All methods raise `DaemonError` for an error that the daemon reports, and `DaemonUnreachable` if
    no complete answer arrived. `clean` is applied to every decoded answer, before it is returned.
    `endpoint` is the socket path or the address as text.
    """

    def __init__(
        self,
        socket_path: str | None = None,
        address: tuple[str, int] | None = None,
        *,
        clean: Callable[[Any], Any] = lambda answer: answer,
    ) -> None:
        if socket_path is not None:
            self.endpoint = socket_path
            self._open = lambda: asyncio.open_unix_connection(socket_path)
        elif address is not None:
            self.endpoint = f"{address[0]}:{address[1]}"
            self._open = lambda: asyncio.open_connection(*address)
        else:
            raise ValueError("a socket path or an address is needed")
        self._clean = clean

    async def request(
        self, kind: type[T], method: str, path: str, body: object = None, *, patience: float = 30.0
    ) -> T:
        """Send `body` as JSON and return the answer as `kind`, within `patience` seconds."""
        content = await self._exchange(method, path, body, patience)
        hint = "The daemon may be of another version: `ingle stop`, then start the chat again."
        return self._decoded(content, kind, f"The daemon's answer to {method} {path} was", hint)

    def decode_event(self, event: ServerSentEvent, kind: type[T]) -> T:
        """Return the data of an event as `kind`; raises `DaemonError` for an `error` event."""
        if event.event == "error":
            raise self._error(event.data)
        return self._decoded(event.data, kind, f"The daemon sent a `{event.event}` event that was")

    async def models(self) -> ModelEntries:
        """Return installed models and those of the catalog, running downloads, free disk space."""
        return await self.request(ModelEntries, "GET", "/ingle/v1/models")

    async def load(self, model: str, context: int) -> LoadedModel:
        """Load a model with a context of up to `context` tokens."""
        body = {"model": model, "context": context}
        return await self.request(
            LoadedModel, "POST", "/ingle/v1/load", body, patience=LOAD_PATIENCE
        )

    async def unload(self, model: str) -> bool:
        """Unload a model; returns whether it was loaded."""
        done = await self.request(Unloaded, "POST", "/ingle/v1/unload", {"model": model})
        return bool(done.unloaded)

    async def pull(self, model: str, on_progress: Callable[[DownloadProgress], None]) -> ModelEntry:
        """Download a model, or join its download; cancelling this leaves the download running."""
        body = {"model": model}
        return await self._job("/ingle/v1/pull", body, DownloadProgress, ModelEntry, on_progress)

    async def engines(self) -> EngineEntries:
        """Return the engines of this machine, and the one to offer."""
        return await self.request(EngineEntries, "GET", "/ingle/v1/engines")

    async def install_engine(
        self, name: str, on_progress: Callable[[InstallProgress], None]
    ) -> EngineEntry:
        """Install an engine, or join its installation, which goes on if this is cancelled."""
        path, body = "/ingle/v1/engines/install", {"engine": name}
        return await self._job(path, body, InstallProgress, EngineEntry, on_progress)

    async def _job(
        self,
        path: str,
        body: object,
        progress: type[P],
        result: type[T],
        on_progress: Callable[[P], None],
    ) -> T:
        """Follow a job of the daemon to its result."""
        async with aclosing(self.events(path, method="POST", body=body)) as events:
            async for event in events:
                if event.event == "progress":
                    on_progress(self.decode_event(event, progress))
                elif event.event in ("done", "error"):
                    return self.decode_event(event, result)
        raise ConnectionLost("The daemon ended the stream of progress too early.")

    async def decline_engine(self, name: str) -> None:
        """Have an engine not offered again."""
        await self.request_json("POST", "/ingle/v1/engines/decline", {"engine": name})

    async def count_tokens(self, body: Mapping[str, object], **options: Any) -> PromptTokenCounts:
        """Return the number of tokens of a conversation, message by message."""
        return await self.request(PromptTokenCounts, "POST", "/ingle/v1/tokens", body, **options)

    async def search_documents(
        self, folder: str, question: str, most: int, wait: float
    ) -> FoundPassages:
        """Return passages of a folder, after reading what changed for `wait` seconds at most."""
        body = {"folder": folder, "question": question, "most": most, "wait": wait}
        path, patience = "/ingle/v1/documents/search", LOAD_PATIENCE
        return await self.request(FoundPassages, "POST", path, body, patience=patience)

    async def thumbnail(self, picture: str, width: int, height: int) -> Thumbnail:
        """Return a copy of a picture, a data URI, in at most so many pixels."""
        body = {"picture": picture, "width": width, "height": height}
        return await self.request(Thumbnail, "POST", "/ingle/v1/thumbnail", body)

    async def routing(self) -> RoutingState:
        """Return the routing policy in force, with its providers and routes."""
        return await self.request(RoutingState, "GET", "/ingle/v1/routing")

    async def explain_routing(self, body: Mapping[str, object]) -> Explanation:
        """Return the routing verdict on a generation's body, or on `{"text": …}`."""
        return await self.request(Explanation, "POST", "/ingle/v1/routing/explain", dict(body))

    async def teach_word(self, kind: Literal["words", "public"], word: str) -> None:
        """Add a word to the policy: one that stays here, or a public one."""
        await self.request_json("POST", "/ingle/v1/routing/words", {kind: [word]})

    async def transcribe(self, audio: bytes) -> str:
        """Return the text that is spoken in an audio file; silence is left out."""
        from .document_types import PATIENCE, TRANSCRIPTIONS, HeardText, audio_form

        form = audio_form(audio, chunking_strategy="auto")
        heard = await self.request(HeardText, "POST", TRANSCRIPTIONS, form, patience=PATIENCE)
        return heard.text

    async def speak(self, text: str) -> bytes:
        """Return the sound of a text as 16-bit samples at 24 kHz."""
        from .document_types import PATIENCE, SPEECH

        body = {"input": text, "response_format": "pcm"}
        return await self._exchange("POST", SPEECH, body, PATIENCE)

    async def watched_prompt(self, request: str) -> str:
        """Return the prompt of a watched request, not cleaned, so that byte offsets hold."""
        answer = await self.request_json("GET", f"/ingle/v1/watch/{request}")
        return msgspec.convert(answer, WatchedPrompt).text

    async def ledger_totals(self) -> LedgerTotals:
        """Return the totals of outbound requests in the current month."""
        return await self.request(LedgerTotals, "GET", "/ingle/v1/ledger/totals")

    async def request_json(self, method: str, path: str, body: object = None) -> Any:
        """Send `body` as JSON and return the decoded answer, None if it is empty."""
        content = await self._exchange(method, path, body, 30.0)
        return msgspec.json.decode(content) if content.strip() else None

    async def events(
        self, path: str, *, method: str = "GET", body: object = None
    ) -> AsyncGenerator[ServerSentEvent, None]:
        """Yield a stream's events until its end; closing the iterator closes the connection."""
        parser = ServerSentEventParser()
        async with self._connection() as connection:
            await connection.send(method, path, body, accept="text/event-stream")
            async with asyncio.timeout(STREAM_SILENCE):
                await connection.read_head()
            while True:
                async with asyncio.timeout(STREAM_SILENCE):
                    chunk = await connection.read_chunk()
                if chunk is None:
                    return
                for event in parser.feed(chunk):
                    yield event

    def _decoded(
        self, content: bytes | str, kind: type[T], subject: str, hint: str | None = None
    ) -> T:
        """Return the content as `kind`; raises `DaemonError`, whose message `subject` begins."""
        try:
            return self._clean(msgspec.json.decode(content, type=kind))
        except msgspec.MsgspecError as error:
            message = f"{subject} not understood: {error}."
            raise DaemonError(message, hint, "bad_answer") from error

    def _error(self, content: bytes | str, status: int = 0) -> DaemonError:
        error = self._clean(read_error(content, status))
        return DaemonError(error.message, error.hint, error.code, status=status)

    async def _exchange(self, method: str, path: str, body: object, patience: float) -> bytes:
        async with self._connection() as connection, asyncio.timeout(patience):
            await connection.send(method, path, body, accept="application/json")
            await connection.read_head()
            return await connection.read_all()

    @asynccontextmanager
    async def _connection(self) -> AsyncGenerator[ClientConnection]:
        """Yield an open connection; a failure while it is in use raises `ConnectionLost`."""
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                reader, writer = await self._open()
        except (OSError, TimeoutError) as error:
            raise DaemonUnreachable(f"The daemon does not answer at {self.endpoint}.") from error
        # They take 15 ms, and when a chat starts there may be no daemon yet.
        import h11

        from .client_connection import ClientConnection

        try:
            yield ClientConnection(reader, writer, self._error)
        except (OSError, EOFError, TimeoutError, h11.RemoteProtocolError) as error:
            raise ConnectionLost("The connection to the daemon broke.") from error
        finally:
            # Not awaited: closing must not hold up a cancellation, and nothing is left to send.
            writer.close()
