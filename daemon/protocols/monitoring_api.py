"""Health checks and metrics of the daemon."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator
from contextlib import aclosing
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.base.backend import RequestBackend
from ingle.backends.base.errors import BackendError
from ingle.backends.base.events import Finished
from ingle.backends.base.model_info import Gauges
from ingle.backends.base.requests import EmbedRequest, GenerateRequest, RerankRequest
from ingle.backends.base.sampling_params import SamplingParams
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.model_task import ModelTask

from ..generations.generation_registry import new_generation_id
from ..http.json_response import NATIVE, JSONResponse
from ..http.route_access import ANY, INFERENCE, READ
from ..http.route_spec import Parameter, route
from ..http.sse_writer import run_until_disconnect
from ..model_process.model_run import ModelState
from ..services import Services
from .native.types import Health, Readiness

if TYPE_CHECKING:
    from prometheus_client import Metric

_route = partial(route, "GET", error_format=NATIVE)


class HealthApi:
    """`/health` and `/health/ready`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @_route("/health", access=ANY, response=Health)
    async def health(self, request: Request) -> Response:
        """The daemon answers."""
        return JSONResponse(Health())

    @_route(
        "/health/ready",
        access=INFERENCE,
        response=Readiness,
        parameters=(Parameter("model", "query", str, "The model; left out, the default one."),),
        errors=(404, 422, 429, 500, 503, 507),
    )
    async def ready(self, request: Request) -> Response:
        """Load a model, and answer once it has produced something."""
        model = request.query_params.get("model") or self._services.config.default_model
        return JSONResponse(await run_until_disconnect(request.receive, self._probe(model)))

    async def _probe(self, reference: str) -> Readiness:
        start = time.monotonic()
        async with self._services.manager.lease(reference, task=None) as lease:
            name = lease.model.name
            if not await _answers(lease.backend, lease.model.task):
                raise BackendError(f"The model '{name}' is loaded, but produces nothing.")
        return Readiness("ready", name, time.monotonic() - start)


async def _answers(backend: RequestBackend, task: ModelTask) -> bool:
    """Whether the model does the least of what it is for."""
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
    async with aclosing(backend.generate(probe)) as events:
        return any([e.completion_tokens async for e in events if isinstance(e, Finished)])


COUNTED = "_total"

HELP = {
    "running": "Sequences that are being computed.",
    "waiting": "Sequences that wait for a slot or for room in the KV cache.",
    "kv_used": "KV cache cells of running sequences.",
    "kv_kept": "KV cache cells kept for requests that begin alike.",
    "kv_capacity": "KV cache cells in all.",
    "kv_memory_bytes": "Keys and values in memory beyond the KV cache.",
    "kv_disk_bytes": "Keys and values on disk.",
    "prompt_tokens_total": "Prompt tokens computed; those found in the KV cache do not count.",
    "cached_tokens_total": "Prompt tokens that were found in the KV cache or the store.",
    "completion_tokens_total": "Tokens generated.",
    "drafted_tokens_total": "Tokens guessed by speculation.",
    "accepted_tokens_total": "Guessed tokens that became part of an answer.",
    "restored_tokens_total": "Tokens whose keys and values came back from memory or disk.",
    "preemptions_total": "Sequences sent back to the queue for lack of room.",
    "steps_total": "Batches computed.",
    "prompt_rate": "Prompt tokens a second, as measured of late.",
    "decode_rate": "Tokens a second of one answer alone, as measured of late.",
}
"""Each field of `Gauges`; totals count since the model's process began."""


