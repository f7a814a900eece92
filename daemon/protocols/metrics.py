"""`GET /metrics`: what the daemon and its models do, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.base import Gauges

from ..http.route_spec import RouteSpec
from ..model_run import ModelState
from ..services import Services

if TYPE_CHECKING:
    from prometheus_client import Metric

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

    def routes(self) -> list[RouteSpec]:
        """It alone."""
        return [
            RouteSpec(
                method="GET",
                path="/metrics",
                endpoint=self.metrics,
                summary="Gauges and counters in Prometheus' text format.",
                response=str,
            )
        ]

    async def metrics(self, request: Request) -> Response:
        """`GET /metrics`."""
        # Imported here: most daemons are never asked.
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return Response(generate_latest(registry), headers={"content-type": CONTENT_TYPE_LATEST})

    def collect(self) -> Iterator[Metric]:
        """All metrics as they are now, in the shape `prometheus_client` asks of a collector."""
        yield from self._machine()
        yield from self._models()
        yield from self._work()

    def _machine(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily

        memory = self._services.memory()
        yield InfoMetricFamily("ingle", "Which ingle this is.", value={"version": version("ingle")})
        yield GaugeMetricFamily(
            "ingle_memory_available_bytes", "What the system can still give.", memory.available
        )
        yield GaugeMetricFamily(
            "ingle_daemon_resident_bytes", "The daemon's own memory.", memory.daemon_rss
        )

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
