from __future__ import annotations

from pathlib import Path

import gguf
import pytest

from ingle.backends.selection import make_load_spec
from ingle.models.errors import UnsupportedModel
from ingle.models.gguf import GGUFHeader, read_header
from ingle.models.kv_type import KVType


@pytest.fixture
def header(tmp_path: Path) -> GGUFHeader:
    """A model with heads of 80 elements that was trained for 4096 tokens."""
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(4096)
    writer.add_embedding_length(160)
    writer.add_feed_forward_length(320)
    writer.add_head_count(2)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return read_header(path)


def test_the_context_is_cut_to_the_trained_one(header: GGUFHeader) -> None:
    for asked, got in ((1000, 1000), (8192, 4096)):
        assert make_load_spec(header.path, header, context=asked, slots=1).context == got


def test_a_kv_type_that_the_heads_do_not_fit_is_refused(header: GGUFHeader) -> None:
    make_load_spec(header.path, header, context=512, slots=1, kv_type=KVType.F16)
    with pytest.raises(UnsupportedModel, match="heads of 80 elements"):
        make_load_spec(header.path, header, context=512, slots=1, kv_type=KVType.Q4_0)


def test_settings_reach_the_specification(header: GGUFHeader) -> None:
    spec = make_load_spec(
        header.path,
        header,
        context=512,
        slots=3,
        threads=2,
        gpu_layers=7,
        flash_attention="on",
        mmap=False,
        mlock=True,
    )
    assert (spec.slots, spec.threads, spec.gpu_layers) == (3, 2, 7)
    assert (spec.flash_attention, spec.mmap, spec.mlock) == ("on", False, True)
