"""Health checks and metrics of the daemon."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable, Iterator
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.base.backend import RequestBackend, stream_events
from ingle.backends.base.errors import BackendError
from ingle.backends.base.events import Finished
from ingle.backends.base.model_info import Gauges
from ingle.backends.base.requests import EmbedRequest, GenerateRequest, RerankRequest
from ingle.backends.base.sampling_params import SamplingParams
from ingle.models.model_task import ModelTask

from ..generations.generation_registry import new_generation_id
from ..http.bodies import NATIVE
from ..http.route_access import ANY, INFERENCE, READ
from ..http.route_spec import Parameter, route
from ..installed_version import installed_version
from ..model_process.model_run import ModelState
from .native.types import Health, Readiness
from .services_api import ServicesApi

if TYPE_CHECKING:
    from prometheus_client import Metric

_route = partial(route, "GET", error_format=NATIVE)


class DaemonVersion(msgspec.Struct, frozen=True):
    """The answer of `GET /version`."""

    version: str


class HealthApi(ServicesApi):
    """`/health`, `/health/ready`, `/version` and `/ping`."""

    @_route("/health", other_paths=("/v1/health",), access=ANY)
    async def health(self) -> Health:
        """The daemon answers."""
        return Health()

    @_route("/version", access=ANY)
    async def version(self) -> DaemonVersion:
        """The version of the daemon, in vLLM's format."""
        return DaemonVersion(installed_version())

    @_route("/ping", access=ANY, response=str)
    @route("POST", "/ping", access=ANY, error_format=NATIVE, response=str)
    async def ping(self) -> Response:
        """The daemon answers with an empty body, as load balancers ask vLLM."""
        return Response(media_type="text/plain")

    @_route(
        "/health/ready",
        access=INFERENCE,
        parameters=(Parameter("model", "query", str, "The model; left out, the default one."),),
        errors=(404, 422, 429, 500, 503, 507),
        cancellable=True,
    )
    async def ready(self, request: Request) -> Readiness:
        """Load a model, and answer once it has produced output."""
        reference = request.query_params.get("model") or self._services.config.default_model
        start = time.monotonic()
        async with self._services.manager.lease(reference, task=None) as lease:
            name = lease.model.name
            if not await _answers(lease.backend, lease.model.task):
                raise BackendError(f"The model '{name}' is loaded, but produces nothing.")
        return Readiness("ready", name, time.monotonic() - start)


async def _answers(backend: RequestBackend, task: ModelTask) -> bool:
    """Whether the model answers a minimal request of its task."""
    probe_id = new_generation_id()
    if task is ModelTask.EMBED:
        return bool((await backend.embed(EmbedRequest(id=probe_id, inputs=["Hello"]))).vectors)
    if task is ModelTask.RERANK:
        asked = RerankRequest(id=probe_id, query="Hello", documents=["Hello"])
        return bool((await backend.rerank(asked)).scores)
    # The end-of-sequence token is ignored, so that a token comes out in any case.
    probe = GenerateRequest(
        id=probe_id,
        prompt="Hello",
        sampling=SamplingParams(temperature=0.0),
        max_tokens=1,
        ignore_eos=True,
    )
    async with aclosing(stream_events(backend, probe)) as events:
        return any([e.completion_tokens async for e in events if isinstance(e, Finished)])


COUNTED = "_total"
_MODEL = ("model",)

HELP = {
    "running": "Running sequences.",
    "waiting": "Sequences that wait for a slot or for space in the KV cache.",
    "prefill_tokens": "Tokens of the prompts that are being computed.",
    "prefilled_tokens": "Those of them that are in the KV cache.",
    "kv_used": "KV cache cells of running sequences.",
    "kv_kept": "Cached KV cells that requests with the same prefix reuse.",
    "kv_capacity": "KV cache cells in all.",
    "kv_memory_bytes": "Keys and values in memory beyond the KV cache.",
    "kv_disk_bytes": "Keys and values on disk.",
    "prompt_tokens_total": "Prompt tokens computed; those found in the KV cache do not count.",
    "cached_tokens_total": "Prompt tokens that were found in the KV cache or the store.",
    "completion_tokens_total": "Tokens generated.",
    "drafted_tokens_total": "Draft tokens.",
    "accepted_tokens_total": "Draft tokens that were accepted.",
    "restored_tokens_total": "Tokens whose keys and values came back from memory or disk.",
    "preemptions_total": "Sequences preempted for lack of space in the KV cache.",
    "steps_total": "Batches computed.",
    "prompt_rate": "Prompt tokens a second, as measured recently.",
    "decode_rate": "Tokens a second of one answer alone, as measured recently.",
}
"""Each field of `Gauges`; totals count since the model's process started."""


