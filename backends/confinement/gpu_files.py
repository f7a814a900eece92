"""Devices, settings and caches that drivers of GPUs open.

Sources: libnvidia-container (what it mounts into a container: device nodes, libraries,
/proc/driver/nvidia); content/common/gpu_pre_sandbox_hook_linux.cc of Chromium (NVIDIA, Mesa:
/dev/dri, /dev/shm, /etc/drirc, /sys); the trace of `cuInit` in NVIDIA/cuda-checkpoint, issue 10;
ROCm's documentation of containers (/dev/kfd, /dev/dri); the Vulkan loader's search path. Not run
on a GPU: `ingle engine check` says whether a driver works under these rules.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path("/")
_DEVICES = (
    *("nvidiactl", "nvidia[0-9]*", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"),
    *("nvidia-caps", "nvidia-caps-imex-channels", "nvidia-nvswitch*", "nvidia-nvlink"),
    *("dri", "kfd", "dxg", "udmabuf", "nvmap", "nvhost-*", "nvgpu", "mali*", "dma_heap"),
    # Shared memory: CUDA keeps `cuda.shm.*` there for events between processes.
    "shm",
)
_SETTINGS = (
    *("etc/vulkan", "etc/OpenCL", "etc/nvidia", "etc/drirc", "etc/glvnd", "etc/libva.conf"),
    *("run/udev/data", "run/opengl-driver"),
)
# Read only. Compiled kernels are kept in ingle's own folder: see `redirect_caches`.
_OF_USER = (".config/vulkan", ".local/share/vulkan", ".drirc", ".config/drirc")

_CACHES = {
    "CUDA_CACHE_PATH": "cuda",
    "MESA_SHADER_CACHE_DIR": "mesa",
    "__GL_SHADER_DISK_CACHE_PATH": "gl",
}


@dataclass(frozen=True, slots=True)
class GPUFiles:
    """Files and folders that a driver reads, and those that it writes too."""

    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()


def gpu_files(root: Path = _ROOT, home: Path | None = None) -> GPUFiles:
    """Return what exists of the devices below `root`, and the settings of the system and user."""
    devices = (path for name in _DEVICES for path in sorted((root / "dev").glob(name)))
    own = home or Path.home()
    settings = (*(root / name for name in _SETTINGS), *(own / name for name in _OF_USER))
    return GPUFiles(settings, tuple(devices))


def redirect_caches(folder: Path) -> None:
    """Have drivers keep compiled kernels in a folder, since the home folder is closed to them."""
    for name, part in _CACHES.items():
        os.environ[name] = str(folder / part)
