"""A client of the Agent Client Protocol, made with its SDK, that drives a real `ingle acp`."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from acp import PROTOCOL_VERSION, connect_to_agent, text_block
from acp.client.connection import ClientSideConnection
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    FileSystemCapabilities,
    PromptResponse,
    ReadTextFileResponse,
    RequestPermissionResponse,
)

if TYPE_CHECKING:
    from ..conftest import FakeDaemon


class EditorClient:
    """Keeps what the agent sends, and answers its questions with `choices` in order.

    `buffers` are files with changes that are not saved.
    """

    def __init__(self) -> None:
        self.agent: ClientSideConnection
        self.process: asyncio.subprocess.Process
        self.updates: list[Any] = []
        self.asked: list[tuple[Any, list[Any]]] = []
        self.choices: list[str | None] = []
        self.buffers: dict[str, str] = {}
        self.written: dict[str, str] = {}
        self.arrived = asyncio.Condition()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        async with self.arrived:
            self.updates.append(update)
            self.arrived.notify_all()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> RequestPermissionResponse:
        async with self.arrived:
            self.asked.append((tool_call, options))
            self.arrived.notify_all()
        choice = self.choices.pop(0)
        if choice is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        if choice == "wait":
            await asyncio.Event().wait()
        return RequestPermissionResponse(
            outcome=AllowedOutcome(outcome="selected", option_id=choice)
        )

    async def read_text_file(self, session_id: str, path: str, **_: Any) -> ReadTextFileResponse:
        text = self.buffers.get(path)
        return ReadTextFileResponse(
            content=await asyncio.to_thread(Path(path).read_text) if text is None else text
        )

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> None:
        self.written[path] = content
        await asyncio.to_thread(Path(path).write_text, content)

    async def until(self, is_there: Callable[[], bool]) -> None:
        """Wait until something has arrived."""
        async with self.arrived:
            await self.arrived.wait_for(is_there)

    def of(self, kind: str) -> list[Any]:
        """The updates of a kind so far."""
        return [update for update in self.updates if update.session_update == kind]

    @property
    def said(self) -> str:
        """The text of the agent so far."""
        return "".join(update.content.text for update in self.of("agent_message_chunk"))

    async def prompt(self, session: str, *blocks: Any) -> PromptResponse:
        """Send a prompt of texts and other blocks."""
        made = [text_block(block) if isinstance(block, str) else block for block in blocks]
        return await self.agent.prompt(session_id=session, prompt=made)


Connect = Callable[..., AbstractAsyncContextManager[EditorClient]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder that the editor has open, with one file."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "notes.txt").write_text("one\nold\nthree\n")
    return folder


@pytest.fixture
def connect(fake_daemon: FakeDaemon, tmp_path: Path) -> Connect:
    """`async with connect() as client`: a connection to a new process, initialised."""

    @asynccontextmanager
    async def connected(
        *, reads: bool = False, writes: bool = False
    ) -> AsyncGenerator[EditorClient]:
        environment = os.environ | {
            "INGLE_HOME": str(tmp_path / "home"),
            "INGLE_SOCKET": str(fake_daemon.path),
        }
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "ingle.daemon.main", "acp", "smollm2:135m"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        assert process.stdin is not None
        client: Any = EditorClient()
        client.process = process
        client.agent = connect_to_agent(client, process.stdin, process.stdout)
        files = FileSystemCapabilities(read_text_file=reads, write_text_file=writes)
        await client.agent.initialize(
            protocol_version=PROTOCOL_VERSION, client_capabilities=ClientCapabilities(fs=files)
        )
        try:
            yield client
        finally:
            await client.agent.close()
            process.stdin.close()
            assert await process.wait() == 0

    return connected