class MetricsApi(ServicesApi):
    """`/metrics`."""

    @route("GET", "/metrics", access=READ, error_format=NATIVE, response=str)
    async def metrics(self) -> Response:
        """Gauges and counters in Prometheus' text format."""
        # Imported here: most daemons are never scraped.
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        text = await asyncio.to_thread(generate_latest, registry)  # drivers may be slow
        return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})

    def collect(self) -> Iterator[Metric]:
        """All metrics as they are now; the protocol of a `prometheus_client` collector."""
        yield from self._machine()
        yield from self._devices()
        yield from self._models()
        yield from self._memory()
        yield from self._requests()
        yield from self._costs()
        for field in msgspec.structs.fields(Gauges):
            kind = "Counter" if field.name.endswith(COUNTED) else "Gauge"
            rows = [
                ((name,), getattr(gauges, field.name))
                for name, gauges in self._services.manager.gauges().items()
            ]
            yield _family(kind, f"ingle_{field.name}", HELP[field.name], _MODEL, rows)

    def _machine(self) -> Iterator[Metric]:
        memory = self._services.memory()
        gpu = {"total": memory.gpu_total, "available": memory.gpu_available}
        yield _family(
            "Info", "ingle", "The version of ingle.", (), [((), {"version": installed_version()})]
        )
        for name, help_, value in (
            ("ingle_memory_available_bytes", "Available memory of the system.", memory.available),
            ("ingle_daemon_resident_bytes", "The daemon's own memory.", memory.daemon_rss),
        ):
            yield _family("Gauge", name, help_, (), [((), value)])
        rows = [((kind,), value) for kind, value in gpu.items()] if memory.gpu_total else []
        yield _family("Gauge", "ingle_gpu_memory_bytes", "Of the GPU of models.", ("kind",), rows)

    def _devices(self) -> Iterator[Metric]:
        """Readings of the devices that have meters, by number and name."""
        devices = [
            ((f"{device.kind}{number}", device.name), device)
            for number, device in enumerate(self._services.devices.read())
        ]
        for kind, name, help_, field in (
            ("Gauge", "ingle_device_watts", "Power drawn now.", "watts"),
            ("Gauge", "ingle_device_utilization", "From 0 to 1.", "utilization"),
            ("Gauge", "ingle_device_memory_used_bytes", "By all programs.", "memory_used"),
            ("Counter", "ingle_device_joules_total", "Energy since the first reading.", "joules"),
        ):
            rows = [(labels, getattr(device, field)) for labels, device in devices]
            known = [(labels, value) for labels, value in rows if value is not None]
            yield _family(kind, name, help_, ("device", "name"), known)

    def _models(self) -> Iterator[Metric]:
        loaded = self._services.manager.loaded()
        states = [
            ((model.name,), {str(state): state is model.state for state in ModelState})
            for model in loaded
        ]
        yield _family(
            "StateSet", "ingle_model_state", "State of a model's process.", _MODEL, states
        )
        sizes = [
            ((model.name, purpose), size)
            for model in loaded
            for purpose, size in (
                ("weights", model.weights_bytes),
                ("kv", model.kv_bytes),
                ("compute", model.compute_bytes),
                ("resident", model.rss),
            )
        ]
        labels = ("model", "purpose")
        yield _family("Gauge", "ingle_model_bytes", "Memory of a model, by purpose.", labels, sizes)
        rows = [((model.name,), model.quarantined_for) for model in loaded]
        help_ = "Until a model that crashed too often is started again."
        yield _family("Gauge", "ingle_model_quarantine_seconds", help_, _MODEL, rows)

    def _memory(self) -> Iterator[Metric]:
        """Placement of models, and their predicted and measured memory."""
        loaded = self._services.manager.loaded()
        rows: list[tuple[tuple[str, ...], float]] = []
        for model in loaded:
            memory = model.memory
            for figure, needs in (("predicted", memory.predicted), ("measured", memory.measured)):
                rows.append(((model.name, "host", figure), needs.host))
                rows.append(((model.name, "gpu", figure), needs.gpu))
                rows += [
                    ((model.name, f"gpu{number}", figure), size)
                    for number, size in enumerate(needs.other_gpus, 1)
                ]
            rows.append(((model.name, "host", "mapped"), memory.mapped))
        help_ = "Memory of the machine (host) and the GPU: predicted before loading, measured now."
        yield _family(
            "Gauge", "ingle_model_memory_bytes", help_, ("model", "memory", "figure"), rows
        )
        places = [
            (
                (model.name,),
                {
                    "engine": model.engine,
                    "device": model.device,
                    "reason": model.reason,
                    "pinned": str(model.pinned).lower(),
                },
            )
            for model in loaded
        ]
        yield _family(
            "Info", "ingle_model_placement", "Where a model runs and why.", _MODEL, places
        )
        expiries = [
            ((model.name,), math.inf if model.expires_in is None else model.expires_in)
            for model in loaded
        ]
        help_ = "Until it is unloaded; +Inf while it is in use, kept for ever or pinned."
        yield _family("Gauge", "ingle_model_expires_seconds", help_, _MODEL, expiries)

    def _costs(self) -> Iterator[Metric]:
        """Costs of answers, as far as prices and energy are known."""
        costs = [
            ((each.name, "remote" if each.remote else "local", each.currency), each.per_million)
            for each in self._services.costs()
        ]
        help_ = "Of a local model since the start, of a remote one for its latest answers."
        name, labels = "ingle_cost_per_million_tokens", ("model", "side", "currency")
        yield _family("Gauge", name, help_, labels, costs)

    def _requests(self) -> Iterator[Metric]:
        manager = self._services.manager
        waits = "Requests of a model, those that wait for it to be loaded included."
        deaths = "Model processes that ended by themselves."
        retries = "Requests retried since the model's process had ended under them."
        for kind, name, help_, counts in (
            ("Gauge", "ingle_requests", waits, manager.requests()),
            ("Counter", "ingle_worker_deaths_total", deaths, manager.failures.deaths),
            ("Counter", "ingle_worker_second_tries_total", retries, manager.failures.retries),
        ):
            rows = [((model,), count) for model, count in tuple(counts.items())]
            yield _family(kind, name, help_, _MODEL, rows)
        speech, voice = self._services.manager.speech, self._services.manager.voice
        heard = "Seconds of audio in which speech was recognised."
        for name, help_, counts in (
            ("ingle_transcriptions_total", "Recognised audio files.", speech.requests),
            ("ingle_transcribed_seconds_total", heard, speech.seconds),
        ):
            rows = [((model,), count) for model, count in tuple(counts.items())]
            yield _family("Counter", name, help_, _MODEL, rows)
        for name, help_, count in (
            ("ingle_spoken_texts_total", "Texts that were spoken.", voice.requests),
            ("ingle_spoken_seconds_total", "Seconds of speech.", voice.seconds),
        ):
            yield _family("Counter", name, help_, (), [((), count)])
        ignored = tuple(self._services.ignored_fields.items())
        rows = [((field,), count) for field, count in ignored]
        help_ = "Fields of requests that have no effect here; those of no list are `unknown`."
        yield _family("Counter", "ingle_ignored_fields_total", help_, ("field",), rows)


def _family(
    kind: str,
    name: str,
    help_: str,
    labels: tuple[str, ...],
    rows: Iterable[tuple[tuple[str, ...], Any]],
) -> Metric:
    """A metric of this kind of family, with a sample for each row of label values and value."""
    from prometheus_client import core

    family: Any = getattr(core, f"{kind}MetricFamily")(name, help_, labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family
