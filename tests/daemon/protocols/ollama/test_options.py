"""Parsing of Ollama's options and durations."""

from __future__ import annotations

from typing import Any

import pytest

from ingle.daemon.errors import InvalidBody
from ingle.daemon.protocols.ollama.requests import keep_alive_seconds, model_options


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [
        (None, None),
        (300, 300),
        (0, 0),
        (-1, -1),
        (-0.5, -1),
        (1e12, 1e9),
        ("5m", 300),
        ("0", 0),
        ("0s", 0),
        ("-1", -1),
        ("-1m", -1),
        ("300", 300),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("250ms", 0.25),
        (" 10s ", 10),
    ],
)
def test_keep_alive_durations(duration: Any, seconds: float | None) -> None:
    assert keep_alive_seconds(duration) == seconds


@pytest.mark.parametrize("duration", ["", "soon", "5 m", "5x", "m", "--1", "1e3", "٣m", "9" * 99])
def test_invalid_durations_are_refused(duration: str) -> None:
    with pytest.raises(InvalidBody, match="keep_alive"):
        keep_alive_seconds(duration)


def test_options_are_clamped_to_their_bounds() -> None:
    options = model_options(
        {
            "temperature": 1000,
            "top_k": -3,
            "top_p": 0,
            "repeat_last_n": -7,
            "num_ctx": 4096.9,
            "num_predict": -2,
            "seed": -1,
            "stop": ["", "x"],
            "nobody": object(),
            "min_p": None,
        }
    )
    sampling = options.sampling
    assert (sampling.temperature, sampling.top_k, sampling.repeat_last_n) == (100, 0, -1)
    assert sampling.top_p is not None
    assert 0 < sampling.top_p < 0.001
    assert (sampling.seed, sampling.min_p) == (None, None)
    assert (options.context, options.max_tokens, options.stop) == (4096, None, ["x"])
    assert model_options(None).sampling == model_options({"num_ctx": 0}).sampling
    assert model_options({"num_ctx": -1}).context is None
    assert model_options({"seed": 7, "num_predict": 0}).max_tokens == 0


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": "hot"},
        {"temperature": True},
        {"top_k": [1]},
        {"num_ctx": "4096"},
        {"seed": False},
        {"stop": 3},
        {"stop": [1]},
        {"use_mmap": 1},
        {"num_gpu": "all"},
    ],
)
def test_wrong_type_error_names_the_option(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(InvalidBody) as refused:
        model_options(options)
    assert refused.value.param == f"options.{name}"
