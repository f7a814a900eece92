"""A kubeconfig is reported as the credential that it holds, not by words within its codes."""

from __future__ import annotations

import base64
import random
import textwrap

import pytest

from ingle.daemon.routing.detectors.finding import FindingKind, TextPart
from ingle.daemon.routing.inspection.text_scanner import OwnWords, Scanner, structured_detectors

SCANNER = Scanner(structured_detectors(OwnWords()))
CONFIG = """\
apiVersion: v1
kind: Config
clusters:
- cluster:
    certificate-authority-data: {certificate}
    server: https://k8s.fabrikam.com:6443
users:
- name: admin
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
"""


def encoded_pem(kind: str, data: bytes) -> str:
    lines = "\n".join(textwrap.wrap(base64.b64encode(data).decode(), 64))
    pem = f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----\n"
    return base64.b64encode(pem.encode()).decode()


@pytest.mark.parametrize("seed", range(8))
def test_kubeconfig_is_a_private_key(seed: int) -> None:
    source = random.Random(seed)
    key = encoded_pem("RSA PRIVATE KEY", source.randbytes(1190))
    text = CONFIG.format(certificate=encoded_pem("CERTIFICATE", source.randbytes(800)), key=key)
    found = SCANNER.scan([TextPart("messages[0].content", text)])
    assert [(f.kind, text[f.start : f.end]) for f in found] == [(FindingKind.PRIVATE_KEY, key)]
