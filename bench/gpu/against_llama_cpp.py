"""The whole engine beside llama.cpp on a small model of random weights, token by token."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gpu.session import Session, Skipped
from gpu.small_llama import write_carried_llama
from msgspec import to_builtins

from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.cuda.model_runner import CudaModelRunner
from ingle.backends.hardware.llama_cpp_library import library_folder
from ingle.backends.jobs.verification.messages import VerificationSpec
from ingle.backends.jobs.verification.scored_text import default_text
from ingle.backends.jobs.verification.verification import verify
from ingle.backends.packages.engine_installer import build_cache
from ingle.backends.packages.engine_packages import all_engine_packages

MODEL = Path(__file__).with_name("carried") / "small-llama.gguf"


def run(session: Session) -> dict[str, object]:
    """Return the divergence of both engines' predictions."""
    built = build_cache(all_engine_packages()["llama.cpp"])
    if library_folder() is None and built is not None and built.exists():
        os.environ["LLAMA_CPP_LIB_PATH"] = str(built / "llama_cpp/lib")
    if library_folder() is None:
        raise Skipped("llama.cpp is not here: bench/gpu/carry packs it, `ingle run` installs it")
    model = MODEL if MODEL.exists() else session.folder / MODEL.name
    if not model.exists():
        write_carried_llama(model)
    if not session.on_cpu:
        # Verification would compute without the kernels where these cannot be used; this raises.
        how = LoadSpec(
            engine="cuda",
            path=str(model),
            context=512,
            kv_capacity=512,
            slots=1,
            kernel_cache=str(session.folder),
            may_fall_back=True,
        )
        CudaModelRunner(how).close()
    spec = VerificationSpec(path=str(model), text=default_text(), tokens=512)
    report = verify(spec, lambda step: None)
    return {"ok": not report.failures, **to_builtins(report)}


def table(result: dict[str, Any]) -> list[str]:
    """Return lines for people."""
    measured = result["statistics"]
    return [
        f"on {result['device']}: mean KL {measured['mean_kl']:.2g} nat, "
        f"{measured['top1_agreement']:.2%} the same first choice of {measured['tokens']} tokens",
        *(f"too far: {name}" for name in result["failures"]),
    ]
