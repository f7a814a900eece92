"""Benchmark reports: comparison beyond noise, storage, tables and bars."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ingle.daemon.benchmark.bench_report import (
    BenchReport,
    Measurement,
    Samples,
    compare,
    load_report,
    save_report,
)
from ingle.daemon.benchmark.bench_text import bars, changes, differences, table

pytestmark = pytest.mark.quick


def measurement(name: str, decode: list[float], first: float = 0.5) -> Measurement:
    return Measurement(
        name=name,
        engine="llama.cpp",
        device="CPU",
        prefill=Samples([100.0 for _ in decode]),
        decode=Samples(decode),
        first_token=Samples([first for _ in decode]),
        memory_bytes=200_000_000,
    )


def report(*found: Measurement, load: str = "0.1", model: str = "m") -> BenchReport:
    return BenchReport(
        model=model,
        quantization="Q4_1",
        parameters=1,
        prompt_tokens=512,
        answer_tokens=128,
        measured="2026-11-21T03:00Z",
        machine={"cpu": "c", "load_after": load},
        measurements=list(found),
    )


def test_overlapping_measurements_are_not_a_change() -> None:
    old = report(measurement("baseline", [10, 11, 12]), measurement("kv=q8_0", [10, 11, 12]))
    new = report(measurement("baseline", [12, 13, 14]), measurement("kv=q8_0", [13, 14, 15]))
    found = {(c.name, c.figure): c for c in compare(new, old)}
    assert not found["baseline", "decode"].is_real
    assert found["kv=q8_0", "decode"].is_real
    assert found["kv=q8_0", "decode"].is_better
    assert found["kv=q8_0", "decode"].ratio == pytest.approx(14 / 11)
    assert changes(list(found.values())) == [
        "better kv=q8_0: decode +27%",
        "The other 5 figures are within the noise of their runs.",
    ]


def test_longer_time_to_first_token_is_worse() -> None:
    old, new = (report(measurement("baseline", [5, 6], first)) for first in (0.5, 0.9))
    (found,) = [c for c in compare(new, old) if c.is_real]
    assert (found.figure, found.is_better) == ("first_token", False)
    assert changes([found]) == ["WORSE  baseline: first token +80%"]


def test_single_run_is_never_a_change() -> None:
    old, new = report(measurement("baseline", [5])), report(measurement("baseline", [50]))
    assert not any(change.is_real for change in compare(new, old))


def test_failed_measurements_are_not_compared() -> None:
    broken = Measurement(name="baseline", error="no memory")
    fine = report(measurement("baseline", [5, 6]))
    assert compare(report(broken), fine) == compare(fine, report(broken)) == []
    assert changes([]) == ["The reports have no combination in common."]


def test_differences_in_model_and_load_are_reported() -> None:
    fine = measurement("baseline", [5, 6])
    lines = differences(report(fine, load="3.0"), report(fine, model="other"))
    assert lines == [
        "Different model: other then, m now.",
        "The machine was not equally busy: load 0.1 then, 3.0 now.",
    ]


def test_report_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    saved = report(measurement("baseline", [5, 6]), Measurement(name="kv=q8_0", error="x"))
    save_report(saved, path)
    assert load_report(path) == saved


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b'{"version": 9}'])
def test_invalid_report_files_are_rejected(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"."):
        load_report(path)


def test_energy_and_its_cost_are_columns_if_they_are_known() -> None:
    metered = msgspec.structs.replace(measurement("baseline", [10]), joules=Samples([3.6]))
    headers, row = table(report(metered), 80).splitlines()
    assert (headers.split()[-1], row.split()[-1]) == ("J/TOK", "3.60")
    priced = msgspec.structs.replace(metered, cost_per_million=0.3)
    headers, row = table(report(priced), 80).splitlines()
    assert (headers.split()[-2:], row.split()[-2:]) == (["J/TOK", "COST/1M"], ["3.60", "0.30"])


def test_table_and_bars_fit_80_columns(tmp_path: Path) -> None:
    many = report(
        measurement("baseline", [10, 10]),
        measurement("clients=8", [19, 21]),
        Measurement(name="flash=on kv=q4_0 clients=8", error="no memory"),
    )
    shown = table(many, 80).splitlines()
    assert max(map(len, shown)) <= 80
    assert "±5%" in shown[2]
    assert "J/TOK" not in shown[0]
    lines = bars(many, 80)
    assert max(map(len, lines)) <= 80
    assert lines[2].count("█") == pytest.approx(2 * lines[1].count("█"), abs=1)
    assert bars(report(measurement("baseline", [10])), 80) == []
