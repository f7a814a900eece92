from __future__ import annotations

import pytest

from ingle.backends.own_engine import OwnEngine
from ingle.daemon.model_fit import FitForecaster, ModelFit

GB = 10**9
NO_GPU = OwnEngine()
GPU = OwnEngine(has_torch=True, gpu_memory=12 * GB, capability=(8, 9))


def _forecast(own: OwnEngine, size: float, billions: float, available: float) -> ModelFit:
    return FitForecaster(lambda: own).forecast(
        size=int(size * GB),
        parameters=int(billions * GB),
        trained=32768,
        available=int(available * GB),
    )


@pytest.mark.parametrize(
    ("own", "size", "billions", "available", "device", "state"),
    [
        (NO_GPU, 0.5, 0.63, 8, "cpu", "fits"),
        (NO_GPU, 5.0, 8.0, 4, "cpu", "no"),
        (NO_GPU, 4.0, 8.0, 4.05, "cpu", "no"),
        (GPU, 5.0, 8.0, 1, "cuda", "fits"),
        (GPU, 14.0, 24.0, 16, "cuda", "spills"),
        (GPU, 40.0, 70.0, 16, "cuda", "no"),
        (OwnEngine(gpu_memory=12 * GB, capability=(8, 9)), 5.0, 8.0, 16, "cpu", "fits"),
    ],
)
def test_where_a_model_fits(
    own: OwnEngine, size: float, billions: float, available: float, device: str, state: str
) -> None:
    fit = _forecast(own, size, billions, available)
    assert (fit.device, fit.state) == (device, state)
    assert fit.needs_bytes > size * GB
    assert bool(fit.context) == (state != "no")
    assert (fit.needs_bytes <= fit.free_bytes) == (state == "fits")


def test_less_room_means_less_context() -> None:
    wide, narrow = _forecast(NO_GPU, 5, 8, 16), _forecast(NO_GPU, 5, 8, 6.5)
    assert wide.context == 16384
    assert 512 <= narrow.context < wide.context


def test_forecasts_are_near_the_real_estimates() -> None:
    """Bytes that `estimate_memory` tells for the real files of these sizes."""
    real = {
        (98362432, 134515008): 96576768 + 8192 * 23040 + 28053504,
        (491400064, 630167424): 485452288 + 8192 * 12288 + 61941248,
        (1117320768, 1777088000): 1111370240 + 8192 * 28672 + 93062656,
    }
    for (size, parameters), expected in real.items():
        fit = FitForecaster(lambda: NO_GPU).forecast(
            size=size, parameters=parameters, trained=8192, available=64 * GB
        )
        assert fit.needs_bytes == pytest.approx(expected, rel=0.2)
