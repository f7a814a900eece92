"""The whole engine beside llama.cpp on a small model of random weights, token by token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpu.session import Session, Skipped
from msgspec import to_builtins

from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.cuda.model_runner import CudaModelRunner
from ingle.backends.hardware.llama_cpp_library import library_folder
from ingle.backends.jobs.verification.messages import VerificationSpec
from ingle.backends.jobs.verification.scored_text import default_text
from ingle.backends.jobs.verification.verification import verify

MODEL = Path(__file__).with_name("carried") / "small-llama.gguf"


def run(session: Session) -> dict[str, object]:
    """Return the divergence of both engines' predictions."""
    if library_folder() is None:
        raise Skipped("llama.cpp is not here: bench/gpu/carry packs it")
    if not MODEL.exists():
        raise Skipped("the model is not here: bench/gpu/carry makes it")
    if not session.on_cpu:
        # Verification would compute without the kernels where these cannot be used; this raises.
        how = LoadSpec(
            engine="cuda",
            path=str(MODEL),
            context=512,
            kv_capacity=512,
            slots=1,
            kernel_cache=str(session.folder),
            may_fall_back=True,
        )
        CudaModelRunner(how).close()
    spec = VerificationSpec(path=str(MODEL), text=default_text(), tokens=512)
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
