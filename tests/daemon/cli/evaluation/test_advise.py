"""`ingle advise` on this machine, using only the catalog."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ingle.daemon.benchmark.bench_report import BenchReport, Measurement, Samples, save_report
from ingle.daemon.settings.config import load_config
from ingle.models.catalog import Catalog

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def isolated_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide models that other programs installed on this machine."""
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.slow
def test_advise_does_not_start_the_daemon(ingle: Run) -> None:
    done = ingle("advise", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["best"]["fits"]
    assert Catalog.load().find(found["best"]["model"]) is not None
    assert ingle("ps").stdout == "The daemon is not running.\n"


@pytest.mark.slow
def test_text_output_explains_the_recommendation(ingle: Run) -> None:
    text = ingle("advise", "--task", "code", "--explain").stdout
    assert "qwen2.5-coder" in text
    assert "How the numbers were computed" in text
    assert "\x1b" not in text


@pytest.mark.slow
def test_apply_writes_the_default_model_to_the_config(ingle: Run, ingle_home: Path) -> None:
    done = ingle("advise", "--task", "code", "--apply")
    assert done.returncode == 0, done.stderr
    config = load_config({"INGLE_HOME": str(ingle_home)})
    assert Catalog.load().find(config.default_model) is not None
    assert f"default_model = {config.default_model}" in done.stderr
    assert "ingle pull" in done.stderr


@pytest.mark.slow
def test_apply_is_rejected_for_embedding_models(ingle: Run, ingle_home: Path) -> None:
    done = ingle("advise", "--task", "embed", "--apply")
    assert done.returncode == 1
    assert "every request names its model" in done.stderr
    assert not (ingle_home / "config/config.toml").exists()


@pytest.mark.slow
def test_named_model_is_the_only_recommendation(ingle: Run) -> None:
    found = json.loads(ingle("advise", "smollm2", "--json").stdout)
    assert (found["best"]["model"], found["alternatives"]) == ("smollm2:135m", [])
    unknown = ingle("advise", "nonsense")
    assert unknown.returncode == 1
    assert "nonsense" in unknown.stderr


@pytest.mark.slow
def test_bench_report_calibrates_predicted_speed(ingle: Run, tmp_path: Path) -> None:
    before = json.loads(ingle("advise", "smollm2", "--json").stdout)["best"]
    speed = before["speed"]["decode"]
    report = BenchReport(
        model="smollm2:135m",
        quantization="Q4_1",
        parameters=1,
        prompt_tokens=1000,
        answer_tokens=0,
        measured="",
        machine={},
        measurements=[
            Measurement(name="baseline", device="CPU, 2 threads", decode=Samples([speed * 0.25])),
            Measurement(name="clients=4", device="CPU, 2 threads", decode=Samples([9999.0])),
        ],
    )
    file = tmp_path / "bench.json"
    save_report(report, file)
    after = json.loads(ingle("advise", "smollm2", "--bench", str(file), "--json").stdout)["best"]
    # The measured memory bandwidth is cached from the first call, so nothing else has changed.
    assert after["speed"]["decode"] == pytest.approx(speed * 0.25, rel=0.02)
    file.write_text("{}")
    assert ingle("advise", "--bench", str(file)).returncode == 2
    assert ingle("advise", "--bench", str(tmp_path / "none")).returncode == 2


def test_invalid_arguments_exit_with_2(ingle: Run) -> None:
    assert ingle("advise", "--for", "fame").returncode == 2
    assert ingle("advise", "--context", "-5").returncode == 2
