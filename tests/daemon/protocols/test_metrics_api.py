"""`GET /metrics`, parsed by Prometheus' own parser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from ingle.backends.base.model_info import Gauges
from ingle.daemon.installed_version import installed_version
from ingle.daemon.protocols.monitoring_api import HELP

if TYPE_CHECKING:
    from ..conftest import RunningDaemon

Samples = dict[tuple[str, ...], float]


async def scrape(daemon: RunningDaemon) -> Samples:
    """Every sample, by its name and its labels' values."""
    answer = await daemon.tcp.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(answer.text)
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
    }


def test_every_gauge_has_a_help_text() -> None:
    assert set(HELP) == {field.name for field in msgspec.structs.fields(Gauges)}


async def test_tokens_are_counted_per_model(daemon: RunningDaemon) -> None:
    before = await scrape(daemon)
    assert not [key for key in before if "echo:1" in key]
    assert before["ingle_daemon_resident_bytes",] > 2**20
    body = {"model": "echo:1", "prompt": "Hi", "max_tokens": 5}
    usage = (await daemon.tcp.post("/v1/completions", json=body)).json()["usage"]
    after = await scrape(daemon)
    assert after["ingle_completion_tokens_total", "echo:1"] == usage["completion_tokens"] == 5
    assert after["ingle_prompt_tokens_total", "echo:1"] == usage["prompt_tokens"]
    assert after["ingle_running", "echo:1"] == 0
    assert after["ingle_model_state", "echo:1", "ready"] == 1
    assert after["ingle_model_state", "echo:1", "failed"] == 0
    assert after["ingle_model_memory_bytes", "echo:1", "host", "predicted"] == 2**20 + 64 * 512
    assert after["ingle_model_memory_bytes", "echo:1", "gpu", "measured"] == 0
    assert after["ingle_model_expires_seconds", "echo:1"] > 0
    assert after["ingle_requests", "echo:1"] == 0
    assert ("ingle_cached_tokens_total", "echo:1") in after
    assert [key for key in after if key[0] == "ingle_device_utilization"]


async def test_version_and_ping_answer_as_vllms(daemon: RunningDaemon) -> None:
    assert (await daemon.tcp.get("/version")).json() == {"version": installed_version()}
    for answer in (await daemon.tcp.get("/ping"), await daemon.tcp.post("/ping")):
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["content-type"].startswith("text/plain")
