"""Model recommendations for this machine, from the available models and their measured speeds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from ingle.backends.advice.advice_request import AdviceRequest, Candidate, MeasuredSpeed
from ingle.backends.advice.advise import READING_SPEED, Advice, advise, calibrate
from ingle.backends.advice.machine_capacity import MachineCapacity, capacity_of
from ingle.backends.advice.typical_model import typical_costs
from ingle.backends.hardware.machine import Machine
from ingle.backends.hardware.read_machine import read_machine
from ingle.backends.packages.engine_packages import EnginePackages, all_engine_packages
from ingle.backends.packages.engine_store import EngineStore
from ingle.backends.registry.engine_descriptor import LoadQuery
from ingle.backends.registry.engines import get_engine
from ingle.backends.registry.model_costs import ModelCosts
from ingle.backends.selection.engine_choice import why_not_preferred
from ingle.backends.selection.load_spec_builder import describe
from ingle.models.catalog import Catalog, CatalogEntry
from ingle.models.errors import ModelError
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.gguf.gguf_header import GGUFHeader
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.model_task import ModelTask
from ingle.models.store.model_store import ModelStore

from ..benchmark.bench_report import BenchReport
from ..cli.command_errors import CommandError
from ..client.client_errors import ClientError
from ..client.engine_types import EngineOffer
from ..client.model_types import LoadedModel
from ..client.sync_client import DaemonClient
from ..engines.engine_list import find_offer
from ..engines.engine_offer import choose_offer
from ..engines.engine_paths import engine_import_path
from ..library.model_places import model_places
from ..settings.config import Config
from ..terminal.terminal_output import format_bytes

_PLAIN_BITS = 15.0
_CODE = ("coder", "code", "starcoder", "devstral")
"""Words in the names of models made for code."""
_SIZES = (1, 2, 4, 8, 14, 32, 70, 120)
"""Common model sizes in billions of weights."""
_BITS = 4.85
_ALONE = ("baseline", "clients=1")
"""The benchmark variants that measure a single answer with the settings as they are."""
_LEAST_GENERATED = 128
"""Tokens; shorter answers are dominated by noise."""
_MOST_DRAFTED = 0.1
"""Share of tokens; with more accepted draft tokens, the rate says little about the model."""
_MUCH_BETTER = 0.5
"""Doublings of size that are worth mentioning."""
_PRIVATE = (
    "Every model here runs on this machine, and nothing that you ask leaves it. "
    "`ingle --temp` opens a chat that is not stored either."
)


@dataclass(frozen=True, kw_only=True)
class Survey:
    """Advice and its inputs; `notes` are sentences on how it could be improved.

    `needs` are packages that the best option needs, are offered, and counted as installed.
    """

    machine: Machine
    capacity: MachineCapacity
    request: AdviceRequest
    advice: Advice
    needs: EnginePackages | None = None
    notes: Sequence[str] = ()

    @property
    def embeds(self) -> bool:
        """Whether the model is for embeddings."""
        return self.request.task == "embed"

    def as_json(self) -> dict[str, Any]:
        """Return all facts as JSON values."""
        return {
            "for": self.request.need,
            "task": self.request.task,
            "context": self.request.context,
            "memory": {"host": self.capacity.budget.host, "gpu": self.capacity.budget.gpu},
            **msgspec.to_builtins(self.advice),
            "needs_engine": self.needs.name if self.needs else "",
            "notes": self.notes,
        }


def advise_for_machine(
    config: Config,
    request: AdviceRequest,
    model: str | None = None,
    benches: Sequence[BenchReport] = (),
) -> Survey:
    """Survey the machine, its models and the daemon, if it runs.

    `benches` were measured here; with rates of loaded models they correct predictions. Raises
    `CommandError` and `ModelNotFound` for a `model` that cannot be rated.
    """
    machine = read_machine(
        config.paths.models,
        config.paths.machine_facts,
        import_path=engine_import_path(config.paths),
    )
    catalog = Catalog.load()
    store = ModelStore(config.paths.models, catalog, model_places(config, os.environ))
    candidates = list(find_candidates(store.list(), catalog))
    if model is not None:
        candidates = [_only(model, candidates, store)]
    loaded = _loaded(config)
    capacity = capacity_of(
        machine,
        visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
        own=frozenset(each.pid for each in loaded if each.pid),
        own_memory=sum(each.rss for each in loaded),
    )
    measured = [*measured_speeds(loaded), *_benched(benches)]
    capacity = calibrate(capacity, candidates, measured)
    offer = find_offer(EngineStore(config.paths.engines), config)
    return weigh_all(machine, capacity, candidates, request, offer)


def weigh_all(
    machine: Machine,
    capacity: MachineCapacity,
    candidates: list[Candidate],
    request: AdviceRequest,
    offer: EngineOffer | None = None,
) -> Survey:
    """Return advice for a machine, with notes on how it could be improved.

    The engine in `offer` counts as installed if the best option uses it.
    """
    advice = advise(capacity, candidates, request)
    now = Survey(machine=machine, capacity=capacity, request=request, advice=advice)
    survey = now if offer is None else _with_engine(now, candidates, offer)
    notes = [
        *(_notes_on_engines(now, candidates) if survey is now else [_without_engine(now)]),
        *_notes_on_other_programs(survey, candidates),
        *_notes_on_larger_models(survey),
        *([_PRIVATE] if request.need == "privacy" else []),
    ]
    return replace(survey, notes=notes)


def _with_engine(now: Survey, candidates: list[Candidate], offer: EngineOffer) -> Survey:
    """Return the survey with the offered engine, or `now` if the best option does not use it."""
    packages = all_engine_packages()[offer.name]
    capacity = now.capacity.after_installing(packages)
    advice = advise(capacity, candidates, now.request)
    label = get_engine(packages.engine).label
    if advice.best is None or (advice.best.device, advice.best.engine) != ("gpu", label):
        return now
    return replace(now, capacity=capacity, advice=advice, needs=packages)


def _without_engine(now: Survey) -> str:
    """Return a note on what would be the best without the engine that is offered."""
    best = now.advice.best
    if best is None:
        return "Without that engine nothing would fit."
    rate = f" at about {best.speed.decode:.0f} tokens/s" if best.speed else ""
    place = "the processor" if best.device == "cpu" else f"the {now.capacity.budget.gpu_name}"
    return f"Without that engine it would be {best.model} on {place}{rate}."


def _notes_on_engines(survey: Survey, candidates: list[Candidate]) -> Iterator[str]:
    """Yield a note on the model that would run on a GPU that no installed engine can use."""
    capacity, best = survey.capacity, survey.advice.best
    if capacity.uses_gpu or not capacity.budget.gpu_name:
        return
    machine, software = survey.machine, survey.machine.software
    offer = choose_offer(machine.gpus, software.tools, (), has_index=False, system=software.system)
    with_engine = (
        capacity_of(machine, assume_engines=True)
        if offer is None
        else capacity.after_installing(all_engine_packages()[offer.name])
    )
    better = advise(with_engine, candidates, survey.request).best
    if better is None or better.device == "cpu" or (best and better.worth <= best.worth):
        return
    rate = f" at about {better.speed.decode:.0f} tokens/s" if better.speed else ""
    unknown = "" if better.speed else ", at a speed that is not known"
    same = best is not None and better.model == best.model
    what = f"the same model{rate}" if same else f"{better.model}{rate}"
    how = f"`ingle engine install {offer.name}`" if offer else "see `ingle doctor`"
    yield (
        f"No engine here can use the {capacity.budget.gpu_name}. With one that does, it would be "
        f"{what}{unknown}: {how}."
    )


def _notes_on_other_programs(survey: Survey, candidates: list[Candidate]) -> Iterator[str]:
    """Yield a note on the model that would fit if no other program used memory."""
    visible, best = os.environ.get("CUDA_VISIBLE_DEVICES"), survey.advice.best
    free = survey.capacity.free
    if best is not None and not MemoryNeeds(best.host_bytes, best.gpu_bytes).fits_in(free):
        short = max(best.host_bytes - free.host, best.gpu_bytes - free.gpu)
        yield (
            f"Other programs use more memory than usual now: {format_bytes(short)} of what it "
            "needs are missing until they end; `ingle doctor` lists them."
        )
        return
    idle = capacity_of(survey.machine, visible=visible, assume_idle=True)
    if survey.needs is not None:
        idle = idle.after_installing(survey.needs)
    better = advise(idle, candidates, survey.request).best
    worth = best.worth if best else float("-inf")
    if better is not None and better.worth >= worth + _MUCH_BETTER:
        yield (
            f"Without the memory that other programs use, it would be {better.model}: "
            f"`ingle doctor` lists them."
        )


def _notes_on_larger_models(survey: Survey) -> Iterator[str]:
    """Yield a note on the size of models outside the catalog that run at reading speed."""
    request = survey.request
    if survey.embeds:
        return
    fitting = 0
    for size in _SIZES:
        costs = typical_costs(
            size * 10**9, int(size * 1e9 * _BITS / 8), request.context or 32768, tensor_type="Q4_K"
        )
        candidate = Candidate(name="any", costs=costs, exact=False)
        best = advise(survey.capacity, [candidate], request).best
        if best is not None and best.speed and best.speed.decode >= READING_SPEED:
            fitting = size
    if fitting:
        yield (
            f"Of models beyond the catalog (`ingle pull hf.co/OWNER/REPO:Q4_K_M`), those of up to "
            f"about {fitting}B run here at reading speed in four to five bits."
        )


def _only(reference: str, candidates: list[Candidate], store: ModelStore) -> Candidate:
    """Return the candidate for `reference`; raises `CommandError`, and `ModelError` if it cannot be
    read.
    """
    entry = store.catalog.find(reference)
    names = {reference, entry.full_name if entry is not None else reference}
    found = next((each for each in candidates if each.name in names), None)
    found = found or _stored_candidate(store.resolve(reference))
    if found is None:
        raise CommandError(
            f"{reference} cannot be rated: its format is not supported.",
            "`ingle list` shows the installed models.",
        )
    return found


def _loaded(config: Config) -> list[LoadedModel]:
    """Return the daemon's loaded models; none if it does not run."""
    client = DaemonClient(config.socket)
    try:
        return client.status().models if client.answers() else []
    except ClientError:
        return []


