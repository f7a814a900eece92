"""A whole engine in one file: what `docs/extending.md` says about a new one is enough."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ingle.backends.base.backend import stream_events
from ingle.backends.base.errors import LoadFailed, RequestRejected
from ingle.backends.base.events import Delta, Finished, FinishReason
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.model_info import ModelInfo
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.batch import Batch, Sampled
from ingle.backends.engine.kv.cell_cache import CellCache
from ingle.backends.engine.kv_store.kv_store import KVStore
from ingle.backends.engine.sequence import Sequence
from ingle.backends.registry import engines
from ingle.backends.registry.cuda_availability import CudaAvailability
from ingle.backends.registry.engine_descriptor import EngineDescriptor, LoadQuery, Progress
from ingle.backends.registry.model_costs import ModelCosts
from ingle.backends.selection.engine_choice import choose_engine
from ingle.backends.selection.load_spec_builder import complete_spec, describe
from ingle.backends.selection.model_placement import MemoryBudget, PlacementRequest, select
from ingle.backends.testing.byte_tokenizer import EOS, ByteTokenizer
from ingle.backends.worker.worker_access import worker_access
from ingle.daemon.cli.models import load
from ingle.daemon.settings.setting_parsers import PARSERS, InvalidSetting
from tests.harness.local_backend import LocalBackend

MACHINE = CudaAvailability()


class ToyRunner:
    """Answers with the prompt in capitals; it has no weights, and so no KV cache."""

    can_fork = True
    can_run_ahead = False
    max_drafts = 0
    state_key = "toy"

    pictures = None

    def __init__(self, spec: LoadSpec) -> None:
        self.tokenizer = ByteTokenizer()
        self.context = self.kv_capacity = spec.context
        self.slots = spec.slots
        self.cache_slots = spec.slots + 1
        self.max_batch_tokens = spec.batch
        self._batch = Batch()

    def adapter_number(self, folder: Path) -> int:
        raise RequestRejected(f"{folder} is an adapter, and there are none here.")

    def drop_adapter(self, folder: Path) -> None:
        """No adapter is ever loaded."""

    def open_cache(self, store: KVStore | None = None) -> CellCache:
        return CellCache(self, store)

    def launch(self, batch: Batch) -> None:
        self._batch = batch

    def collect(self) -> list[Sampled]:
        return [Sampled([_next(chunk.sequence)]) for chunk in self._batch.sampling]

    def can_follow(self, params: SamplingParams) -> bool:
        return False

    def is_eog(self, token_id: int) -> bool:
        return self.tokenizer.is_eog(token_id)

    def fork(self, source: int, target: int, length: int, checkpoint: bytes | None = None) -> None:
        """Nothing is kept for a slot."""

    def checkpoint(self, slot: int) -> bytes:
        return b""

    def trim(self, slot: int, length: int) -> None:
        """Nothing is kept for a slot."""

    def release(self, slot: int) -> None:
        """Nothing is kept for a slot."""

    def snapshot(self, slot: int, start: int, end: int) -> bytes:
        return b""

    def restore(self, slot: int, start: int, end: int, data: bytes | memoryview) -> bool:
        return False

    def prepare(self, params: SamplingParams) -> None:
        """Greedy only."""

    def prepare_step(self) -> bool:
        return False

    def forget(self, sequence: Sequence) -> None:
        """Greedy only."""

    def close(self) -> None:
        """Nothing to free."""

    def info(self) -> ModelInfo:
        return ModelInfo(
            engine="toy",
            device="CPU",
            architecture="toy",
            parameters=0,
            vocab_size=self.tokenizer.vocab_size,
            trained_context=self.context,
            context=self.context,
            slots=self.slots,
            kv_capacity=self.kv_capacity,
            has_chat_template=True,
        )


def _next(sequence: Sequence) -> int:
    prompt = bytes(t for t in sequence.token_ids[: sequence.prompt_length] if t < 256).upper()
    done = sequence.num_generated
    return prompt[done] if done < len(prompt) else EOS


class ToyEngine(EngineDescriptor):
    """All that an engine needs to say of itself."""

    name = "toy"
    label = "toy"
    title = "the toy engine"
    formats = frozenset({"gguf"})
    uses_gpu = False

    def why_unavailable(self, machine: CudaAvailability) -> LoadFailed | None:
        if machine.gpu_memory:
            return LoadFailed("The toy engine is afraid of GPUs.", hint="Take yours out.")
        return None

    def open_runner(self, spec: LoadSpec, on_progress: Progress) -> ToyRunner:
        on_progress(1.0)
        return ToyRunner(spec)


ENGINE = ToyEngine()


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(engines.ENGINES, "toy", __name__)


def test_choices_know_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert PARSERS["engine"]("toy", True) == "toy"
    with pytest.raises(InvalidSetting, match="toy"):
        PARSERS["engine"]("tay", True)
    with pytest.raises(SystemExit):
        load.main(["--help"])
    assert "auto,cuda,llama.cpp,toy" in capsys.readouterr().out


def test_a_request_body_may_name_it() -> None:
    """The type of the field is made when the module is imported, so that a line before counts."""
    code = (
        "import msgspec, sys\n"
        "from ingle.backends.registry import engines\n"
        f"engines.ENGINES['toy'] = {__name__!r}\n"
        "from ingle.daemon.protocols.native.types import LoadRequest\n"
        "print(msgspec.json.decode(sys.argv[1], type=LoadRequest).engine)\n"
    )
    command = [sys.executable, "-P", "-c", code, '{"model": "m", "engine": "toy"}']
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "toy\n"


def test_it_is_chosen_if_asked_for(smollm2_path: Path) -> None:
    model = describe(smollm2_path)
    assert choose_engine(LoadQuery(model), "toy", MACHINE) == "toy"
    assert choose_engine(LoadQuery(model), "auto", MACHINE) == "llama.cpp"
    assert ENGINE.why_not(LoadQuery(model)) == ""
    with pytest.raises(LoadFailed, match="afraid of GPUs"):
        choose_engine(LoadQuery(model), "toy", CudaAvailability(has_torch=True, gpu_memory=1))


def test_it_gets_a_place_and_a_specification(smollm2_path: Path) -> None:
    model = describe(smollm2_path)
    costs = ModelCosts.of(model)
    wanted = PlacementRequest(engine="toy", context=512, must=True)
    place = select(costs, MemoryBudget(host=2**40, gpu=2**40, gpu_name="GPU"), wanted)
    assert (place.engine, place.device, place.needs.host) == ("toy", "cpu", costs.stored)
    assert place.reason.startswith("the toy engine on the CPU, since it does not use GPUs: ")
    asked = LoadSpec(engine="toy", path=str(model.path), context=place.context, slots=1)
    spec = complete_spec(asked, model)
    assert worker_access(spec).reads == (smollm2_path.resolve(),)
    assert not worker_access(spec).drives_gpu


async def test_it_loads_and_generates() -> None:
    backend = LocalBackend(LoadSpec(engine="toy", path="", context=128, slots=2))
    fractions: list[float] = []
    info = await backend.start(fractions.append)
    try:
        assert (info.engine, fractions) == ("toy", [1.0])
        request = GenerateRequest(id="r", prompt="hello there", max_tokens=50)
        events = [event async for event in stream_events(backend, request)]
    finally:
        await backend.stop()
    assert "".join(e.text for e in events if isinstance(e, Delta)) == "HELLO THERE"
    assert [e.reason for e in events if isinstance(e, Finished)] == [FinishReason.STOP]
