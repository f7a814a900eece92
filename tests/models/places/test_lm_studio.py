from __future__ import annotations

from pathlib import Path

from ingle.models.places.model_folders import find_in_lm_studio


def test_names_come_from_publisher_repository_and_file(tmp_path: Path) -> None:
    repository = tmp_path / "lmstudio-community" / "Tiny-GGUF"
    repository.mkdir(parents=True)
    for name in ("Tiny-Q4_K_M.gguf", "mmproj-Tiny.gguf", "README.md"):
        (repository / name).write_bytes(b"")
    mlx = tmp_path / "mlx-community" / "Tiny-4bit"
    mlx.mkdir(parents=True)
    for name in ("config.json", "model.safetensors"):
        (mlx / name).write_bytes(b"")
    (tmp_path / "stray.gguf").write_bytes(b"")
    assert [(found.name, found.path) for found in find_in_lm_studio(tmp_path)] == [
        ("hf.co/lmstudio-community/Tiny-GGUF:Q4_K_M", repository / "Tiny-Q4_K_M.gguf"),
        ("hf.co/mlx-community/Tiny-4bit:SAFETENSORS", mlx),
    ]


def test_names_invalid_on_the_hub(tmp_path: Path) -> None:
    repository = tmp_path / "my models" / "a b"
    repository.mkdir(parents=True)
    (repository / "My Model Q8_0.gguf").write_bytes(b"")
    (found,) = find_in_lm_studio(tmp_path)
    assert found.name == "my-model-q8_0"
