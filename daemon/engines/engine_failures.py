"""Which engines failed on which models: those start on another engine from then on."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from ingle.models.json_cache import read_json_cache, write_json_cache

_KERNELS = ", kernels "
_DRIVER = ", driver "


class EngineFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A failure of an engine on a model file; `setting` is the GPU, its driver and the kernels.

    `reason` is one sentence, `name` what commands call the model. `failed_at` is in seconds since
    1970. The last two are empty in records of older versions.
    """

    engine: str
    model: str
    setting: str
    reason: str
    name: str = ""
    failed_at: float = 0.0

    @property
    def gpu(self) -> str:
        """The GPU and its driver, for display."""
        return self.setting.partition(_KERNELS)[0].removeprefix(_DRIVER)


def gpu_setting() -> str:
    """Return what a failure depends on beside the model: another driver or kernels may work."""
    # Imported here: a daemon without a failure needs none of them.
    from ingle.backends.hardware.nvml import describe_nvidia_gpus
    from ingle.backends.registry.cuda_availability import first_visible
    from ingle.kernels.build.kernel_source import digest, kernel_sources

    gpu = first_visible(describe_nvidia_gpus(str), os.environ.get("CUDA_VISIBLE_DEVICES"))
    name, driver = ("", "") if gpu is None else (gpu.name, gpu.driver)
    return f"{name}{_DRIVER}{driver}{_KERNELS}{digest(*kernel_sources())}"


class EngineFailures:
    """The failures recorded in one file; blocking, safe in several threads."""

    def __init__(self, path: Path, setting: Callable[[], str] = gpu_setting) -> None:
        self._path = path
        self._setting = setting
        self._lock = threading.Lock()

    def add(self, engine: str, model: str, reason: str, name: str = "") -> None:
        """Record that the engine failed on the model in the present setting."""
        failure = EngineFailure(
            engine=engine,
            model=model,
            setting=self._setting(),
            reason=reason,
            name=name,
            failed_at=time.time(),
        )
        with self._lock:
            others = [each for each in self.all() if (each.engine, each.model) != (engine, model)]
            self._write([*others, failure])

    def all(self) -> list[EngineFailure]:
        """Return all failures, the last one at the end."""
        return read_json_cache(self._path, list[EngineFailure]) or []

    def find(self, engine: str, model: str) -> str | None:
        """Return the reason of a failure in the present setting; None if there was none."""
        failures = [each for each in self.all() if (each.engine, each.model) == (engine, model)]
        if not failures:
            return None  # the usual case asks no driver
        setting = self._setting()
        return next((each.reason for each in failures if each.setting == setting), None)

    def forget(self, model: str) -> None:
        """Forget the failures on a model, so that its next start tries all engines again."""
        self._keep(lambda each: each.model != model)

    def forget_engine(self, engine: str) -> None:
        """Forget the failures of an engine, so that models are tried on it again."""
        self._keep(lambda each: each.engine != engine)

    def _keep(self, wanted: Callable[[EngineFailure], bool]) -> None:
        with self._lock:
            failures = self.all()
            kept = list(filter(wanted, failures))
            if len(kept) < len(failures):
                self._write(kept)

    def _write(self, failures: list[EngineFailure]) -> None:
        write_json_cache(self._path, failures, folder_mode=0o700)
