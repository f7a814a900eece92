"""What services are given of the machine and of the models on it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from ingle.backends.registry.cuda_availability import CudaAvailability
from ingle.backends.selection.engine_facts import EngineFacts
from ingle.daemon.load_planning.load_planner import ModelLoadPlanner
from ingle.daemon.server.service_factory import find_seeing
from ingle.daemon.settings.config import Config
from ingle.daemon.settings.paths import find_paths
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.store.model_store import ModelStore

pytestmark = pytest.mark.quick


@dataclass
class Store:
    models: list[StoredModel]

    def list(self) -> list[StoredModel]:
        return self.models


def seeing(path: Path, size: int) -> StoredModel:
    return StoredModel(
        name=path.name,
        path=path,
        size=size,
        sha256=None,
        description="",
        licence="",
        parameters=1,
        quantization="F16",
        architecture="llama",
        context=4096,
        chat=True,
        sampling={},
        source="test",
        projector=path,
    )


@pytest.mark.parametrize(("has_torch", "found"), [(True, "folder"), (False, "file")])
def test_a_folder_is_suggested_only_where_it_can_be_loaded(
    tmp_path: Path, *, has_torch: bool, found: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    models = [seeing(tmp_path / "folder", 1), seeing(tmp_path / "file", 2)]
    config = Config(paths=find_paths({"INGLE_HOME": str(tmp_path)}))

    def planner() -> ModelLoadPlanner:
        facts = EngineFacts(own=CudaAvailability(has_torch))
        return ModelLoadPlanner(config, lambda name: models[0], lambda: facts)

    model = find_seeing(cast("ModelStore", Store(models)), planner())
    assert model is not None
    assert model.name == found
    if not has_torch:
        assert find_seeing(cast("ModelStore", Store(models[:1])), planner()) is None