class MetricsApi:
    """The one route that monitoring asks."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @route("GET", "/metrics", access=READ, error_format=NATIVE, response=str)
    async def metrics(self, request: Request) -> Response:
        """Gauges and counters in Prometheus' text format."""
        # Imported here: most daemons are never asked.
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        text = await asyncio.to_thread(generate_latest, registry)  # drivers take their time
        return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})

    def collect(self) -> Iterator[Metric]:
        """All metrics as they are now, in the shape `prometheus_client` asks of a collector."""
        yield from self._machine()
        yield from self._devices()
        yield from self._models()
        yield from self._places()
        yield from self._work()
        yield from self._failures()

    def _machine(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily

        memory = self._services.memory()
        yield InfoMetricFamily("ingle", "Which ingle this is.", value={"version": version("ingle")})
        yield GaugeMetricFamily(
            "ingle_memory_available_bytes", "What the system can still give.", memory.available
        )
        gpu = GaugeMetricFamily(
            "ingle_gpu_memory_bytes", "Of the GPU that models are loaded on.", labels=["kind"]
        )
        if memory.gpu_total:
            gpu.add_metric(["total"], memory.gpu_total)
            gpu.add_metric(["available"], memory.gpu_available)
        yield gpu
        yield GaugeMetricFamily(
            "ingle_daemon_resident_bytes", "The daemon's own memory.", memory.daemon_rss
        )

    def _devices(self) -> Iterator[Metric]:
        """What has a meter; a device is told by its number and its name."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        devices, labels = self._services.devices.read(), ["device", "name"]
        watts = GaugeMetricFamily("ingle_device_watts", "Power drawn now.", labels=labels)
        busy = GaugeMetricFamily("ingle_device_utilization", "From 0 to 1.", labels=labels)
        used = GaugeMetricFamily("ingle_device_memory_used_bytes", "By anybody.", labels=labels)
        joules = CounterMetricFamily(
            "ingle_device_joules_total", "Energy since somebody began to look.", labels=labels
        )
        for number, device in enumerate(devices):
            values = (device.watts, device.utilization, device.memory_used, device.joules)
            for family, value in zip((watts, busy, used, joules), values, strict=True):
                if value is not None:
                    family.add_metric([f"{device.kind}{number}", device.name], value)
        yield from (watts, busy, used, joules)

    def _models(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily, StateSetMetricFamily

        states = StateSetMetricFamily(
            "ingle_model_state", "What a model's process does.", labels=["model"]
        )
        sizes = GaugeMetricFamily(
            "ingle_model_bytes", "What a model takes, by purpose.", labels=["model", "purpose"]
        )
        for model in self._services.manager.loaded():
            states.add_metric(
                [model.name], {str(state): state is model.state for state in ModelState}
            )
            for purpose in ("weights", "kv", "compute"):
                sizes.add_metric([model.name, purpose], getattr(model, f"{purpose}_bytes"))
            sizes.add_metric([model.name, "resident"], model.rss)
        yield states
        yield sizes

    def _places(self) -> Iterator[Metric]:
        """Where models are and why, what was predicted of them, and what they hold."""
        from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily

        labels = ["model", "memory", "figure"]
        memory = GaugeMetricFamily(
            "ingle_model_memory_bytes",
            "Memory of the machine (host) and the GPU: predicted before loading, measured now.",
            labels=labels,
        )
        place = InfoMetricFamily("ingle_model_placement", "How and why.", labels=["model"])
        stays = GaugeMetricFamily(
            "ingle_model_expires_seconds",
            "Until it is unloaded; +Inf while it is in use, kept for ever or pinned.",
            labels=["model"],
        )
        for model in self._services.manager.loaded():
            for figure in ("predicted", "measured"):
                needs: MemoryNeeds = getattr(model.memory, figure)
                memory.add_metric([model.name, "host", figure], needs.host)
                memory.add_metric([model.name, "gpu", figure], needs.gpu)
            memory.add_metric([model.name, "host", "mapped"], model.memory.mapped)
            told = {"engine": model.engine, "device": model.device, "reason": model.reason}
            place.add_metric([model.name], {**told, "pinned": str(model.pinned).lower()})
            left = math.inf if model.expires_in is None else model.expires_in
            stays.add_metric([model.name], left)
        yield from (memory, place, stays)
        requests = GaugeMetricFamily(
            "ingle_requests",
            "Requests that a model has, those that wait for it to be loaded included.",
            labels=["model"],
        )
        for name, count in self._services.manager.requests().items():
            requests.add_metric([name], count)
        yield requests

    def _work(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        gauges = self._services.manager.gauges()
        for field in msgspec.structs.fields(Gauges):
            counts = field.name.endswith(COUNTED)
            family = CounterMetricFamily if counts else GaugeMetricFamily
            metric = family(f"ingle_{field.name}", HELP[field.name], labels=["model"])
            for name, value in gauges.items():
                metric.add_metric([name], getattr(value, field.name))
            yield metric

    def _failures(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        failures = self._services.manager.failures
        for name, help_, counts in (
            ("deaths", "Model processes that ended by themselves.", failures.deaths),
            (
                "second_tries",
                "Requests asked once more, as the model's process had died under them.",
                failures.retries,
            ),
        ):
            counter = CounterMetricFamily(f"ingle_worker_{name}_total", help_, labels=["model"])
            for model, count in tuple(counts.items()):
                counter.add_metric([model], count)
            yield counter
        quarantine = GaugeMetricFamily(
            "ingle_model_quarantine_seconds",
            "Until a model that died too often is started again.",
            labels=["model"],
        )
        for loaded in self._services.manager.loaded():
            quarantine.add_metric([loaded.name], loaded.quarantined_for)
        yield quarantine
