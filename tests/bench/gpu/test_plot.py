"""SVG plots of GPU measurements, and the tuning table derived from them."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from gpu.crossover import table_of
from gpu.plot import svg

PARTS: dict[str, Any] = {
    "bandwidth": {
        "result": {
            "products": [
                {"kind": "Q4_K", "shape": "down & up", "columns": 1, "percent_of_copy": 50.0},
                {"kind": "Q4_K", "shape": "down & up", "columns": 1, "percent_of_copy": 75.0},
            ]
        }
    },
    "engine": {
        "result": {
            "models": [
                {
                    "kind": "Q4_K_M",
                    "prompt": {"tokens": 4096, "tokens_a_second": 9000.0},
                    "decode": [
                        {"streams": 1, "tokens_a_second": 100.0},
                        {"streams": 4, "tokens_a_second": 400.0},
                    ],
                }
            ]
        }
    },
    "peers": {"status": "broken"},
}


def test_bar_lengths_are_proportional_to_values() -> None:
    drawing = svg(PARTS)
    assert drawing is not None
    root = ElementTree.fromstring(drawing)
    bars = [int(each.attrib["width"]) for each in root if each.attrib.get("fill") == "#4878a8"]
    one, quarter, most, prompt = bars
    assert abs(one - 0.75 * most) <= 1
    assert abs(quarter - 0.25 * most) <= 1
    assert prompt == most
    texts = [each.text for each in root if each.tag.endswith("text")]
    assert "Q4_K down & up" in texts
    assert "75 %" in texts
    assert "400.0" in texts


def test_no_plot_without_results() -> None:
    assert svg({"bandwidth": {"status": "skipped", "lines": ["it needs a GPU"]}}) is None


def test_tuning_table_picks_the_faster_kernel_per_column_count() -> None:
    few = {"Q4_K": {n: [float(n), 6.5] for n in range(1, 9)}, "NF4": {1: [2.0, 1.0]}}
    table = table_of(few, {128: [1.0, 2.0], 256: [3.0, 3.5], 512: [8.0, 5.0]})
    assert (table.gemm, dict(table.gemv)) == (256, {"Q4_K": 6, "NF4": 0})
    assert table_of(few, {128: [1.0, 2.0], 256: [1.0, 2.0]}).gemm > 10**6
    assert table_of(few, {128: [2.0, 1.0]}).gemm == 8
