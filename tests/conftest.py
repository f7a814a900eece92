"""Fixtures for all tests: a clean environment, model files, and small generated models."""

from __future__ import annotations

import compileall
import gc
import json
import os
import re
import signal
import ssl
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import platformdirs
import psutil
import pytest
from hypothesis import settings

from ingle.backends.hardware.llama_cpp_library import library_folder
from ingle.backends.packages.engine_installer import build_cache, install_engine
from ingle.backends.packages.engine_packages import all_engine_packages
from ingle.backends.packages.engine_store import EngineStore
from ingle.backends.packages.package_source import PackageSource
from ingle.models.catalog import Catalog
from ingle.models.errors import SourceUnavailable
from ingle.models.file_lock import FileLock
from ingle.models.fit.catalog_shape import CatalogShape
from ingle.models.fit.model_shape import ModelShape
from ingle.models.store.model_store import ModelStore
from tests.harness.shared_scanner import SharedScanners
from tests.harness.synced_renames import SyncedRenames

# Read before any fixture empties the environment.
_MODELS = os.environ.get("INGLE_TEST_MODELS")
_LONGEST = (
    *("test_batch_sampler.py", "test_kernel_backend.py", "test_end_to_end.py"),
    "test_hostile_attempts.py",
)
_IN_CI = bool(os.environ.get("CI"))

# The processes of a run have the cores in common: threads of small products would wait for one
# another for longer than they compute. Workers of pytest read these when they start.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

Unavailable = Callable[[str], None]
MakeBert = Callable[..., Path]
MakeFolder = Callable[..., Path]
FetchModel = Callable[[str], Path]
WriteSmallLlama = Callable[..., Path]
StillRunning = Callable[[Iterable[psutil.Process]], list[psutil.Process]]


