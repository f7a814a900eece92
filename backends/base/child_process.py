"""Child processes of the daemon: environment, death with the parent, names of signals."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder

_PR_SET_PDEATHSIG = 1

# A child process sees nothing else of the daemon's environment: no keys, no tokens.
_INHERITED = frozenset(
    {
        "APPDATA",
        "DYLD_LIBRARY_PATH",
        "HOME",
        "INGLE_TEST_FAILPOINTS",
        "LANG",
        "LANGUAGE",
        "LD_LIBRARY_PATH",
        "LLAMA_CPP_LIB_PATH",
        "LOCALAPPDATA",
        "PATH",
        "PYTHONHOME",
        "PYTHONPATH",
        "PYTHONWARNINGS",
        "SYSTEMROOT",
        "TEMP",
        "TMP",
        "TMPDIR",
        "TZ",
        "USER",
        "USERPROFILE",
        "VIRTUAL_ENV",
        "WINDIR",
    }
)
_INHERITED_PREFIXES = (
    *("LC_", "OMP_", "GOMP_", "KMP_", "GGML_"),
    *("CUDA_", "NVIDIA_", "HIP_", "HSA_", "ROCR_", "VK_"),
)

_DEFAULTS = {
    # Otherwise an abort inside ggml starts a debugger where one is installed.
    "GGML_NO_BACKTRACE": "1",
    # Idle OpenMP threads spin for long: two decoding workers would slow each other tenfold.
    "GOMP_SPINCOUNT": "1000",
    # The driver's order, in which memory is read. CUDA's default order is fastest first, so that a
    # number in CUDA_VISIBLE_DEVICES could mean another GPU.
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
}


def child_environment(
    environ: Mapping[str, str], import_path: Sequence[str] = ()
) -> dict[str, str]:
    """Return the variables that a child process may see, with defaults for some.

    The child finds modules in the folders of `import_path` first.
    """
    inherited = {
        name: value
        for name, value in environ.items()
        if name in _INHERITED or name.startswith(_INHERITED_PREFIXES)
    }
    if import_path:
        searched = [*import_path, inherited.get("PYTHONPATH", "")]
        inherited["PYTHONPATH"] = os.pathsep.join(filter(None, searched))
    return _DEFAULTS | inherited


def find_module(name: str, import_path: Sequence[str] = ()) -> ModuleSpec | None:
    """Return the spec of a module that a child with this `import_path` would import, or None."""
    return PathFinder.find_spec(name, [*import_path, *sys.path])


def die_with_parent(parent: int) -> None:
    """Have Linux send SIGKILL when the parent dies: a busy child may not notice a closed stdin."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)  # it died before the call


def signal_name(number: int) -> str:
    """Return the signal's name, such as SIGKILL."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
