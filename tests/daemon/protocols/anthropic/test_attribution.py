"""The billing header that Claude Code puts before a system prompt is removed, and nothing else."""

from __future__ import annotations

import pytest

from ingle.daemon.protocols.anthropic.messages import without_attribution

LINE = "x-anthropic-billing-header: cc_version=2.1.328.e51; cc_entrypoint=sdk-cli; cch=a5145;"


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        (LINE, ""),
        (f"{LINE} cc_workload=cron; cc_prev_req=req_abc-1;", ""),
        (f"{LINE}You are a helper.", "You are a helper."),
        (f"{LINE}\n\nYou are a helper; be=kind;", "You are a helper; be=kind;"),
        (f"You get {LINE}", f"You get {LINE}"),
        ("x-anthropic-billing-header: hello", "x-anthropic-billing-header: hello"),
        ("x-anthropic-billing-header:", "x-anthropic-billing-header:"),
        ("", ""),
    ],
)
def test_only_the_billing_header_is_removed(text: str, rest: str) -> None:
    assert without_attribution(text) == rest


def test_header_removal_takes_linear_time() -> None:
    hostile = "x-anthropic-billing-header:" + " a=" * 1_000_000
    assert without_attribution(hostile) == hostile
