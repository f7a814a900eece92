"""The registry of generations: those that run, and the ended ones for ten minutes."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import TYPE_CHECKING

from ..errors import Conflict, NotFound, TooManyGenerations
from .generation import Generation

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from ingle.backends.base.requests import GenerateRequest

    from ..lifecycle.model_manager import ModelManager
    from .generation import GenerationRoute

MAX_RUNNING = 64
KEEP_SECONDS = 600.0
KEEP_BYTES = 64 * 2**20


class GenerationRegistry:
    """All generations, the ended ones for ten minutes or until 64 MiB of newer ones ended."""

    def __init__(
        self,
        manager: ModelManager,
        *,
        max_running: int = MAX_RUNNING,
        keep_seconds: float = KEEP_SECONDS,
        keep_bytes: int = KEEP_BYTES,
    ) -> None:
        self._manager = manager
        self._max_running = max_running
        self._keep_seconds = keep_seconds
        self._keep_bytes = keep_bytes
        self._generations: dict[str, Generation] = {}
        self._sweep: asyncio.TimerHandle | None = None

    def start(
        self,
        reference: str,
        name: str,
        request: GenerateRequest,
        enter: Callable[[], ExitStack] | None = None,
        way: GenerationRoute | None = None,
    ) -> Generation:
        """Begin one; `enter` takes its place, and a `way` takes that of the `reference`.

        Raises `Conflict` where its id is taken, `TooManyGenerations`, and what `enter` does.
        """
        if request.id in self._generations:
            raise Conflict(
                "There is a generation of this id already.",
                hint="Choose another id, or follow that one.",
                code="generation_exists",
            )
        running = sum(g.state == "running" for g in self._generations.values())
        if running >= self._max_running:
            raise TooManyGenerations(
                f"{running} generations are running already.",
                hint="Wait for one to end, or cancel one.",
            )
        place = enter() if enter is not None else None
        generation = Generation(self._manager, reference, name, request, place, way)
        self._generations[generation.id] = generation
        generation.task.add_done_callback(lambda _: self._forget_old())
        return generation

    def get(self, id: str) -> Generation:  # noqa: A002 - the API's word
        """The generation of this id; raises `NotFound`."""
        generation = self._generations.get(id)
        if generation is None:
            raise NotFound(
                "There is no generation of this id.",
                hint="A generation is kept for ten minutes after its end.",
                code="generation_not_found",
            )
        return generation

    def forget(self, chosen: Callable[[str, float], bool], *, dry_run: bool = False) -> int:
        """Drop the ended ones of these ids and times of their end (Unix seconds); how many."""
        behind = time.time() - time.monotonic()
        ended = [
            generation.id
            for generation in self._generations.values()
            if generation.ended_at is not None
            and chosen(generation.id, generation.ended_at + behind)
        ]
        if not dry_run:
            for id_ in ended:
                del self._generations[id_]
        return len(ended)

    async def close(self) -> None:
        """Cancel what still runs."""
        if self._sweep is not None:
            self._sweep.cancel()
        await asyncio.gather(*(g.cancel() for g in self._generations.values()))

    def _forget_old(self) -> None:
        """Drop what is too old or too much, and look again when the next one is too old."""
        now = time.monotonic()
        ended = [g for g in self._generations.values() if g.ended_at is not None]
        ended.sort(key=lambda generation: generation.ended_at or 0.0)
        size = sum(generation.size for generation in ended)
        for generation in ended:
            too_old = now - (generation.ended_at or 0.0) >= self._keep_seconds
            # The newest stays even if it alone is too much: its client waits for its end.
            if too_old or (size > self._keep_bytes and generation is not ended[-1]):
                size -= generation.size
                del self._generations[generation.id]
        self._schedule(now)

    def _schedule(self, now: float) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        ends = [g.ended_at for g in self._generations.values() if g.ended_at is not None]
        if ends:
            delay = max(0.0, min(ends) + self._keep_seconds - now)
            self._sweep = asyncio.get_running_loop().call_later(delay, self._forget_old)


def new_generation_id() -> str:
    """An id that cannot be predicted."""
    return f"gen-{secrets.token_hex(12)}"
