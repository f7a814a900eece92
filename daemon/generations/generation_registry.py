"""The generations of the native API, by id."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import TYPE_CHECKING, Any

from ..errors import Conflict, NotFound
from .generation import GenerationRun
from .request_watch import RequestWatch
from .run_registry import RunRegistry

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from ingle.backends.base.requests import GenerateRequest

    from ..lifecycle.model_manager import ModelManager
    from .generation import GenerationRoute


class GenerationRegistry(RunRegistry[GenerationRun]):
    """Starts and keeps generations; `limits` are those of a `RunRegistry`."""

    def __init__(self, manager: ModelManager, **limits: Any) -> None:
        super().__init__(**limits)
        self._manager = manager
        self.watch = RequestWatch()
        """Shows what clients send, those of other protocols included."""

    def start(
        self,
        reference: str,
        name: str,
        request: GenerateRequest,
        enter: Callable[[], ExitStack] | None = None,
        route: GenerationRoute | None = None,
    ) -> GenerationRun:
        """Start a generation; `enter` reserves its slot in the queue, `route` replaces `reference`.

        Raises `Conflict` if its id is taken, `TooManyGenerations`, and the errors of `enter`.
        """
        if request.id in self.runs:
            raise Conflict(
                "There is a generation of this id already.",
                hint="Choose another id, or follow that one.",
                code="generation_exists",
            )
        self.check_room()
        place = enter() if enter is not None else None
        generation = GenerationRun(
            self._manager, reference, name, request, place, route, watch=self.watch
        )
        self.add(generation)
        return generation

    def get(self, id: str) -> GenerationRun:  # noqa: A002 - the API's word
        """Return the generation with this id; raises `NotFound`."""
        generation = self.runs.get(id)
        if generation is None:
            raise NotFound(
                "There is no generation of this id.",
                hint="A generation is kept for ten minutes after its end.",
                code="generation_not_found",
            )
        return generation

    def forget(self, chosen: Callable[[str, float], bool], *, dry_run: bool = False) -> int:
        """Drop the ended ones that `chosen` selects by id and Unix time of their end.

        Returns their number; with `dry_run` only counts them.
        """
        behind = time.time() - time.monotonic()
        ended = [
            run.id
            for run in self.runs.values()
            if run.ended_at is not None and chosen(run.id, run.ended_at + behind)
        ]
        if not dry_run:
            for id_ in ended:
                del self.runs[id_]
        return len(ended)

    async def close(self) -> None:
        """Cancel all running generations."""
        self.watch.close()
        self.stop_sweeping()
        await asyncio.gather(*(run.cancel() for run in self.runs.values()))


def new_generation_id() -> str:
    """Return a random id."""
    return f"gen-{secrets.token_hex(12)}"
