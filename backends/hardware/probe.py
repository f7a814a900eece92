"""Runs the native probe in a child process, and caches its result until an installation changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path

import msgspec

from ingle.models.json_cache import read_json_cache, write_json_cache

from ..base.child_process import child_environment
from .machine import Cpu, LlamaBuild

_CHILD = (sys.executable, "-P", "-m", "ingle.backends.hardware.probe_child")
_PATIENCE = 30.0
"""Seconds; a CUDA build may load a gigabyte of libraries from a slow disk."""
_SHOWN_ERROR = 300
_VERSION = 2
_BUSY_PERCENT = 25.0
_BUSY_SECONDS = 0.1


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """How llama.cpp was built, and measured memory bandwidth in bytes per second (0: unknown).

    `busy` says that other programs computed meanwhile, so that the bandwidth is too low.
    """

    llama_cpp: LlamaBuild | None = None
    bandwidth: float = 0.0
    busy: bool = False


class _Kept(msgspec.Struct, frozen=True):
    stamp: str
    probe: Probe


def probe_machine(
    cpu: Cpu, keep: Path | None = None, *, anew: bool = False, import_path: Sequence[str] = ()
) -> Probe:
    """Return the result cached in the file `keep`, unless a build or the processor has changed.

    A result from a busy machine is replaced once the machine is not busy. llama.cpp is looked for
    in the folders of `import_path` first.
    """
    stamp = _stamp(cpu, import_path)
    kept = None if keep is None or anew else read_json_cache(keep, _Kept)
    if kept is not None and kept.stamp == stamp and (not kept.probe.busy or is_busy()):
        return kept.probe
    probe = _run(cpu, import_path)
    if keep is not None and probe.bandwidth:
        write_json_cache(keep, _Kept(stamp, probe), folder_mode=0o700)
    return probe


def is_busy() -> bool:
    """Return whether programs use more than a quarter of the processor; takes 0.1 s."""
    import psutil  # takes milliseconds of the daemon's start

    return psutil.cpu_percent(_BUSY_SECONDS) > _BUSY_PERCENT


def _run(cpu: Cpu, import_path: Sequence[str]) -> Probe:
    try:
        done = subprocess.run(
            [*_CHILD, str(cpu.compute_threads)],
            capture_output=True,
            timeout=_PATIENCE,
            cwd=os.sep,
            env=child_environment(os.environ, import_path),
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return _failed(f"The probe could not be run: {error}.", import_path)
    if done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        how = f"Loading it ended with status {done.returncode}: {' '.join(last)}"
        return _failed(how, import_path)
    return msgspec.json.decode(done.stdout, type=Probe)


def _failed(error: str, import_path: Sequence[str]) -> Probe:
    found = _llama_distribution(import_path)
    if found is None:
        return Probe()
    return Probe(llama_cpp=LlamaBuild(version=found.version, error=error[:_SHOWN_ERROR]))


def _stamp(cpu: Cpu, import_path: Sequence[str]) -> str:
    """Return a key that changes with each installation of llama-cpp-python and with the
    processor.
    """
    found = _llama_distribution(import_path)
    parts: list[object] = [_VERSION, cpu.model, cpu.compute_threads, sys.executable]
    if found is not None:
        record = Path(str(found.locate_file(f"llama_cpp_python-{found.version}.dist-info/RECORD")))
        try:
            status = record.stat()
            parts += [found.version, status.st_mtime_ns, status.st_size]
        except OSError:
            parts.append(found.version)
    return json.dumps(parts)


def _llama_distribution(import_path: Sequence[str]) -> Distribution | None:
    return next(iter(distributions(name="llama-cpp-python", path=[*import_path, *sys.path])), None)