class _WellKnown(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    context: int
    shape: CatalogShape


def _provide_llama_cpp() -> None:
    """Have llama.cpp's library built once for all checkouts, unless this environment has it."""
    if library_folder() is not None:
        return
    packages = all_engine_packages()["llama.cpp"]
    built = build_cache(packages)
    assert built is not None
    if not built.exists():
        print("Building llama.cpp, once for this machine. This takes minutes.", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            install_engine(packages, EngineStore(Path(folder)), PackageSource())
    os.environ["LLAMA_CPP_LIB_PATH"] = str(built / "llama_cpp/lib")


_provide_llama_cpp()  # before other conftest files import it


def pytest_configure(config: pytest.Config) -> None:
    """Compile bytecode once, since daemons and chats then start four times as fast."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    if not hasattr(config, "workerinput"):
        for folder in ("backends", "daemon", "kernels", "models", "tui"):
            compileall.compile_dir(config.rootpath / folder, quiet=1)
    settings.register_profile("default", deadline=None, database=None)
    settings.register_profile("fast", settings.get_profile("default"), max_examples=30)
    settings.load_profile("default" if config.option.markexpr == "slow" else "fast")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore files without tests of the selected marks: importing some takes seconds."""
    if not collection_path.name.startswith("test_"):
        return None
    text = collection_path.read_text()
    if config.option.markexpr == "quick" and "pytest.mark.quick" not in text:
        return True
    without_slow = config.option.markexpr.startswith("not slow")
    return True if without_slow and re.search(r"^pytestmark = .*mark\.slow", text, re.M) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the slowest files first, so that no xdist worker finishes long before the others."""
    items.sort(key=lambda item: item.path.name not in _LONGEST)


def pytest_collection_finish() -> None:
    """Leave what is collected to no garbage collection, which took a third of the chat's tests."""
    gc.freeze()
    gc.set_threshold(5000)


@pytest.fixture
def tries(record_property: Callable[[str, object], None]) -> Callable[[int], None]:
    """Notes how many attacks a test has made, for `scripts/attack`."""
    return partial(record_property, "tries")


@pytest.fixture(scope="session")
def shared_scanners() -> Iterator[SharedScanners]:
    """The scan processes of this pytest process."""
    scanners = SharedScanners()
    yield scanners
    scanners.close()


@pytest.fixture(autouse=True)
def scanner(shared_scanners: SharedScanners) -> Iterator[None]:
    """Scans are done by processes that all tests share."""
    with shared_scanners.shared():
        yield


@pytest.fixture(autouse=True)
def ingle_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty INGLE_HOME for every test, without the developer's own settings."""
    for name in list(os.environ):
        if name.startswith("INGLE_"):
            monkeypatch.delenv(name)
    home = tmp_path / "h"
    monkeypatch.setenv("INGLE_HOME", str(home))
    monkeypatch.setenv("INGLE_IMPORT_MODELS", "false")  # nor models of other programs
    return home


@pytest.fixture
def synced_renames() -> Iterator[None]:
    """Fails a test that renames a file without syncing it before and its folder after."""
    with pytest.MonkeyPatch.context() as patch:
        renames = SyncedRenames(patch)
        yield
    if sys.platform != "win32":  # which cannot sync a folder
        assert (renames.empty, list(renames.undone.values())) == ([], [])


@pytest.fixture(scope="session")
def machines() -> dict[str, bytes]:
    """Hand-written descriptions of machines, by name."""
    folder = Path(__file__).parent / "machines"
    return {path.stem: path.read_bytes() for path in sorted(folder.glob("*.toml"))}


@pytest.fixture(scope="session")
def well_known_shapes() -> dict[str, ModelShape]:
    """Shapes of large models from their public configurations, by name."""
    text = (Path(__file__).parent / "well_known_shapes.toml").read_bytes()
    entries = msgspec.toml.decode(text, type=dict[str, _WellKnown])
    return {name: entry.shape.shape(context=entry.context) for name, entry in entries.items()}


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Let tests send Ctrl-C to children, even if the run itself was started to ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def one_ssl_context() -> Iterator[None]:
    """One default TLS context for all httpx clients, since reading the authorities takes 40 ms."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("httpx._transports.default.create_ssl_context", _ssl_context)
        yield


def _ssl_context(
    verify: ssl.SSLContext | str | bool = True, cert: Any = None, trust_env: bool = True
) -> ssl.SSLContext:
    if verify is not True or cert is not None or not trust_env:
        return httpx.create_ssl_context(verify, cert, trust_env)
    return _default_ssl_context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@cache
def _default_ssl_context(*_places: str | None) -> ssl.SSLContext:
    return httpx.create_ssl_context()


@pytest.fixture(scope="session")
def still_running() -> StillRunning:
    """The given processes that have not ended after a minute.

    In a container whose init does not reap orphans, an ended process stays a zombie.
    """

    def wait(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
        end = time.monotonic() + 60
        left = list(processes)
        while (left := [one for one in left if _runs(one)]) and time.monotonic() < end:
            time.sleep(0.02)
        return left

    return wait


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(scope="session")
def unavailable() -> Unavailable:
    """Called if an external resource is unavailable: skips the test, but fails in CI."""

    def end(reason: str) -> None:
        if _IN_CI:
            pytest.fail(reason)
        pytest.skip(reason)

    return end


@pytest.fixture(scope="session")
def model_cache() -> Path:
    """A folder that outlives the test run, for what is slow to download or to generate."""
    return Path(_MODELS) if _MODELS else platformdirs.user_cache_path("ingle") / "test-models"


@pytest.fixture(scope="session")
def fetch_model(model_cache: Path, unavailable: Unavailable) -> FetchModel:
    """Downloads a real model of the catalog once into the cache."""

    def fetch(name: str) -> Path:
        try:
            return ModelStore(model_cache, Catalog.load()).pull(name).path
        except SourceUnavailable as error:
            unavailable(error.message)
            raise

    return fetch


@pytest.fixture(scope="session")
def smollm2_path(fetch_model: FetchModel) -> Path:
    """The real SmolLM2 file."""
    return fetch_model("smollm2")


@pytest.fixture(scope="session")
def smollm2_folder(smollm2_path: Path, model_cache: Path) -> Path:
    """SmolLM2 as a folder of safetensors in BF16: the same weights, dequantized once, and cached.

    No package index has a whole language model in this form.
    """
    folder = model_cache / "smollm2-135m-bf16-1"
    with FileLock(model_cache / ".locks" / f"{folder.name}.lock") as lock:
        while not lock.try_acquire():
            time.sleep(0.1)
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=model_cache) as scratch:
                made = Path(scratch) / folder.name
                made.mkdir()
                _write_folder(smollm2_path, made)
                made.rename(folder)
    return folder


_LLAMA_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def _write_folder(path: Path, folder: Path) -> None:
    """Write a GGUF Llama as transformers would save it."""
    import torch
    from safetensors.torch import save_file  # pyright: ignore[reportUnknownVariableType]
    from tokenizers import pre_tokenizers

    from ingle.models.families.gguf_config import config_from_gguf
    from ingle.models.weights.converted_weights import DequantizedWeights
    from ingle.models.weights.gguf_tensor_names import GGUFTensorNames
    from ingle.models.weights.gguf_weights import GGUFWeights

    transformers: Any = import_module("transformers")
    file = GGUFWeights(path)
    weights = DequantizedWeights(
        GGUFTensorNames(file, config_from_gguf(file.header)), torch.bfloat16
    )
    tensors: dict[str, torch.Tensor] = {}
    for name in weights.names:
        *block, part, kind = name.split(".")
        layer = f"model.layers.{block[1]}." if block else ""
        tensors[f"{layer}{_LLAMA_NAMES[part]}.{kind}"] = weights.get(name).bfloat16().contiguous()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = transformers.AutoConfig.from_pretrained(path.parent, gguf_file=path.name)
    config.architectures = ["LlamaForCausalLM"]
    config.save_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    # A GGUF file only names its pre-tokenizer; this is the one of the model's repository.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.save_pretrained(folder)


@pytest.fixture(scope="session")
def gemma3_path(fetch_model: FetchModel) -> Path:
    """A real model with a sliding window, and heads of 256 elements."""
    return fetch_model("gemma3")


@pytest.fixture(scope="session")
def minilm_path(fetch_model: FetchModel) -> Path:
    """The real all-MiniLM file, a small encoder."""
    return fetch_model("all-minilm")


@pytest.fixture(scope="session")
def nomic_path(fetch_model: FetchModel) -> Path:
    """The real nomic-embed-text file, a large one."""
    return fetch_model("nomic-embed-text")


@pytest.fixture
def make_bert(tmp_path: Path) -> MakeBert:
    """Writes the smallest BERT that llama.cpp loads: random weights, a few words, 64 tokens.

    With `ranks` it has a classification head, which scores a pair of texts.
    """

    def make(name: str = "bert.gguf", *, ranks: bool = False, pooling: int = 1) -> Path:
        path = tmp_path / name
        _write_bert(path, 4 if ranks else pooling, ranks=ranks)
        return path

    return make


@pytest.fixture
def make_folder(tmp_path: Path) -> MakeFolder:
    """Writes a small Llama as a folder of safetensors: random weights in BF16, bytes as tokens.

    Its tensors are in two files; `settings` go into `config.json`.
    """

    def make(name: str = "llama", *, seed: int = 0, **settings: object) -> Path:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        _write_random_folder(folder, seed, settings)
        return folder

    return make


_FOLDER_CONFIG: dict[str, object] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 258,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": True,
}


def _write_random_folder(folder: Path, seed: int, settings: dict[str, object]) -> None:
    import torch
    from safetensors.torch import save_file  # pyright: ignore[reportUnknownVariableType]

    config = {**_FOLDER_CONFIG, **settings}
    random = torch.Generator().manual_seed(seed)
    files: dict[str, str] = {}
    for number, shapes in enumerate(_llama_shapes(config), 1):
        tensors = {
            f"model.{name}.weight": (0.1 * torch.randn(shape, generator=random)).bfloat16()
            for name, shape in shapes.items()
        }
        file = f"model-{number:05}-of-00002.safetensors"
        save_file(tensors, folder / file, metadata={"format": "pt"})
        files |= dict.fromkeys(tensors, file)
    index = {"metadata": {}, "weight_map": files}  # transformers fails without the first
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text(json.dumps(config))
    _write_byte_tokenizer(folder)


def _llama_shapes(config: dict[str, Any]) -> tuple[dict[str, tuple[int, ...]], ...]:
    """The shapes of the embeddings and final norm, and of the layers."""
    width, wider = config["hidden_size"], config["intermediate_size"]
    narrow = width * config["num_key_value_heads"] // config["num_attention_heads"]
    layer: dict[str, tuple[int, ...]] = {
        **{f"self_attn.{name}_proj": (width, width) for name in "qo"},
        **{f"self_attn.{name}_proj": (narrow, width) for name in "kv"},
        **{f"mlp.{name}_proj": (wider, width) for name in ("gate", "up")},
        "mlp.down_proj": (width, wider),
        **dict.fromkeys(("input_layernorm", "post_attention_layernorm"), (width,)),
    }
    layers = {
        f"layers.{number}.{name}": shape
        for number in range(config["num_hidden_layers"])
        for name, shape in layer.items()
    }
    return {"embed_tokens": (config["vocab_size"], width), "norm": (width,)}, layers


def _write_byte_tokenizer(folder: Path) -> None:
    tokenizers: Any = import_module("tokenizers")
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    model = tokenizers.models.BPE({letter: token for token, letter in enumerate(letters)}, [])
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"eos_token": "<|im_end|>", "bos_token": None}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


_WIDTH, _WIDER, _CONTEXT = 32, 64, 64
_WORDS = ["cat", "kitten", "dog", "physics", "sea", "a", "b", "c"]
_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"\u2581{word}" for word in _WORDS)]


def _write_bert(path: Path, pooling: int, *, ranks: bool) -> None:
    import gguf

    writer: Any = gguf.GGUFWriter(path, "bert")
    writer.add_block_count(1)
    writer.add_context_length(_CONTEXT)
    writer.add_embedding_length(_WIDTH)
    writer.add_feed_forward_length(_WIDER)
    writer.add_head_count(2)
    writer.add_layer_norm_eps(1e-5)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType(pooling))
    writer.add_token_type_count(2)
    writer.add_tokenizer_model("bert")
    writer.add_token_list(_TOKENS)
    writer.add_token_types([3 if token.startswith("[") else 1 for token in _TOKENS])
    writer.add_bos_token_id(2)
    writer.add_eos_token_id(3)
    writer.add_sep_token_id(3)
    writer.add_unk_token_id(1)
    random = np.random.default_rng(7)
    for name, shape in _bert_tensors(ranks=ranks).items():
        writer.add_tensor(name, random.normal(0, 0.3, shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _bert_tensors(*, ranks: bool) -> dict[str, tuple[int, ...]]:
    linear = {
        **{f"blk.0.attn_{name}": (_WIDTH, _WIDTH) for name in ("q", "k", "v", "output")},
        "blk.0.ffn_up": (_WIDER, _WIDTH),
        "blk.0.ffn_down": (_WIDTH, _WIDER),
        **({"cls": (_WIDTH, _WIDTH), "cls.output": (1, _WIDTH)} if ranks else {}),
    }
    norms = ("token_embd_norm", "blk.0.attn_output_norm", "blk.0.layer_output_norm")
    return {
        "token_embd.weight": (len(_TOKENS), _WIDTH),
        "position_embd.weight": (_CONTEXT, _WIDTH),
        "token_types.weight": (2, _WIDTH),
        **{f"{name}.{part}": (_WIDTH,) for name in norms for part in ("weight", "bias")},
        **{f"{name}.weight": shape for name, shape in linear.items()},
        **{f"{name}.bias": shape[:1] for name, shape in linear.items()},
    }


@pytest.fixture(scope="session")
def write_small_llama() -> WriteSmallLlama:
    """Writes a Llama of random weights, whose vocabulary is bytes and letters.

    `kind` is the type of its matrices, `seed` determines the weights, `change` may alter a tensor
    before it is written, and `context` is the trained context; its feed-forward width is one and a
    half times the embedding width.
    """
    from gpu.small_llama import write_small_llama

    return write_small_llama
