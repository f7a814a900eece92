"""Computes the prompts of known agents ahead, while nothing else is asked for."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from itertools import count
from weakref import WeakKeyDictionary

from ingle.backends.base.backend import Backend
from ingle.backends.base.errors import BackendError
from ingle.backends.base.events import Event, Started
from ingle.backends.base.requests import GenerateRequest, Priority, TokenizeRequest
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.model_task import ModelTask

from ..client.model_types import KnownAgent
from ..load_planning.kv_folder import weights_digest
from ..machine.power_source import on_battery
from ..model_process.model_run import ModelRun, ModelState
from ..settings.config import Config
from .known_prefix import KnownPrefix
from .prefix_files import PrefixFiles
from .volatile_lines import first_change

log = logging.getLogger("ingle.daemon")

IDLE_SECONDS = 3.0
"""Without any request, before something is computed ahead."""
MOST_AHEAD = 4
"""Prefixes of one model that are computed ahead."""
LEAST_TOKENS = 256
"""Fewer are not kept on disk."""


class PrefixWarmer:
    """Remembers the beginnings of agents' prompts, and has idle models compute them ahead.

    What is there already is only read from disk into the model's cache. A request to any model
    ends the computation between two steps; the tokens computed until then stay in the cache.
    """

    def __init__(self, config: Config) -> None:
        self.find_runs: Callable[[], Iterable[ModelRun]] = list
        """Returns the models that have a process."""
        self._enabled = config.kv_disk > 0
        self._moves = config.stable_prompts
        self._files = PrefixFiles(config.paths.prefixes)
        self._warmed: WeakKeyDictionary[ModelRun, set[str]] = WeakKeyDictionary()
        self._numbers = count()
        self._answering = 0
        self._timer: asyncio.TimerHandle | None = None
        self._warming: asyncio.Task[None] | None = None
        self._learning: set[asyncio.Task[None]] = set()
        self._closed = False
        self.idle_seconds = IDLE_SECONDS

    @property
    def is_answering(self) -> bool:
        """Return whether a request is answered."""
        return self._answering > 0

    @contextmanager
    def answering(self) -> Generator[None]:
        """Compute nothing ahead for the duration of a request."""
        self._answering += 1
        self._interrupt()
        try:
            yield
        finally:
            self._answering -= 1
            self._rest()

    def changed(self, run: ModelRun) -> None:
        """Note that a model's process began or ended, or is ready."""
        if run.state is ModelState.STARTING:
            self._interrupt()
        else:
            self._rest()

    def saw(self, model: StoredModel, request: GenerateRequest, user_agent: str) -> None:
        """Remember how a request begins, if it is an agent's and not private."""
        prefix = KnownPrefix.of(request, user_agent) if self._enabled else None
        if prefix is None:
            return
        task = asyncio.create_task(asyncio.to_thread(self._learn, model, prefix))
        self._learning.add(task)
        task.add_done_callback(self._learning.discard)

    async def adopt(self, model: StoredModel, program: str) -> list[KnownPrefix]:
        """Return what is known of a program for a model, also from other models."""
        digest = await asyncio.to_thread(weights_digest, model)
        return await asyncio.to_thread(self._files.adopt, digest, program)

    async def close(self) -> None:
        """End what is computed, and compute nothing more."""
        self._closed = True
        self._interrupt()
        tasks = [*self._learning, *([self._warming] if self._warming is not None else [])]
        await asyncio.gather(*tasks, return_exceptions=True)

    def _learn(self, model: StoredModel, prefix: KnownPrefix) -> None:
        try:
            before = self._files.keep(weights_digest(model), prefix)
        except OSError as error:
            log.warning("How %s begins its prompts cannot be kept: %s", prefix.agent, error)
            return
        if before is None:
            return
        change = first_change(before.instructions, prefix.instructions)
        at, what = change if change is not None else (0, None)
        log.info(
            "The instructions of %s changed at character %d of %d%s",
            prefix.agent,
            at,
            len(prefix.instructions),
            f": {what}. `stable_prompts = true` moves such lines behind the tools"
            if what is not None and not self._moves
            else "",
        )

    def _interrupt(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._warming is not None:
            self._warming.cancel()

    def _rest(self) -> None:
        """Compute ahead once nothing was asked for a while."""
        if self._answering or self._closed or not self._enabled:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self.idle_seconds, self._begin)

    def _begin(self) -> None:
        self._timer = None
        if self._warming is None or self._warming.done():
            self._warming = asyncio.create_task(self._warm_all())

    async def _warm_all(self) -> None:
        for run in list(self.find_runs()):
            info = run.info
            if not run.accepts or info is None or info.task is not ModelTask.GENERATE:
                continue
            try:
                await self._warm(run)
            except (BackendError, OSError) as error:  # the next request will report it
                log.debug("Nothing is computed ahead for %s: %s", run.model.name, error)
            finally:
                self._show(run, None)

    async def _warm(self, run: ModelRun) -> None:
        digest = await asyncio.to_thread(weights_digest, run.model)
        warmed = self._warmed.setdefault(run, set())
        for prefix in (await asyncio.to_thread(self._files.of, digest))[:MOST_AHEAD]:
            mark = f"{prefix.kind} {hash(prefix.instructions)}"
            if mark in warmed:
                continue
            if await asyncio.to_thread(on_battery):
                return
            backend = run.backend
            assert backend is not None
            tokens = await self._common_tokens(backend, prefix)
            if run.info is not None and LEAST_TOKENS <= len(tokens) < run.info.context:
                self._show(run, KnownAgent(agent=prefix.agent, tokens=len(tokens), computing=True))
                await self._compute(run, backend, prefix, tokens)
            warmed.add(mark)

    async def _common_tokens(self, backend: Backend, prefix: KnownPrefix) -> list[int]:
        """Return the tokens that all prompts with this prefix begin with."""
        one, other = [
            await backend.tokenize(
                TokenizeRequest(id=self._id(), generate=prefix.request(self._id(), said))
            )
            for said in ("a", "0")
        ]
        pairs = enumerate(zip(one.token_ids, other.token_ids, strict=False))
        length = next((at for at, (a, b) in pairs if a != b), 0)
        return one.token_ids[:length]

    async def _compute(
        self, run: ModelRun, backend: Backend, prefix: KnownPrefix, tokens: list[int]
    ) -> None:
        began, cached = time.monotonic(), 0

        def take(events: list[Event]) -> None:
            nonlocal cached
            cached += sum(event.cached_tokens for event in events if isinstance(event, Started))

        request = GenerateRequest(
            id=self._id(),
            prompt=tokens,
            max_tokens=0,
            priority=Priority.BATCH,
            client="ahead",
            speculation=False,
        )
        await backend.run(request, take)
        log.info(
            "The prompt of %s is ready on %s: %d tokens, of which %d were kept, in %.1f s",
            prefix.agent,
            run.model.name,
            len(tokens),
            cached,
            time.monotonic() - began,
        )
        done = KnownAgent(agent=prefix.agent, tokens=len(tokens))
        run.show_agents([*(a for a in run.known_agents if a.agent != done.agent), done])

    def _show(self, run: ModelRun, computing: KnownAgent | None) -> None:
        """Show what is being computed, or that nothing is."""
        known = [agent for agent in run.known_agents if not agent.computing]
        run.show_agents(known if computing is None else [*known, computing])

    def _id(self) -> str:
        return f"ahead-{next(self._numbers)}"
