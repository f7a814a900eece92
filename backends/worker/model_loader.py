"""Loads a model and builds the worker loop that serves it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import msgspec

from ingle.models.model_task import ModelTask

from ..base.errors import LoadFailed
from ..base.load_spec import LoadSpec
from ..base.model_info import OWN_HEAD, ModelInfo
from ..engine.engine import Engine
from ..engine.kv_store.kv_store import KVStore
from ..engine.local_runner import LocalRunner
from ..engine.model_runner import ModelRunner
from ..engine.speculation.adaptive_speculator import AdaptiveSpeculator
from ..engine.speculation.head_drafter import HeadDrafter
from ..engine.speculation.ngram_drafter import NgramDrafter
from ..engine.speculation.step_costs import StepCosts
from ..registry.engines import get_engine
from ..text.answers.answer_format import AnswerFormats
from ..text.prompts.prompt_builder import PromptBuilder
from ..text.templates.chat_template import ChatTemplate, default_template
from ..text.tokenization.tokenizer import Tokenizer
from .compute_lease import ComputeLease
from .inbox import Inbox, ServingLoop, Wake
from .load_reports import LoadReports
from .worker_loop import WorkerLoop
from .worker_protocol import FromWorker

_CLOSING_SECONDS = 0.2


@contextmanager
def load_model(
    spec: LoadSpec, send: Callable[[FromWorker], None], inbox: Inbox
) -> Generator[tuple[ServingLoop, ModelInfo]]:
    """Load the model and free it at the end; progress goes through `send`; raises `LoadFailed`."""
    _check(spec)
    build = _generating if spec.task is ModelTask.GENERATE else _embedding
    with ExitStack() as resources:
        with closing(LoadReports(send)) as reports:
            loaded = build(spec, send, reports, inbox, resources)
        yield loaded


def _embedding(
    spec: LoadSpec,
    send: Callable[[FromWorker], None],
    reports: LoadReports,
    inbox: Inbox,
    resources: ExitStack,
) -> tuple[ServingLoop, ModelInfo]:
    from .embedding_loop import EmbeddingLoop

    embedder = get_engine(spec.engine).open_encoder(spec, reports)
    resources.callback(embedder.close)
    info = embedder.info()
    return EmbeddingLoop(embedder, send, inbox, _make_lease(spec, info, resources)), info


def _generating(
    spec: LoadSpec,
    send: Callable[[FromWorker], None],
    reports: LoadReports,
    inbox: Inbox,
    resources: ExitStack,
) -> tuple[ServingLoop, ModelInfo]:
    runner = get_engine(spec.engine).open_runner(spec, reports)
    resources.callback(runner.close)
    template = _make_template(spec, runner.tokenizer)
    if template is not None:
        resources.callback(template.close)
    prompts = PromptBuilder(
        runner.tokenizer, template, context=runner.context, pictures=runner.pictures
    )
    speculation, info = _make_speculation(spec, runner, reports)
    if speculation is not None:
        resources.callback(speculation.close)
    lease = _make_lease(spec, info, resources)
    store = _open_store(spec, runner)
    if store is not None:
        resources.callback(store.close, _CLOSING_SECONDS)
    engine = Engine(
        runner,
        speculation,
        store,
        wake=lambda: inbox.put(Wake()),
        prepare_draft_step=lambda: speculation is not None and speculation.prepare_step(),
    )
    forms = AnswerFormats(
        runner.tokenizer,
        None if template is None else template.source,
        constrains_calls=get_engine(spec.engine).constrains_calls,
    )
    loop = WorkerLoop(engine, runner.tokenizer, prompts, forms, send, inbox, spec, lease)
    return loop, msgspec.structs.replace(
        info,
        has_chat_template=template is not None,
        chat_template=None if template is None else template.source,
        bos_token=runner.tokenizer.bos_text,
        eos_token=runner.tokenizer.eos_text,
        infills=prompts.infills,
        sees=runner.pictures is not None,
        calls_tools=template is not None and template.calls_tools,
        reasons=template is not None and template.reasons,
    )


def _make_lease(spec: LoadSpec, info: ModelInfo, resources: ExitStack) -> ComputeLease | None:
    """Return the lease under which steps are computed; None for a model that is all on a GPU."""
    all_on_gpu = 0 < info.layers <= info.layers_on_gpu
    if spec.compute_lease is None or all_on_gpu:
        return None
    try:
        lease = ComputeLease(Path(spec.compute_lease))
    except OSError as error:
        print(f"No compute lease: {error}.", file=sys.stderr)
        return None
    resources.callback(lease.close)
    return lease


def _check(spec: LoadSpec) -> None:
    for name in ("context", "slots", "batch"):
        if getattr(spec, name) < 1:
            raise LoadFailed(
                f"A model cannot be loaded with {name} {getattr(spec, name)}.",
                hint=f"Choose a {name} of at least 1.",
            )


def _make_speculation(
    spec: LoadSpec, runner: LocalRunner, reports: LoadReports
) -> tuple[AdaptiveSpeculator | None, ModelInfo]:
    """Return the speculator, and the facts about the model with it."""
    info = runner.info()
    kind = spec.speculation
    engine = get_engine(spec.engine)
    if kind == "auto" and not engine.auto_speculation:
        kind = "off"
    # Rejected draft tokens are removed from the cache, which a recurrent state does not allow.
    if kind == "off" or not runner.can_fork:
        return None, info
    ngrams = NgramDrafter(runner.context) if kind != "draft" else None
    costs, model = StepCosts(), None
    if spec.draft_path is not None and kind != "ngram":
        draft, note = spec.draft_path, None
        try:
            model = engine.open_drafter(spec, runner, costs, lambda fraction: reports(1.0))
            if draft == spec.path and isinstance(model, HeadDrafter):
                draft = OWN_HEAD
        except LoadFailed as error:
            print(f"No draft model: {error.message}", file=sys.stderr)
            draft, note = None, error.message
        info = msgspec.structs.replace(runner.info(), draft=draft, draft_note=note)
    if ngrams is None and model is None:
        return None, info
    used = "auto" if ngrams and model else "ngram" if ngrams else "draft"
    speculation = AdaptiveSpeculator(
        context=runner.context, costs=costs, ngrams=ngrams, model=model
    )
    return speculation, msgspec.structs.replace(info, speculation=used)


def _open_store(spec: LoadSpec, runner: ModelRunner) -> KVStore | None:
    """Return the KV store; None if it has no capacity, or for a recurrent model."""
    wanted = spec.kv_store
    if wanted is None or not runner.can_fork or not (wanted.disk_bytes or wanted.memory_bytes):
        return None
    return KVStore(wanted, runner.state_key)


def _make_template(spec: LoadSpec, tokenizer: Tokenizer) -> ChatTemplate | None:
    source = spec.chat_template or tokenizer.chat_template or default_template(tokenizer)
    if source is None:
        return None
    template = ChatTemplate(source, bos_token=tokenizer.bos_text, eos_token=tokenizer.eos_text)
    template.start()
    return template
