from __future__ import annotations

import json
from pathlib import Path

from ingle.models.places.llama_cpp_cache import find_in_llama_cpp_cache

DIGEST = "ab" * 32


def test_names_come_from_manifest_url_or_file(tmp_path: Path) -> None:
    names = ["ggml-org_tiny_m-Q8_0.gguf", "own_re_po_m-Q4_0.gguf", "a_b-GGUF_b-Q6_K.gguf", "x.gguf"]
    for name in names:
        (tmp_path / name).write_bytes(b"")
    note = {"ggufFile": {"rfilename": "m-Q8_0.gguf", "lfs": {"sha256": DIGEST}}}
    (tmp_path / "manifest=ggml-org=tiny=latest.json").write_text(json.dumps(note))
    url = "https://huggingface.co/own/re_po/resolve/main/m-Q4_0.gguf"
    (tmp_path / f"{names[1]}.json").write_text(json.dumps({"url": url, "etag": "x"}))
    (tmp_path / "manifest=bad=bad=bad.json").write_text("[]")
    found = {finding.path.name: finding for finding in find_in_llama_cpp_cache(tmp_path)}
    assert [found[name].name for name in names] == [
        "hf.co/ggml-org/tiny:Q8_0",
        "hf.co/own/re_po:Q4_0",
        "hf.co/a/b-GGUF:Q6_K",
        "x",
    ]
    assert [found[name].sha256 for name in names] == [DIGEST, None, None, None]
