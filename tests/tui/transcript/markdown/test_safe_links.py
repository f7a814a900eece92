"""Which link addresses are safe to show as links."""

from __future__ import annotations

import pytest

from ingle.tui.transcript.markdown.markdown_renderer import safe_link


@pytest.mark.parametrize(
    "address", ["https://example.org/a?b=c#d", "http://x", "mailto:a@b.org", "HTTPS://X.ORG"]
)
def test_web_and_mail_addresses_are_safe(address: str) -> None:
    assert safe_link(address) == address


@pytest.mark.parametrize(
    "address",
    [
        "",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "ssh://host",
        "https://",
        "https://x\x1b\\",
        "https://x\x07",
        "https://x\x9c",
        "https://x y",
        "https://x\n",
        "https://ex\u0430mple.org",
        "https://x/" + "a" * 2048,
        " https://x",
    ],
)
def test_other_addresses_are_rejected(address: str) -> None:
    assert safe_link(address) is None
