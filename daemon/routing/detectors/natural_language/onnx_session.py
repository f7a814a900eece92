"""Sessions of onnxruntime for the networks."""

# onnxruntime has no types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import os

import onnxruntime

from ...text_analysis.data_files import read_data_file

_THREADS = 2


def open_session(name: str) -> onnxruntime.InferenceSession:
    """Load the network in the data file of this name."""
    options = onnxruntime.SessionOptions()
    # Two shorten the longest scans by a third; more help little, and delay what else runs.
    options.intra_op_num_threads = min(_THREADS, os.cpu_count() or 1)
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(
        read_data_file(name), options, providers=["CPUExecutionProvider"]
    )