def measured_speeds(models: Iterable[LoadedModel]) -> Iterator[MeasuredSpeed]:
    """Yield the decode rates of loaded models that have generated enough tokens."""
    for model in models:
        generated, drafted = model.completion_tokens_total, model.accepted_tokens_total
        if generated >= _LEAST_GENERATED and drafted <= _MOST_DRAFTED * generated:
            yield MeasuredSpeed(
                name=model.name,
                decode=model.decode_rate,
                on_gpu=0 < model.layers <= model.layers_on_gpu,
            )


def _benched(reports: Iterable[BenchReport]) -> Iterator[MeasuredSpeed]:
    """Yield benchmark rates of one client, without accepted draft tokens."""
    for report in reports:
        for each in report.measurements:
            alone = each.name in _ALONE and not each.error and not each.acceptance
            if alone and each.decode.runs:
                yield MeasuredSpeed(
                    name=report.model,
                    decode=each.decode.median,
                    on_gpu=not each.device.startswith("CPU"),
                    tokens=report.prompt_tokens + report.answer_tokens // 2,
                )


def find_candidates(models: list[StoredModel], catalog: Catalog) -> Iterator[Candidate]:
    """Yield a candidate for each model that can be read, by its header."""
    here = {model.name for model in models}
    yield from (found for found in map(_stored_candidate, models) if found is not None)
    yield from (_offered(entry) for entry in catalog.entries if entry.full_name not in here)


