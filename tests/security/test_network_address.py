"""Access from other machines, through an address that is not loopback."""

from __future__ import annotations

import socket
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
import trustme

from ingle.daemon.access.api_keys import KeyLimitation, KeyStore
from ingle.daemon.http.route_access import Scope

if TYPE_CHECKING:
    from .conftest import WatchedDaemon

    WatchDaemon = Callable[..., WatchedDaemon]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs unix sockets")


@pytest.fixture
def address() -> str:
    """This machine's address as others reach it; sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: it only selects a route
        except OSError:
            pytest.skip("this machine has no address but loopback")
        return str(probe.getsockname()[0])


def test_daemon_listens_only_on_loopback_by_default(
    watch_daemon: WatchDaemon, address: str
) -> None:
    daemon = watch_daemon()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address, daemon.port), timeout=5)


@pytest.mark.slow
@pytest.mark.parametrize("everywhere", [True, False])
def test_other_machines_need_tls_and_a_key_with_scope(
    watch_daemon: WatchDaemon, ingle_home: Path, tmp_path: Path, address: str, everywhere: bool
) -> None:
    authority = trustme.CA()
    leaf = authority.issue_cert("gpu.lan", address)
    chain, private = tmp_path / "chain.pem", tmp_path / "key.pem"
    leaf.cert_chain_pems[0].write_to_path(chain)
    leaf.private_key_pem.write_to_path(private)
    private.chmod(0o600)
    limitation = KeyLimitation(scopes=(Scope.INFERENCE,))
    _, key = KeyStore(ingle_home / "state/keys.json").create("laptop", limitation=limitation)
    daemon = watch_daemon(
        "--allow-lan",
        "--host",
        "0.0.0.0" if everywhere else address,
        INGLE_TLS_CERT=str(chain),
        INGLE_TLS_KEY=str(private),
        INGLE_ALLOWED_HOSTS=f"gpu.lan,{address}",
    )
    assert "(TLS, other machines need a key)" in daemon.log.read_text()
    context = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    base = f"https://{address}:{daemon.port}"
    with httpx.Client(verify=context, headers={"authorization": f"Bearer {key}"}) as client:
        body = {"model": "echo:1", "messages": [{"role": "user", "content": "Hi"}]}
        answer = client.post(f"{base}/v1/chat/completions", json=body)
        assert answer.status_code == 200, answer.text
        assert "scripted" in answer.text
        with client.stream(
            "POST", f"{base}/v1/chat/completions", json={**body, "stream": True}
        ) as stream:
            assert "data: [DONE]" in stream.read().decode()
        assert client.post(f"{base}/ingle/v1/shutdown").status_code == 403
        refused = client.get(f"{base}/v1/models", headers={"host": "evil.example"})
        assert refused.status_code == 403
        wrong = client.get(f"{base}/v1/models", headers={"authorization": "Bearer ingle-x"})
        assert wrong.status_code == 401
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://{address}:{daemon.port}/health")
    # Local programs are not affected.
    assert httpx.get(f"http://127.0.0.1:{daemon.port}/health").status_code == 200
