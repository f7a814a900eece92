"""Applying advice to the config file: what is written and what is kept."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ingle.backends.advice.advise import Option
from ingle.daemon.advice.apply_advice import apply_advice
from ingle.daemon.settings.config import ConfigError, load_config
from ingle.models.kv_type import KVType

OPTION = Option(
    model="qwen2.5-coder:1.5b",
    quantization="Q4_K_M",
    installed=True,
    exact=True,
    for_code=True,
    parameters=1,
    download=0,
    engine="llama.cpp",
    device="cpu",
    gpu_layers=0,
    layers=28,
    context=16384,
    kv_type=KVType.Q8_0,
    quantize="none",
    draft=None,
    host_bytes=1,
    gpu_bytes=0,
    fits=True,
    speed=None,
    batch=0.0,
    quality=0.0,
    worth=0.0,
    why="",
)


def write_config(home: Path, text: str) -> Path:
    path = home / "config/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_creates_the_config_file(ingle_home: Path) -> None:
    environ = {"INGLE_HOME": str(ingle_home)}
    apply_advice(OPTION, load_config(environ))
    config = load_config(environ)
    assert config.default_model == "qwen2.5-coder:1.5b"
    assert (config.context, config.kv_type) == (16384, "q8_0")


def test_comments_and_other_settings_are_kept(ingle_home: Path) -> None:
    text = """\
# my settings
port = 4700
context = 2048  # small
# names
[aliases]
gpt-4o = "smollm2"
"""
    path = write_config(ingle_home, text)
    environ = {"INGLE_HOME": str(ingle_home)}
    apply_advice(OPTION, load_config(environ))
    written = path.read_text()
    assert "# my settings\nport = 4700\ncontext = 16384  # small\n" in written
    assert written.endswith('# names\n[aliases]\ngpt-4o = "smollm2"\n')
    config = load_config(environ)
    assert (config.port, config.context) == (4700, 16384)
    assert config.default_model == OPTION.model


@pytest.mark.parametrize(
    ("text", "changes", "expected"),
    [
        ('engine = "cuda"\n', {}, {"engine": "auto"}),
        ("gpu_layers = 0\n", {"device": "gpu", "engine": "ingle"}, {"gpu_layers": -1}),
        ("", {"quantize": "nf4"}, {"quantize": "nf4"}),
        ('quantize = "nf4"\n', {}, {"quantize": "none"}),
    ],
)
def test_conflicting_settings_are_overridden(
    ingle_home: Path, text: str, changes: dict[str, object], expected: dict[str, object]
) -> None:
    write_config(ingle_home, text)
    config = load_config({"INGLE_HOME": str(ingle_home)})
    written = apply_advice(msgspec.structs.replace(OPTION, **changes), config)
    assert {name: written[name] for name in expected} == expected
    assert len(written) == 3 + len(expected)
    load_config({"INGLE_HOME": str(ingle_home)})


def test_invalid_config_file_is_left_unchanged(ingle_home: Path) -> None:
    path = write_config(ingle_home, 'default_model = """smollm2"""\n')
    before = path.read_text()
    config = load_config({"INGLE_HOME": str(ingle_home)})
    path.write_text("context = = 3\n")
    with pytest.raises(ConfigError, match="was not changed"):
        apply_advice(OPTION, config)
    assert path.read_text() == "context = = 3\n"
    path.write_text(before)
    apply_advice(OPTION, config)
    assert load_config({"INGLE_HOME": str(ingle_home)}).default_model == OPTION.model
