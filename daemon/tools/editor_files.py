"""Files as the client's editor has them, saved or not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from pathlib import Path

from ..client.tool_types import EditorAnswer, EditorRequest, ReadEditor, WriteEditor
from .tool import ToolFailed

_SECONDS = 30.0


class EditorFiles:
    """Asks the client's editor; its methods block, so call them in a thread."""

    def __init__(self, send: Callable[[EditorRequest], None], *, reads: bool, writes: bool) -> None:
        """To be made in the loop whose messages `take` gets."""
        self._send = send
        self._reads, self._writes = reads, writes
        self._loop = asyncio.get_running_loop()
        self._numbers = count(1)
        self._waiting: dict[str, Future[EditorAnswer]] = {}

    def read(self, path: Path) -> bytes | None:
        """Return the text, None if the editor does not have it."""
        if not self._reads:
            return None
        answer = self._ask(lambda name: ReadEditor(name, str(path)))
        return None if answer.problem else answer.text.encode()

    def write(self, path: Path, content: bytes) -> bool:
        """Replace the text of a file; return whether it was done. Raises `ToolFailed`."""
        if not self._writes:
            return False
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return False
        answer = self._ask(lambda name: WriteEditor(name, str(path), text))
        if answer.problem:
            raise ToolFailed(f"The editor did not write {path.name}: {answer.problem}")
        return True

    def take(self, answer: EditorAnswer) -> None:
        """Pass an answer on."""
        waiting = self._waiting.pop(answer.id, None)
        if waiting is not None:
            waiting.set_result(answer)

    def _ask(self, request: Callable[[str], EditorRequest]) -> EditorAnswer:
        name = f"editor:{next(self._numbers)}"
        waiting = self._waiting[name] = Future[EditorAnswer]()
        self._loop.call_soon_threadsafe(self._send, request(name))
        try:
            return waiting.result(_SECONDS)
        except TimeoutError:
            self._waiting.pop(name, None)
            return EditorAnswer(name, problem="It did not answer in time.")
