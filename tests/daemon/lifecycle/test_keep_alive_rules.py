"""Keep-alive and pin settings per model name."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingle.daemon.lifecycle.keep_alive_rules import NO_RULE, KeepAliveRule, find_rule
from ingle.daemon.settings.config import Config
from ingle.daemon.settings.paths import find_paths
from ingle.models.errors import ModelNotFound
from ingle.models.metadata.stored_model import StoredModel

FOLDER = Path("/models")
PATHS = find_paths({"INGLE_HOME": "/home/ingle"})


def stored(name: str) -> StoredModel:
    return StoredModel(
        name=name,
        path=FOLDER / f"{name}.gguf",
        size=1,
        sha256="0" * 64,
        licence="",
        description="",
        parameters=1,
        quantization="",
        architecture="llama",
        context=64,
        chat=True,
        sampling={},
        source="test",
    )


def resolve(name: str) -> StoredModel:
    names = {"coder": "qwen:1.5b", "fast": "qwen:1.5b", "qwen:1.5b": "qwen:1.5b"}
    if name not in names:
        raise ModelNotFound("No such model.")
    return stored(names[name])


@pytest.mark.parametrize(
    ("reference", "seconds"),
    [
        ("coder", 60.0),
        ("Coder:latest", 60.0),
        ("fast", 5.0),
        ("qwen:1.5b", 60.0),
        ("gpt-4o", 60.0),
    ],
)
def test_keep_alive_of_the_requested_name_takes_precedence(reference: str, seconds: float) -> None:
    config = Config(paths=PATHS, keep_alives=(("gone", 1.0), ("coder", 60.0), ("fast", 5.0)))
    assert find_rule(config, resolve, reference, resolve("coder")) == KeepAliveRule(seconds)


def test_pin_applies_to_the_model_under_any_name() -> None:
    config = Config(paths=PATHS, pinned=("gone", "coder"))
    assert find_rule(config, resolve, "fast", resolve("fast")).pinned
    assert find_rule(config, resolve, "other", stored("other")) == NO_RULE
    assert find_rule(Config(paths=PATHS), resolve, "fast", resolve("fast")) is NO_RULE