def _stored_candidate(model: StoredModel) -> Candidate | None:
    """Return a candidate by its header; None if that cannot be read."""
    try:
        description = describe(model.path)
        costs = ModelCosts.of(description)
        own = costs.config is not None and not why_not_preferred(LoadQuery(description))
    except (ModelError, OSError):
        return None
    bits = costs.stored * 8 / max(1, costs.parameters)
    return Candidate(
        name=model.name,
        costs=costs,
        quantization=model.quantization,
        licence=model.licence,
        chat=model.chat,
        codes=_for_code(model.name),
        embeds=model.task is ModelTask.EMBED,
        installed=True,
        runs_on_own=own,
        plain=not isinstance(description, GGUFHeader) and bits >= _PLAIN_BITS,
        draft=model.draft,
    )


def _offered(entry: CatalogEntry) -> Candidate:
    embeds = entry.task is ModelTask.EMBED
    return Candidate(
        name=entry.full_name,
        costs=typical_costs(
            entry.parameters,
            entry.size,
            entry.context,
            # "Q4_K" for "Q4_K_M", the type of most tensors.
            tensor_type="_".join(entry.quantization.split("_")[:2]),
            embeds=embeds,
            active=entry.active_parameters,
        ),
        quantization=entry.quantization,
        licence=entry.licence,
        chat=entry.chat,
        codes=_for_code(entry.full_name),
        embeds=embeds,
        exact=False,
        runs_on_own=not embeds and not entry.active_parameters,
        draft=entry.draft,
    )


def _for_code(name: str) -> bool:
    return any(word in name.lower() for word in _CODE)
