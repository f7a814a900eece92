from __future__ import annotations

from pathlib import Path

from ingle.models.places.model_folders import find_in_plain_folder


def test_models_in_nested_folders(tmp_path: Path) -> None:
    names = (
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "chat/Llama-3.2-1B-Q8_0.gguf",
        "mine/config.json",
        "mine/model.safetensors",
        "big-Q4_0-00001-of-00002.gguf",
        "big-Q4_0-00002-of-00002.gguf",
        "lost-Q4_0-00002-of-00002.gguf",
        ".hidden/m.gguf",
        "a/b/c/d/e/f.gguf",
        "mmproj-x.gguf",
        "notes.txt",
    )
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    (tmp_path / "round").symlink_to(tmp_path)
    found = {finding.name: finding for finding in find_in_plain_folder(tmp_path)}
    assert set(found) == {
        "smollm2-135m-instruct:q4_1",
        "llama-3.2-1b:q8_0",
        "mine",
        "big:q4_0",
        "lost:q4_0",
    }
    assert found["big:q4_0"].path.name == "big-Q4_0-00001-of-00002.gguf"
    assert "first part" in found["lost:q4_0"].problem
