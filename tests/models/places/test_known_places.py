from __future__ import annotations

import json
from pathlib import Path

import pytest

from ingle.models.places.known_places import known_places, plain_places


def folders(environ: dict[str, str], home: Path) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for place in known_places(environ, home):
        found.setdefault(place.title, []).append(place.folder)
    return found


@pytest.mark.parametrize(
    ("variable", "value", "title", "folder"),
    [
        ("HF_HOME", "/data/hf", "Hugging Face", "/data/hf/hub"),
        ("HF_HUB_CACHE", "/data/hub", "Hugging Face", "/data/hub"),
        ("XDG_CACHE_HOME", "/c", "Hugging Face", "/c/huggingface/hub"),
        ("OLLAMA_MODELS", "/data/ollama", "Ollama", "/data/ollama"),
        ("LLAMA_CACHE", "/data/llama", "llama.cpp", "/data/llama"),
    ],
)
def test_environment_variables_move_folders(
    tmp_path: Path, variable: str, value: str, title: str, folder: str
) -> None:
    assert Path(folder) in folders({variable: value}, tmp_path)[title]


def test_default_folders(tmp_path: Path) -> None:
    found = folders({}, tmp_path)
    assert found["Hugging Face"] == [tmp_path / ".cache/huggingface/hub"]
    assert tmp_path / ".ollama/models" in found["Ollama"]
    assert found["LM Studio"] == [
        tmp_path / ".lmstudio/models",
        tmp_path / ".cache/lm-studio/models",
    ]


def test_lm_studio_settings_name_its_folder(tmp_path: Path) -> None:
    home = tmp_path / "elsewhere"
    home.mkdir()
    (tmp_path / ".lmstudio-home-pointer").write_text(f"{home}\n")
    (home / "settings.json").write_text(json.dumps({"downloadsFolder": "/big/disk", "x": 1}))
    found = folders({}, tmp_path)["LM Studio"]
    assert found[:2] == [Path("/big/disk"), home / "models"]
    (home / "settings.json").write_text("[")
    assert folders({}, tmp_path)["LM Studio"][0] == home / "models"


def test_configured_folders(tmp_path: Path) -> None:
    (place,) = plain_places([tmp_path])
    assert (place.title, place.folder) == (str(tmp_path), tmp_path)
