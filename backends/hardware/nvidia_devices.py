"""Creates the device files that CUDA needs, which a confined worker cannot do."""

from __future__ import annotations

import logging
import shutil
import subprocess
from pathlib import Path

logger = logging.getLogger(__name__)

_SECONDS = 20.0


def create_uvm_device(root: Path = Path("/")) -> bool:
    """Have `nvidia-modprobe` load the module nvidia-uvm, unless its device exists; blocking.

    The program is setuid and libcuda calls it by itself, but not in a worker, which may gain no
    privileges; without a display server nothing else has loaded the module. Returns whether it ran.
    """
    if not (root / "dev/nvidiactl").exists() or (root / "dev/nvidia-uvm").exists():
        return False
    program = shutil.which("nvidia-modprobe")
    if program is None:
        return False
    try:
        done = subprocess.run(
            [program, "-u", "-c", "0"], capture_output=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        logger.warning("nvidia-modprobe cannot be run: %s", error)
        return False
    if done.returncode:
        logger.warning("nvidia-modprobe ended with status %s", done.returncode)
    return True
