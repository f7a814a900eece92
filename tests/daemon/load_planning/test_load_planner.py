"""Load planning for real model headers: draft models, KV types, engines, batch size and context."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import gguf
import msgspec
import numpy as np
import pytest

from ingle.backends.registry.cuda_availability import CudaAvailability
from ingle.backends.selection.engine_facts import EngineFacts
from ingle.daemon.load_planning.load_options import LoadOptions
from ingle.daemon.load_planning.load_planner import LoadPlan, ModelLoadPlanner
from ingle.daemon.settings.config import Config
from ingle.daemon.settings.paths import find_paths
from ingle.models.catalog import Catalog
from ingle.models.errors import ModelNotFound, UnsupportedModel
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.kv_type import KVType
from ingle.models.metadata.manifest import describe_folder
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.safetensors.model_folder import read_folder
from ingle.models.vision.picture_encoders import encoder_bytes
from tests.harness.small_projector import write_small_projector

GIB = 2**30


def write_model(path: Path, width: int, layers: int = 1) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(layers)
    writer.add_context_length(4096)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(width)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(64)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"t{token}" for token in range(64)])
    writer.add_tensor("token_embd.weight", np.zeros((64, width), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def stored(path: Path, draft: str | None = None) -> StoredModel:
    return StoredModel(
        name=path.stem,
        path=path,
        size=path.stat().st_size,
        sha256=None,
        licence="",
        description="",
        parameters=1,
        quantization="F32",
        architecture="llama",
        context=4096,
        chat=True,
        sampling={},
        source="test",
        draft=draft,
    )


@pytest.fixture
def large(tmp_path: Path) -> StoredModel:
    return stored(write_model(tmp_path / "large.gguf", 64), draft="small")


@pytest.fixture
def small(tmp_path: Path) -> StoredModel:
    return stored(write_model(tmp_path / "small.gguf", 32))


@pytest.fixture
def config(ingle_home: Path) -> Config:
    return Config(paths=find_paths({"INGLE_HOME": str(ingle_home)}))


APPLE = EngineFacts(
    own=CudaAvailability(),
    gpu_name="Apple M3",
    unified=True,
    gpu_total=12 * GIB,
    llama_offloads=True,
)


def test_projector_is_computed_where_the_model_is(
    config: Config, large: StoredModel, tmp_path: Path
) -> None:
    gpu = CudaAvailability(has_torch=True, gpu_memory=8 * GIB, capability=(8, 9))
    own_alone = EngineFacts(own=gpu, gpu_name="RTX", gpu_total=8 * GIB)
    both = replace(own_alone, llama_offloads=True)
    known = write_small_projector(tmp_path / "mmproj.gguf", "gemma3")
    other = write_small_projector(tmp_path / "other.gguf", "qwen2vl_merger")
    room = MemoryNeeds(4 * GIB, 4 * GIB)

    def plan(
        facts: EngineFacts, projector: Path, engine: str | None = None, ranks: int = 1
    ) -> LoadPlan:
        model = msgspec.structs.replace(large, projector=projector)
        divided = replace(config, tensor_parallel=ranks)
        planner = ModelLoadPlanner(divided, lambda _: model, lambda: facts)
        return planner(model, LoadOptions(context=512, engine=engine), available=room)

    cases = [
        (plan(both, known), "llama.cpp", str(known)),
        (plan(own_alone, known), "cuda", str(known)),
        (plan(own_alone, other), "cuda", None),
        (plan(both, known, "cuda"), "cuda", str(known)),
        (plan(both, known, "cuda", 2), "cuda", None),
        (plan(both, known, None, 2), "llama.cpp", str(known)),
    ]
    for found, engine, projector in cases:
        assert (found.spec.engine, found.spec.projector_path) == (engine, projector)
    blind = cases[2][0].needs.gpu
    assert cases[1][0].needs.gpu == blind + encoder_bytes(known)


def test_draft_model_is_not_loaded_on_a_cpu_unless_requested(
    config: Config, large: StoredModel, small: StoredModel
) -> None:
    on_cpu = EngineFacts(own=CudaAvailability())
    room, wanted = MemoryNeeds(GIB), LoadOptions(context=512)
    plan = ModelLoadPlanner(config, lambda _: small, lambda: on_cpu, lambda _: small)
    alone = plan(large, wanted, available=room)
    assert (alone.spec.draft_path, alone.draft) == (None, "")
    requested = plan(large, LoadOptions(512, draft="small"), available=room)
    assert (requested.draft, requested.needs.host) == (
        "small",
        alone.needs.host + requested.draft_needs.host,
    )
    always = ModelLoadPlanner(replace(config, speculation="draft"), lambda _: small, lambda: on_cpu)
    assert always(large, wanted, available=room).draft == "small"


def test_installed_draft_model_is_loaded_and_counted(
    config: Config, large: StoredModel, small: StoredModel
) -> None:
    requested: list[str] = []

    def resolve(name: str) -> StoredModel:
        requested.append(name)
        return small

    prepare = ModelLoadPlanner(config, resolve, lambda: APPLE)
    both = prepare(large, LoadOptions(context=1024), available=MemoryNeeds(GIB))
    assert requested == ["small"]
    assert both.spec.draft_path == str(small.path)
    assert both.spec.speculation == "auto"
    without_draft = prepare(
        msgspec.structs.replace(large, draft=None),
        LoadOptions(context=1024),
        available=MemoryNeeds(GIB),
    )
    assert without_draft.spec.draft_path is None
    draft_kv = 1024 * 2 * 32 * 2
    assert both.needs.host > without_draft.needs.host + draft_kv


def test_missing_or_too_large_draft_model_is_omitted(
    config: Config, large: StoredModel, small: StoredModel
) -> None:
    def missing(name: str) -> StoredModel:
        raise ModelNotFound(name)

    assert (
        ModelLoadPlanner(config, missing, lambda: APPLE)(
            large, LoadOptions(context=512), available=MemoryNeeds(GIB)
        ).spec.draft_path
        is None
    )
    prepare = ModelLoadPlanner(config, lambda _: small, lambda: APPLE)
    size = prepare(large, LoadOptions(context=512), available=MemoryNeeds(GIB)).needs.host
    assert prepare(large, LoadOptions(context=512), available=MemoryNeeds(size)).spec.draft_path
    assert (
        prepare(large, LoadOptions(context=512), available=MemoryNeeds(size - 1)).spec.draft_path
        is None
    )


def test_draft_model_is_searched_when_the_catalog_one_is_missing(
    config: Config, large: StoredModel, small: StoredModel
) -> None:
    def missing(name: str) -> StoredModel:
        raise ModelNotFound(name)

    searched: list[str] = []

    def find_draft(model: StoredModel) -> StoredModel:
        searched.append(model.name)
        return small

    prepare = ModelLoadPlanner(config, missing, lambda: APPLE, find_draft)
    for model in (large, msgspec.structs.replace(large, draft=None)):
        found = prepare(model, LoadOptions(context=512), available=MemoryNeeds(GIB))
        assert found.spec.draft_path == str(small.path)
    assert searched == [large.name] * 2
    none = prepare(large, LoadOptions(context=512, draft="off"), available=MemoryNeeds(GIB))
    assert (none.spec.draft_path, len(searched)) == (None, 2)


@pytest.mark.parametrize(
    ("speculation", "drafts"), [("auto", True), ("draft", True), ("ngram", False), ("off", False)]
)
def test_speculation_setting_selects_the_draft_model(
    config: Config, large: StoredModel, small: StoredModel, speculation: str, drafts: bool
) -> None:
    config = replace(config, speculation=speculation)  # pyright: ignore[reportArgumentType]
    spec = ModelLoadPlanner(config, lambda _: small, lambda: APPLE)(
        large, LoadOptions(context=512), available=MemoryNeeds(GIB)
    ).spec
    assert (spec.speculation, spec.draft_path is not None) == (speculation, drafts)


def test_load_option_overrides_the_draft_model(
    config: Config, large: StoredModel, small: StoredModel
) -> None:
    """An explicitly requested draft model is not dropped silently, whatever the setting and free
    memory."""
    prepare = ModelLoadPlanner(replace(config, speculation="off"), lambda _: small)
    assert prepare(large, LoadOptions(512), available=MemoryNeeds(GIB)).spec.draft_path is None
    requested = prepare(large, LoadOptions(512, draft="small"), available=MemoryNeeds(0)).spec
    assert (requested.draft_path, requested.speculation) == (str(small.path), "draft")

    def missing(name: str) -> StoredModel:
        raise ModelNotFound(name)

    prepare = ModelLoadPlanner(config, missing)
    with pytest.raises(ModelNotFound):
        prepare(large, LoadOptions(512, draft="gone"), available=MemoryNeeds(GIB))
    assert (
        prepare(large, LoadOptions(512, draft="off"), available=MemoryNeeds(GIB)).spec.draft_path
        is None
    )


def test_catalog_draft_models_exist_in_the_catalog() -> None:
    catalog = Catalog.load()
    named = [entry for entry in catalog.entries if entry.draft is not None]
    assert {"qwen2.5-coder:1.5b", "qwen3:8b"} <= {entry.full_name for entry in named}
    for entry in named:
        draft = catalog.find(entry.draft or "")
        assert draft is not None
        assert draft.size < entry.size / 2


def no_draft(name: str) -> StoredModel:
    raise ModelNotFound(name)


def test_kv_type_of_the_load_overrides_the_settings(config: Config, large: StoredModel) -> None:
    prepare = ModelLoadPlanner(replace(config, kv_type="q8_0"), no_draft)
    without_draft = LoadOptions(draft="off")
    quantized = prepare(large, without_draft, available=MemoryNeeds(GIB))
    plain = prepare(
        large,
        msgspec.structs.replace(without_draft, kv_type=KVType.F16),
        available=MemoryNeeds(GIB),
    )
    assert (quantized.spec.kv_type, plain.spec.kv_type) == (KVType.Q8_0, KVType.F16)
    # One layer of 4096 cells with keys and values of 64 elements, and one row of the buffers.
    assert plain.needs.host - quantized.needs.host >= 4096 * 2 * 64 * (2 - 34 / 32)


def test_kv_is_quantized_before_the_context_is_shortened(
    config: Config, large: StoredModel
) -> None:
    prepare = ModelLoadPlanner(config, no_draft)
    f16, q8_0 = (
        prepare(
            large,
            LoadOptions(context=4096, kv_type=kv_type),
            available=MemoryNeeds(GIB),
        ).needs
        for kv_type in (KVType.F16, KVType.Q8_0)
    )
    plenty = prepare(large, LoadOptions(), available=MemoryNeeds(GIB))
    assert (plenty.spec.kv_type, plenty.spec.context, plenty.longest_context) == (
        KVType.F16,
        4096,
        4096,
    )
    requested = LoadOptions(context=4096)
    assert prepare(large, requested, available=f16).spec.kv_type is KVType.F16
    for between in (q8_0, MemoryNeeds(f16.host - 1)):
        plan = prepare(large, requested, available=between)
        assert (plan.spec.kv_type, plan.needs) == (KVType.Q8_0, q8_0)
        # By default half of the memory stays free, and a prompt can have all of it.
        automatic = prepare(large, LoadOptions(), available=between)
        assert automatic.spec.context < automatic.longest_context == 4096
    # Without flash attention it cannot be.
    plain = ModelLoadPlanner(replace(config, flash_attention="off"), no_draft)
    assert plain(large, requested, available=q8_0).spec.kv_type is KVType.F16


def test_heads_that_do_not_fill_blocks_are_not_quantized(
    config: Config, small: StoredModel
) -> None:
    prepare = ModelLoadPlanner(config, no_draft)
    plan = prepare(small, LoadOptions(), available=MemoryNeeds(60 * 2**20))
    assert plan.spec.kv_type is KVType.F16


def test_kv_type_unsupported_by_the_head_size_is_refused(
    config: Config, small: StoredModel
) -> None:
    prepare = ModelLoadPlanner(config, no_draft)
    with pytest.raises(UnsupportedModel, match="heads of 16 elements"):
        prepare(small, LoadOptions(kv_type=KVType.Q4_0), available=MemoryNeeds(GIB))


def test_model_folder_uses_the_own_engine(config: Config, make_folder: Callable[..., Path]) -> None:
    model = describe_folder(read_folder(make_folder()))
    prepare = ModelLoadPlanner(config, no_draft)
    plain = prepare(model, LoadOptions(), available=MemoryNeeds(8 * GIB))
    assert plain.spec.engine == "cuda"
    assert (plain.spec.context, plain.spec.quantize) == (2048, "none")
    assert plain.spec.kv_store is not None
    assert plain.spec.kv_store.model == model.sha256
    longer = prepare(model, LoadOptions(context=1024), available=MemoryNeeds(8 * GIB))
    assert longer.needs.host < plain.needs.host
    requested = prepare(model, LoadOptions(quantize="nf4"), available=MemoryNeeds(8 * GIB))
    from_config = ModelLoadPlanner(replace(config, quantize="nf4"), no_draft)
    assert requested.spec == from_config(model, LoadOptions(), available=MemoryNeeds(8 * GIB)).spec
    assert requested.spec.quantize == "nf4"


def test_llama_cpp_does_not_quantize_on_load(config: Config, small: StoredModel) -> None:
    with pytest.raises(UnsupportedModel, match=r"run by llama\.cpp"):
        ModelLoadPlanner(config, no_draft)(
            small, LoadOptions(quantize="nf4"), available=MemoryNeeds(GIB)
        )
    prepare = ModelLoadPlanner(replace(config, quantize="nf4"), no_draft)
    assert prepare(small, LoadOptions(), available=MemoryNeeds(GIB)).spec.quantize == "none"


@pytest.mark.parametrize(("memory", "batch"), [(24 * GIB, 512), (80 * GIB, 2048)])
def test_batch_size_depends_on_gpu_memory(
    tmp_path: Path, config: Config, memory: int, batch: int
) -> None:
    gpu = CudaAvailability(has_torch=True, gpu_memory=memory, capability=(9, 0))
    facts = EngineFacts(own=gpu, gpu_name="H200")
    model = stored(write_model(tmp_path / "model.gguf", 128))
    prepare = ModelLoadPlanner(config, lambda _: model, lambda: facts)
    available = MemoryNeeds(8 * GIB, memory)
    ready = prepare(model, LoadOptions(), available=available)
    spec = ready.spec
    assert (spec.engine, spec.batch, spec.gpu_layers) == ("cuda", batch, -1)
    assert spec.may_fall_back
    assert spec.kernel_cache == str(config.paths.kernels)
    assert 0 < ready.needs.gpu < 3 * GIB
    assert ready.reason.startswith("All 1 layers on the H200: ")
    requested = prepare(model, LoadOptions(engine="cuda"), available=available).spec
    assert not requested.may_fall_back
    other = prepare(model, LoadOptions(engine="llama.cpp"), available=available)
    assert (other.spec.engine, other.spec.batch) == ("llama.cpp", 512)
    assert (other.spec.gpu_layers, other.needs.gpu) == (0, 0)
    assert "built without support for the GPU" in other.reason
    full = prepare(model, LoadOptions(), available=MemoryNeeds(8 * GIB, GIB // 2))
    assert (full.spec.engine, full.needs.gpu) == ("llama.cpp", 0)
    assert "too little memory" in full.reason


def test_unlike_gpus_have_layers_in_proportion_to_their_memory(
    tmp_path: Path, config: Config
) -> None:
    model = stored(write_model(tmp_path / "model.gguf", 128, layers=12))

    def stages(
        memories: tuple[int, ...], shares: tuple[float, ...] = (), engine: str | None = None
    ) -> tuple[int, ...]:
        gpu = CudaAvailability(True, memories[0], (9, 0), memories)
        facts = EngineFacts(own=gpu, gpu_name="RTX")
        settings = replace(config, tensor_parallel=2, tensor_split=shares)
        prepare = ModelLoadPlanner(settings, no_draft, lambda: facts)
        available = MemoryNeeds(8 * GIB, memories[0], memories[1:])
        return prepare(model, LoadOptions(engine=engine), available=available).spec.stages

    assert stages((24 * GIB, 24 * GIB)) == stages((24 * GIB,)) == ()
    assert stages((24 * GIB, 12 * GIB)) == (8, 4)
    assert stages((12 * GIB, 24 * GIB)) == (4, 8)
    assert stages((24 * GIB, 24 * GIB), (1, 3)) == (3, 9)
    assert stages((24 * GIB, 12 * GIB), engine="llama.cpp") == ()
    with pytest.raises(UnsupportedModel, match="among 2 GPUs, and ingle sees 1"):
        stages((24 * GIB,), engine="cuda")
    with pytest.raises(UnsupportedModel, match="has 3 shares, and tensor_parallel is 2"):
        stages((24 * GIB, 24 * GIB), (1, 1, 1))


def test_layers_are_divided_by_free_memory_where_equal_parts_do_not_fit(
    tmp_path: Path, config: Config
) -> None:
    model = stored(write_model(tmp_path / "model.gguf", 4096, layers=32))
    gpu = CudaAvailability(True, 24 * GIB, (9, 0), (24 * GIB, 24 * GIB))
    facts = EngineFacts(own=gpu, gpu_name="RTX")
    prepare = ModelLoadPlanner(replace(config, tensor_parallel=2), no_draft, lambda: facts)

    def plan(*free: int, engine: str | None = None) -> LoadPlan:
        available = MemoryNeeds(8 * GIB, free[0], free[1:])
        options = LoadOptions(context=4096, engine=engine)
        return prepare(model, options, available=available)

    equal = plan(24 * GIB, 24 * GIB)
    parts = equal.needs.gpus
    assert equal.spec.stages == ()
    assert len(parts) == 2
    assert "Parts of all 32 layers on 2 GPUs: takes " in equal.reason
    unlike = plan(24 * GIB, parts[1] - GIB // 4)
    first, second = unlike.spec.stages
    assert first > second > 0
    assert first + second == 32
    assert unlike.needs.gpus[1] <= parts[1] - GIB // 4
    assert f"{first} + {second} layers on 2 GPUs: takes " in unlike.reason
    assert plan(parts[0] - GIB // 4, 24 * GIB).spec.stages[0] < 16
    assert plan(24 * GIB, 0).spec.engine == "llama.cpp"
    assert not plan(24 * GIB, 0, engine="cuda").needs.fits_in(MemoryNeeds(8 * GIB, 24 * GIB, (0,)))


def test_requested_context_shrinks_only_if_allowed(config: Config, small: StoredModel) -> None:
    prepare = ModelLoadPlanner(config, no_draft)
    needed = prepare(small, LoadOptions(context=1024), available=MemoryNeeds(GIB)).needs
    free = needed + MemoryNeeds(1)
    requested = prepare(small, LoadOptions(context=4096), available=free)
    assert requested.spec.context == 4096
    assert not requested.needs.fits_in(free)
    allowed = ModelLoadPlanner(replace(config, shrink_context=True), no_draft)
    less = allowed(small, LoadOptions(context=4096), available=free)
    assert less.spec.context == 1024
    assert "context 1,024 instead of 4,096" in less.reason
    assert less.needs.fits_in(free)


def test_gpu_with_unified_memory_gets_all_layers(config: Config, small: StoredModel) -> None:
    ready = ModelLoadPlanner(config, no_draft, lambda: APPLE)(
        small, LoadOptions(), available=MemoryNeeds(8 * GIB)
    )
    assert (ready.spec.gpu_layers, ready.needs.gpu) == (-1, 0)
    assert ready.reason.startswith("All 1 layers on the Apple M3: ")
    radeon = EngineFacts(
        own=CudaAvailability(), gpu_name="Radeon", knows_free_memory=False, llama_offloads=True
    )
    on_radeon = ModelLoadPlanner(config, no_draft, lambda: radeon)(
        small, LoadOptions(), available=MemoryNeeds(8 * GIB)
    )
    assert (on_radeon.spec.gpu_layers, on_radeon.needs.gpu) == (-1, 0)
    assert "the Radeon does not report" in on_radeon.reason


def test_context_is_limited_by_max_context(config: Config, small: StoredModel) -> None:
    prepare = ModelLoadPlanner(replace(config, max_context=1000, context=2000), lambda _: small)
    for options in (LoadOptions(), LoadOptions(context=4096)):
        assert prepare(small, options, available=MemoryNeeds(GIB)).spec.context == 1000
    assert prepare(small, LoadOptions(context=500), available=MemoryNeeds(GIB)).spec.context == 500
