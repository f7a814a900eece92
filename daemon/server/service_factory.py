"""Builds the services of a daemon, its router included, from its configuration."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AsyncExitStack, aclosing, contextmanager
from functools import partial

from ingle.backends.base.backend import Backend, stream_events
from ingle.backends.base.events import Event
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.model_info import Gauges
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.packages.engine_store import EngineStore
from ingle.backends.packages.package_source import PackageSource
from ingle.models.catalog import Catalog
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.store.model_copies import ModelCopier
from ingle.models.store.model_store import ModelStore

from ..access.permission import OWNER, use_permission
from ..batches.batch_manager import BatchManager
from ..client.engine_types import EngineOffer
from ..documents.document_library import DocumentLibrary
from ..documents.passage_embedder import PassageEmbedder
from ..engines.engine_failures import EngineFailures
from ..engines.engine_installs import EngineInstalls
from ..event_hub import EventHub
from ..generations.generation_registry import GenerationRegistry
from ..library.aliases import AliasTable
from ..library.model_facts import FactsReader
from ..library.model_places import model_places
from ..library.pulls import PullManager
from ..lifecycle.model_manager import ModelManager
from ..load_planning.fit_forecast import FitForecaster
from ..load_planning.load_options import LoadOptions
from ..load_planning.load_planner import ModelLoadPlanner, Preparer
from ..machine.answer_energy import AnswerEnergy
from ..machine.device_meters import DeviceMeters
from ..machine.memory_reader import MemoryMeter
from ..routing.answer_estimator import AnswerEstimator
from ..routing.egress.egress_gateway import EgressGateway
from ..routing.egress.provider_egress import ProviderEgress
from ..routing.inspection.privacy_judge import Generate
from ..routing.policy.conversation_taint import TaintStore
from ..routing.policy.policy_file import FILE_NAME
from ..routing.policy.route_resolver import PolicySource, RouteResolver
from ..routing.router import Router
from ..services import Services
from ..settings.config import Config
from ..stores.response_store import ResponseStore
from ..warming.prefix_warmer import PrefixWarmer

_YES = ("1", "TRUE", "YES", "ON")
"""Values that the Hugging Face client reads as true in its environment variables."""


_LEAST_PARAMETERS = 1_000_000_000
"""Smaller models judge everything public (docs/privacy.md has the figures)."""

_JUDGE_OPTIONS = LoadOptions(context=4096)
"""Room for the longest question."""


def _create_worker(spec: LoadSpec) -> Backend:
    from ingle.backends.worker.supervisor.worker_process import WorkerProcess

    return WorkerProcess(spec)


def build_services(
    config: Config,
    *,
    address: str | None,
    started_at: float,
    shutdown: Callable[[], None],
    make_preparer: Callable[..., Preparer] = ModelLoadPlanner,
    create_backend: Callable[[LoadSpec], Backend] = _create_worker,
    pull: Callable[..., StoredModel] | None = None,
    egress: EgressGateway | None = None,
) -> Services:
    """Build the services of one daemon; each of the last four replaces a default part."""
    catalog, providers, hub = Catalog.load(), ProviderEgress(config), EventHub()
    store, router = _open_store(config, catalog), _router(config, egress or providers)
    aliases, resolve = _aliases(config, router, store)
    memory, energy, warmer = MemoryMeter(), _energy(config), PrefixWarmer(config)
    prepare, planner = _planners(make_preparer, config, resolve, store)
    engines = _engines(config, hub, on_change=planner.forget_facts)
    manager = ModelManager(
        config,
        resolve=resolve,
        prepare=prepare,
        create_backend=create_backend,
        hub=hub,
        memory=memory,
        hold_memory=memory.hold,
        prepare_engine=engines.prepare,
        engine_failures=EngineFailures(config.paths.engine_failures),
        metered=partial(_answering, energy, warmer),
        find_seeing=partial(find_seeing, store, planner),
        on_change=warmer.changed,
    )
    _connect(router, warmer, manager, providers, resolve, energy)
    return Services(
        config=config,
        store=store,
        catalog=catalog,
        copier=ModelCopier(store),
        facts=FactsReader(),
        manager=manager,
        generations=GenerationRegistry(manager),
        batches=_batches(config),
        documents=_documents(config, manager, store, memory, warmer),
        pulls=PullManager(pull or store.pull, catalog.canonical_name, hub, engines.begin_default),
        engines=engines,
        hub=hub,
        prepare=prepare,
        planner=planner,
        fits=FitForecaster(planner),
        memory=memory,
        router=router,
        egress=providers,
        responses=ResponseStore(config.paths.responses, keep_seconds=config.keep_responses),
        shutdown=shutdown,
        started_at=started_at,
        aliases=aliases,
        warmer=warmer,
        energy=energy,
        address=address,
    )


def _aliases(
    config: Config, router: Router, store: ModelStore
) -> tuple[AliasTable, Callable[[str], StoredModel]]:
    aliases = AliasTable(config.aliases, config.unknown_model, router.stand_in)
    return aliases, partial(aliases.resolve, store=store)


def _documents(
    config: Config,
    manager: ModelManager,
    store: ModelStore,
    memory: MemoryMeter,
    warmer: PrefixWarmer,
) -> DocumentLibrary:
    embedder = PassageEmbedder(manager, store.list, memory, lambda: warmer.is_answering)
    return DocumentLibrary(config.paths.documents, embedder)


def find_seeing(store: ModelStore, planner: ModelLoadPlanner) -> StoredModel | None:
    """Return the smallest model that sees pictures and that an engine here runs; blocking.

    Folders need PyTorch; llama.cpp, which runs files, is installed when it is needed.
    """
    seeing = (model for model in store.list() if model.projector is not None)
    runnable = (model for model in seeing if model.path.is_file() or planner.facts.own.has_torch)
    return min(runnable, key=lambda model: model.size, default=None)


def _energy(config: Config) -> AnswerEnergy:
    return AnswerEnergy(DeviceMeters(watts=config.watts), price=config.electricity_price)


@contextmanager
def _answering(
    energy: AnswerEnergy, warmer: PrefixWarmer, model: str, gauges: Callable[[], Gauges]
) -> Generator[None]:
    with warmer.answering(), energy.answering(model, gauges):
        yield


def _planners(
    make_preparer: Callable[..., Preparer],
    config: Config,
    resolve: Callable[[str], StoredModel],
    store: ModelStore,
) -> tuple[Preparer, ModelLoadPlanner]:
    find_offer = partial(_find_offer, config)
    prepare = make_preparer(
        config,
        resolve,
        find_draft=store.find_draft,
        find_heads=store.find_heads,
        find_offer=find_offer,
    )
    planned = isinstance(prepare, ModelLoadPlanner)
    return prepare, prepare if planned else ModelLoadPlanner(config, resolve)


def _connect(
    router: Router,
    warmer: PrefixWarmer,
    manager: ModelManager,
    providers: ProviderEgress,
    resolve: Callable[[str], StoredModel],
    energy: AnswerEnergy,
) -> None:
    """Let the others use what is known of local models, and models fetch pictures."""
    warmer.find_runs = manager.runs
    router.find_judge = partial(_find_judge, manager)
    router.estimate = AnswerEstimator(manager, resolve, energy, providers).estimate
    manager.pictures.fetch = partial(_fetch_picture, providers)


async def _fetch_picture(egress: ProviderEgress, address: str, most_bytes: int) -> bytes:
    from ..routing.egress.picture_fetcher import PictureFetcher  # with much that only it needs

    return await PictureFetcher(egress).fetch(address, most_bytes)


def _open_store(config: Config, catalog: Catalog) -> ModelStore:
    return ModelStore(
        config.paths.models,
        catalog,
        model_places(config, os.environ),
        offline=_is_offline(config),
    )


def _batches(config: Config) -> BatchManager:
    # Twice the slots, so that no slot waits for the next request of a batch.
    at_once = config.slots + min(config.slots, config.max_queue)
    return BatchManager(config.paths.state, at_once=at_once)


def _engines(config: Config, hub: EventHub, on_change: Callable[[], None]) -> EngineInstalls:
    source = PackageSource(config.engine_index, offline=_is_offline(config))
    return EngineInstalls(EngineStore(config.paths.engines), source, hub, on_change=on_change)


def _find_offer(config: Config) -> EngineOffer | None:
    # Imported here: it takes part of the daemon's start.
    from ..engines.engine_list import find_offer

    return find_offer(EngineStore(config.paths.engines), config)


def _is_offline(config: Config) -> bool:
    return config.offline or os.environ.get("HF_HUB_OFFLINE", "").upper() in _YES


def _router(config: Config, egress: EgressGateway) -> Router:
    policy = PolicySource(config.paths.config / FILE_NAME)
    return Router(
        policy=policy,
        names=RouteResolver(policy, config.default_model),
        egress=egress,
        taint=TaintStore(config.paths.state / "routing" / "taint.db"),
    )


def _find_judge(manager: ModelManager, judge: bool | str) -> Generate | None:
    """Return the named model, else the largest loaded chat model; None if none is large enough."""
    if isinstance(judge, str):
        return partial(_generate_with, manager, judge)
    best, most = None, _LEAST_PARAMETERS - 1
    for model in manager.models():
        run = manager.find(model)
        if run is None or run.backend is None or run.info is None or not run.accepts:
            continue
        if run.info.has_chat_template and run.info.parameters > most:
            best, most = run.backend, run.info.parameters
    return None if best is None else partial(stream_events, best)


async def _generate_with(
    manager: ModelManager, name: str, request: GenerateRequest
) -> AsyncGenerator[Event, None]:
    """Answer a request with a model, loading it first if needed."""
    async with AsyncExitStack() as stack:
        with use_permission(OWNER):  # the owner's policy asks, not the request's key
            lease = await stack.enter_async_context(manager.lease(name, options=_JUDGE_OPTIONS))
        events = await stack.enter_async_context(aclosing(stream_events(lease.backend, request)))
        async for event in events:
            yield event
