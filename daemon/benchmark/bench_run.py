"""Loads a model in one variant after another, sends requests, and measures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import psutil

from ingle.backends.base.backend import Backend, stream_events
from ingle.backends.base.errors import BackendError, OutOfMemory
from ingle.backends.base.events import Delta, Finished, Started
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.model_info import ModelInfo
from ingle.backends.base.requests import GenerateRequest, TokenizeRequest
from ingle.backends.base.sampling_params import SamplingParams
from ingle.models.errors import ModelError
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.metadata.stored_model import StoredModel

from ..load_planning.load_options import NO_DRAFT, LoadOptions
from ..load_planning.load_planner import LoadPlan, ModelLoadPlanner
from ..machine.answer_energy import energy_cost
from ..machine.device_meters import DeviceMeters
from ..machine.memory_reader import MemoryMeter, process_tree
from ..settings.config import Config
from ..terminal.terminal_output import format_seconds
from .bench_report import Measurement, Samples
from .bench_variant import BenchVariant

_GREEDY = SamplingParams(temperature=0.0)
_STARTS_APART = 7
"""Tokens by which the prompts of two requests differ at their start, so that they share no prefix
cache.
"""


@dataclass
class _Run:
    """One run of all clients; seconds since it began."""

    first_tokens: list[float] = field(default_factory=list[float])
    ends: list[float] = field(default_factory=list[float])
    prompt_tokens: int = 0
    answer_tokens: int = 0
    drafted: int = 0
    accepted: int = 0
    joules: float | None = None

    @property
    def prefill(self) -> float:
        return self.prompt_tokens / max(self.first_tokens)

    @property
    def decode(self) -> float:
        later = self.answer_tokens - len(self.first_tokens)
        return later / max(1e-9, max(self.ends) - min(self.first_tokens))

    @property
    def joules_a_token(self) -> float | None:
        return None if self.joules is None else self.joules / self.answer_tokens


@dataclass(kw_only=True)
class BenchRunner:
    """Measures variants of one model; those with the same load options share a process.

    `text` is cut into prompts. `resolve` finds a draft model by its reference; `on_step` receives a
    description of each step.
    """

    model: StoredModel
    config: Config
    text: str
    prompt_tokens: int
    answer_tokens: int
    runs: int
    resolve: Callable[[str], StoredModel]
    create_backend: Callable[[LoadSpec], Backend]
    on_step: Callable[[str], None]
    draft: str | None = None

    def __post_init__(self) -> None:
        self._memory = MemoryMeter()
        self._meters = DeviceMeters(watts=self.config.watts)
        self._variants: Sequence[BenchVariant] = ()
        self._pace = 0.0
        """Seconds a client of the last run; 0 before the first one."""

    async def measure(self, combinations: Sequence[BenchVariant]) -> list[Measurement]:
        """Return the measurements in order; a variant that cannot be measured has its reason."""
        done: list[Measurement] = []
        self._variants = combinations
        for _, group in groupby(combinations, key=lambda combination: combination.load):
            done += await self._measure_group(list(group))
        return done

    async def _measure_group(self, group: Sequence[BenchVariant]) -> list[Measurement]:
        most = max(group, key=lambda combination: combination.clients)
        try:
            prepared = await asyncio.to_thread(self._prepare, most)
        except (BackendError, ModelError) as error:
            # What fails for many clients at once may succeed for fewer.
            rest = [combination for combination in group if combination.clients < most.clients]
            fewer = {m.name: m for m in await self._measure_group(rest)} if rest else {}
            return [fewer.get(c.name) or _failed(c, error.message) for c in group]
        if most.wants_draft and prepared.spec.draft_path is None:
            reason = "There is no draft model; name one with --draft."
            return [_failed(combination, reason) for combination in group]
        return await self._measure_prepared(group, prepared, most.clients)

    async def _measure_prepared(
        self, group: Sequence[BenchVariant], prepared: LoadPlan, clients: int
    ) -> list[Measurement]:
        done: list[Measurement] = []
        try:
            backend = self.create_backend(prepared.spec)
            began = time.monotonic()
            try:
                self.on_step(f"{group[0].name}: loading")
                info = await backend.start()
                loaded = time.monotonic() - began
                prompts = await self._prompts(backend, clients)
                for c in group:
                    done.append(
                        await self._measure_one(c, backend, info, prepared, prompts, loaded)
                    )
            finally:
                await backend.stop()
        except (BackendError, ModelError) as error:
            # Earlier measurements are kept.
            done += [_failed(combination, error.message) for combination in group[len(done) :]]
        return done

    def _prepare(self, combination: BenchVariant) -> LoadPlan:
        config = combination.configure(self.config)
        room = self.prompt_tokens + self.answer_tokens + 2 * _STARTS_APART
        options = LoadOptions(
            context=room * combination.clients,
            draft=self.draft if combination.wants_draft else NO_DRAFT,
        )
        available = _within_limits(self._memory().usable, config)
        prepared = ModelLoadPlanner(config, self.resolve)(self.model, options, available=available)
        if not prepared.needs.fits_in(available):
            raise OutOfMemory(
                f"It needs {_in_words(prepared.needs)}, but {_in_words(available)} can be freed. "
                "Loaded models use memory, too: `ingle ps` lists them."
            )
        return prepared

    async def _prompts(self, backend: Backend, clients: int) -> list[list[int]]:
        """Return a prompt for each request of all runs and of the warm-up."""
        found = await backend.tokenize(TokenizeRequest(id="prompts", text=self.text))
        starts = range(0, _STARTS_APART * clients * (self.runs + 1), _STARTS_APART)
        repeats = -(-(starts.stop + self.prompt_tokens) // len(found.token_ids))
        tokens = found.token_ids * repeats
        return [tokens[start : start + self.prompt_tokens] for start in starts]

    async def _measure_one(
        self,
        combination: BenchVariant,
        backend: Backend,
        info: ModelInfo,
        prepared: LoadPlan,
        prompts: Sequence[list[int]],
        loaded: float,
    ) -> Measurement:
        clients = combination.clients
        runs: list[_Run] = []
        for number in range(self.runs + 1):  # the first one warms up
            which = f"run {number} of {self.runs}" if number else "warming up"
            self.on_step(f"{combination.name}: {which}{self._time_left(combination, number)}")
            batch = prompts[number * clients : (number + 1) * clients]
            began = time.monotonic()
            runs.append(await self._run(backend, batch))
            self._pace = (time.monotonic() - began) / clients
        runs = runs[1:]
        drafted = sum(run.drafted for run in runs)
        drawn = [run.joules_a_token for run in runs]
        joules = None if None in drawn else Samples([j for j in drawn if j is not None])
        price = self.config.electricity_price
        resident, gpu = self._held(backend)
        return Measurement(
            name=combination.name,
            engine=info.engine,
            device=info.device,
            reason=prepared.reason,
            prefill=Samples([run.prefill for run in runs]),
            decode=Samples([run.decode for run in runs]),
            first_token=Samples([max(run.first_tokens) for run in runs]),
            joules=joules,
            cost_per_million=energy_cost(joules.median * 1e6, price) if joules and price else None,
            acceptance=sum(run.accepted for run in runs) / drafted if drafted else None,
            load_seconds=loaded,
            predicted_bytes=prepared.needs.total,
            memory_bytes=resident,
            gpu_bytes=gpu,
        )

    def _time_left(self, combination: BenchVariant, number: int) -> str:
        """Words for the time from this run on; clients of one run are somewhat faster."""
        if not self._pace:
            return ""
        later = self._variants[self._variants.index(combination) + 1 :]
        runs = self.runs + 1
        clients = combination.clients * (runs - number) + runs * sum(c.clients for c in later)
        return f", at most about {format_seconds(self._pace * clients)} left"

    async def _run(self, backend: Backend, prompts: Sequence[list[int]]) -> _Run:
        run = _Run()
        before = await asyncio.to_thread(self._meters.joules)
        began = time.monotonic()
        await asyncio.gather(
            *(self._ask(backend, f"r{n}", prompt, began, run) for n, prompt in enumerate(prompts))
        )
        after = await asyncio.to_thread(self._meters.joules)
        run.joules = None if before is None or after is None else after - before
        return run

    async def _ask(
        self, backend: Backend, name: str, prompt: list[int], began: float, run: _Run
    ) -> None:
        request = GenerateRequest(
            id=name,
            prompt=prompt,
            sampling=_GREEDY,
            max_tokens=self.answer_tokens,
            ignore_eos=True,
            private=True,
        )
        first = True
        async for event in stream_events(backend, request):
            now = time.monotonic() - began
            if isinstance(event, Started):
                run.prompt_tokens += event.prompt_tokens - event.cached_tokens
            elif isinstance(event, Delta) and first:
                first = False
                run.first_tokens.append(now)
            elif isinstance(event, Finished):
                if first:  # tokens without text
                    run.first_tokens.append(now)
                run.ends.append(now)
                run.answer_tokens += event.completion_tokens
                run.drafted += event.drafted_tokens
                run.accepted += event.accepted_tokens

    def _held(self, backend: Backend) -> tuple[int, int]:
        """Return the worker's bytes in memory, its mapped file included, and on the GPU."""
        pid = backend.pid
        if pid is None:
            return 0, 0
        try:
            resident = int(psutil.Process(pid).memory_info().rss)
        except psutil.Error:
            resident = 0
        return resident, sum(each or 0 for each in self._memory().held_by(process_tree(pid)))


def _within_limits(free: MemoryNeeds, config: Config) -> MemoryNeeds:
    """Return the free memory within the configured limits; 0 is no limit."""
    return MemoryNeeds(
        min(free.host, config.memory_limit or free.host),
        min(free.gpu, config.vram_limit or free.gpu),
        tuple(min(each, config.vram_limit or each) for each in free.other_gpus),
    )


def _in_words(needs: MemoryNeeds) -> str:
    gpu = "".join(
        f" and {each / 1e9:.1f} GB of {f'GPU {number}' if needs.other_gpus else 'GPU memory'}"
        for number, each in enumerate(needs.gpus)
        if each > 0
    )
    return f"{max(0, needs.host) / 1e9:.1f} GB{gpu}"


def _failed(combination: BenchVariant, reason: str) -> Measurement:
    return Measurement(name=combination.name, error=reason)
