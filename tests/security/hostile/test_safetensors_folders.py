"""Safetensors folders with wrong headers, or with code."""

from __future__ import annotations

import asyncio
import json
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingle.backends.base.backend import stream_events
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.worker.supervisor.worker_process import WorkerProcess
from ingle.models.errors import ModelError, UnsupportedModel
from ingle.models.safetensors.model_folder import read_folder
from ingle.models.safetensors.safetensors_header import read_safetensors_header

MakeFolder = Callable[..., Path]

# Logs every audit event that would mean foreign code, into a file that was opened before.
AUDIT = """
import sys
report = open({report!r}, "w")
folder = {folder!r}

def hook(event, arguments):
    if event == "pickle.find_class":
        report.write(f"{{event}} {{arguments}}\\n")
    elif event in ("exec", "compile", "import", "marshal.loads"):
        if any(folder in str(argument) for argument in arguments):
            report.write(f"{{event}} {{arguments}}\\n")
    elif event in ("os.system", "os.exec", "socket.connect", "ctypes.cdata/buffer"):
        report.write(f"{{event}}\\n")
    elif event == "open" and str(arguments[0]).startswith(folder):
        report.write(f"opened {{arguments[0]}}\\n")
    report.flush()

sys.addaudithook(hook)
"""


class Malicious:
    """Exits the process when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("import os; os._exit(66)",))


@pytest.fixture
def folder_with_code(make_folder: MakeFolder) -> Path:
    """A valid model, beside all kinds of code that must not run."""
    folder = make_folder()
    code = "import os; os._exit(66)\n"
    for name in ("modeling_mine.py", "configuration_mine.py", "__init__.py", "sitecustomize.py"):
        (folder / name).write_text(code)
    for name in ("pytorch_model.bin", "optimizer.pt", "scheduler.pkl", "model.ckpt"):
        (folder / name).write_bytes(pickle.dumps(Malicious()))
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {"AutoModelForCausalLM": "modeling_mine.MineForCausalLM"}
    config["_attn_implementation_internal"] = "evil/repository"
    config["trust_remote_code"] = True
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.slow
def test_loading_a_folder_runs_none_of_its_code(
    folder_with_code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    site, report = tmp_path / "site", tmp_path / "report"
    site.mkdir()
    audit = AUDIT.format(report=str(report), folder=str(folder_with_code))
    (site / "sitecustomize.py").write_text(audit)
    monkeypatch.setenv("PYTHONPATH", str(site))
    spec = LoadSpec(engine="cuda", path=str(folder_with_code), context=64, slots=1, device="cpu")

    async def serve() -> int:
        worker = WorkerProcess(spec)
        try:
            await worker.start()
            request = GenerateRequest(id="r", prompt="a", max_tokens=2, ignore_eos=True)
            return len([event async for event in stream_events(worker, request)])
        finally:
            await worker.stop(grace=0)

    assert asyncio.run(serve()) > 1
    events = report.read_text().splitlines()
    opened = {Path(line.removeprefix("opened ")).name for line in events if "opened" in line}
    assert opened
    assert not any(name.endswith((".py", ".bin", ".pt", ".pkl", ".ckpt")) for name in opened)
    assert not [line for line in events if not line.startswith("opened ")]


def test_model_that_needs_its_own_code_is_refused(folder_with_code: Path) -> None:
    config = json.loads((folder_with_code / "config.json").read_text())
    config |= {"architectures": ["MineForCausalLM"], "model_type": "mine"}
    (folder_with_code / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnsupportedModel) as caught:
        read_folder(folder_with_code)
    assert caught.value.hint == "It brings code of its own, which ingle never runs."


@pytest.mark.parametrize("name", ["pytorch_model.bin", "x.pt", "x.pth", "model.ckpt", "x.pkl"])
def test_pickles_are_refused(make_folder: MakeFolder, name: str) -> None:
    folder = make_folder()
    for weights in folder.glob("*.safetensors"):
        weights.rename(folder / name)
    with pytest.raises(UnsupportedModel, match="pickle, which could run any code"):
        read_folder(folder)


numbers = st.one_of(st.integers(0, 64), st.sampled_from([2**31, 2**62, 2**64, -1, 1.5]))
entries = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "F16", "BF16", "I8", "U8", "F8_E4M3", "BOOL", "X", 7]),
        "shape": st.lists(st.one_of(st.integers(0, 4), numbers), max_size=3),
        "data_offsets": st.lists(numbers, min_size=1, max_size=3),
    }
)
headers = st.dictionaries(st.text(max_size=8), entries, max_size=3)


def with_valid_offsets(header: dict[str, Any]) -> dict[str, Any]:
    """The same header with offsets that match its types and shapes."""
    widths = {"F32": 4, "F16": 2, "BF16": 2, "I8": 1, "U8": 1, "F8_E4M3": 1, "BOOL": 1}
    at = 0
    for entry in header.values():
        size = widths.get(entry["dtype"], 1)
        for side in entry["shape"]:
            size *= int(side) if 0 <= side < 100 else 1
        entry["data_offsets"] = [at, at + size]
        at += size
    return header


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    header=st.one_of(headers, headers.map(with_valid_offsets)),
    spaces=st.integers(0, 9),
    extra=st.sampled_from([0, 0, 0, 1, -1]),
)
def test_header_reader_agrees_with_the_safetensors_library(
    tmp_path: Path, header: dict[str, Any], spaces: int, extra: int
) -> None:
    """Our reader may refuse more; what it accepts means the same to both."""
    raw = json.dumps(header).encode() + b" " * spaces
    ends = [entry["data_offsets"][-1] for entry in header.values()]
    end = max((int(end) for end in ends if 0 <= end < 10_000), default=0)
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + bytes(max(0, end + extra)))
    try:
        ours = {tensor.name: tensor for tensor in read_safetensors_header(path)}
    except ModelError:
        return
    opened: Any = safetensors.safe_open(path, "np")  # which has no type annotations
    with opened as theirs:
        assert set(theirs.keys()) == set(ours)
        for name, tensor in ours.items():
            slices = theirs.get_slice(name)
            assert tuple(slices.get_shape()) == tensor.shape
            assert slices.get_dtype() == tensor.dtype
