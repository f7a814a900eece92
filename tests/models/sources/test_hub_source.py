from __future__ import annotations

import hashlib
import json
import socket
import ssl
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from ingle.models.errors import ModelNotFound, Offline, SourceUnavailable
from ingle.models.sources.download_source import RemoteFile, Transfer
from ingle.models.sources.hub_source import HubSource, find_model
from ingle.models.sources.partial_file import PartialFile

if TYPE_CHECKING:
    from ..conftest import FileServer

CONTENT = b"weights" * 1000
COMMIT = "c" * 40
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def fetch_into(partial: PartialFile, source: HubSource, file: RemoteFile) -> None:
    source.fetch(Transfer(file, partial, lambda done, total: None, lambda: False))


def serve_repository(server: FileServer, *names: str) -> None:
    siblings: list[dict[str, Any]] = [
        {
            "rfilename": name,
            "size": len(CONTENT),
            "blobId": "b",
            "lfs": {"size": len(CONTENT), "sha256": DIGEST, "pointerSize": 130},
        }
        for name in names
    ]
    info = {
        "id": "own/Repo-GGUF",
        "sha": COMMIT,
        "cardData": {"license": "mit"},
        "siblings": siblings,
        "tags": [],
        "private": False,
    }
    body = json.dumps(info).encode()
    server.serve("/api/models/own/Repo-GGUF", body, headers={"Content-Type": "application/json"})


def test_listed_file_has_its_digest(server: FileServer) -> None:
    serve_repository(server, "README.md", "m-Q8_0.gguf", "m-Q4_K_M.gguf", "mmproj-m-F16.gguf")
    found = find_model("own/Repo-GGUF", None, endpoint=server.address)
    projector = RemoteFile("mmproj-m-F16.gguf", len(CONTENT), DIGEST)
    assert found.files == (RemoteFile("m-Q4_K_M.gguf", len(CONTENT), DIGEST), projector)
    assert found.projector == projector.name
    assert (found.tag, found.revision, found.licence) == ("Q4_K_M", COMMIT, "mit")
    assert find_model("own/Repo-GGUF", "Q8_0", endpoint=server.address).paths[:1] == (
        "m-Q8_0.gguf",
    )


def test_file_is_fetched_with_the_token(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    server.serve("/own/Repo-GGUF/resolve/main/m-Q8_0.gguf", CONTENT)
    source = HubSource("own/Repo-GGUF", "m-Q8_0.gguf", endpoint=server.address)
    with PartialFile(tmp_path / "p") as partial:
        source.fetch(
            Transfer(RemoteFile("m-Q8_0.gguf"), partial, lambda done, total: None, lambda: False)
        )
    assert (tmp_path / "p").read_bytes() == CONTENT
    assert server.log[0].headers["authorization"] == "Bearer hf_secret"


def test_requests_contain_nothing_about_the_machine(server: FileServer) -> None:
    serve_repository(server, "m-Q8_0.gguf")
    find_model("own/Repo-GGUF", None, endpoint=server.address)
    assert [request.path.partition("?")[0] for request in server.log] == [
        "/api/models/own/Repo-GGUF"
    ]
    assert "torch" not in server.log[0].headers["user-agent"]


def test_missing_repository_is_an_error(server: FileServer) -> None:
    server.serve("/api/models/own/none", b"", status=404, headers={"X-Error-Code": "RepoNotFound"})
    with pytest.raises(ModelNotFound, match="own/none"):
        find_model("own/none", None, endpoint=server.address)


def test_hub_error_is_reported(server: FileServer) -> None:
    server.serve("/api/models/own/broken", b"", status=500)
    with pytest.raises(SourceUnavailable, match="cannot list"):
        find_model("own/broken", None, endpoint=server.address)


def test_unreachable_hub_is_an_error(tmp_path: Path) -> None:
    source = HubSource("own/Repo-GGUF", "m.gguf", endpoint="http://127.0.0.1:9")
    with (
        PartialFile(tmp_path / "p") as partial,
        pytest.raises(SourceUnavailable, match="cannot be reached") as caught,
    ):
        source.fetch(
            Transfer(RemoteFile("m.gguf"), partial, lambda done, total: None, lambda: False)
        )
    assert caught.value.hint == "Check the connection and pull again."


def test_offline_setting_prevents_requests(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(Offline, match="HF_HUB_OFFLINE"):
        find_model("own/Repo-GGUF", None, endpoint=server.address)
    assert server.log == []


def fetch(server: FileServer, path: Path) -> None:
    source = HubSource("own/gated", "m.gguf", endpoint=server.address)
    with PartialFile(path) as partial:
        source.fetch(
            Transfer(RemoteFile("m.gguf"), partial, lambda done, total: None, lambda: False)
        )


@pytest.mark.parametrize(
    ("token", "status", "words"),
    [
        ("", 401, ("accepted its terms", "huggingface.co/own/gated", "HF_TOKEN")),
        ("", 403, ("accepted its terms", "huggingface.co/own/gated", "hf auth login")),
        ("hf_secret", 401, ("does not accept your token", "settings/tokens", "expired")),
        ("hf_secret", 403, ("may not read hf.co/own/gated", "huggingface.co/own/gated", "by hand")),
    ],
)
def test_gated_file_error_names_the_page_with_the_terms(
    server: FileServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    token: str,
    status: int,
    words: tuple[str, ...],
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "none"))
    server.serve("/own/gated/resolve/main/m.gguf", b"", status=status)
    with caplog.at_level("DEBUG"), pytest.raises(SourceUnavailable) as caught:
        fetch(server, tmp_path / "p")
    message = f"{caught.value.message} {caught.value.hint}"
    assert all(word in message for word in words)
    assert "hf_secret" not in message + caplog.text


def test_gated_listing_error_names_the_page_with_the_terms(
    server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    body, headers = b'{"error": "gated"}', {"X-Error-Code": "GatedRepo"}
    server.serve("/api/models/own/gated", body, status=403, headers=headers)
    with pytest.raises(SourceUnavailable, match=r"may not read hf\.co/own/gated") as caught:
        find_model("own/gated", None, endpoint=server.address)
    assert "https://huggingface.co/own/gated" in (caught.value.hint or "")


def test_token_is_sent_only_to_the_hub(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Downloads are redirected to another host, with a signed URL."""
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    there = server.serve("/cdn", CONTENT).replace("127.0.0.1", "localhost")
    headers = {"Location": there}
    server.serve("/own/gated/resolve/main/m.gguf", b"", status=302, headers=headers)
    fetch(server, tmp_path / "p")
    assert (tmp_path / "p").read_bytes() == CONTENT
    assert [(r.path, r.headers.get("authorization")) for r in server.log] == [
        ("/own/gated/resolve/main/m.gguf", "Bearer hf_secret"),
        ("/cdn", None),
    ]


class PrivateServer:
    """A TLS server in this network, with a certificate for the hub's name."""

    def __init__(self, authority: trustme.CA) -> None:
        self.heads: list[str] = []
        """What reached it of requests."""
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                owner.heads.append(str(self.headers))
                self.send_response(200)
                self.send_header("Content-Length", str(len(CONTENT)))
                self.end_headers()
                self.wfile.write(CONTENT)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"https://hub.example:{self.server.server_port}"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        issued: Any = authority.issue_cert("hub.example")
        issued.configure_cert(context)
        self.server.socket = context.wrap_socket(
            self.server.socket, server_side=True, do_handshake_on_connect=False
        )


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def private_server(
    authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PrivateServer]:
    """Make `hub.example` resolve to a server in this network, as a forged DNS answer would."""
    found = PrivateServer(authority)
    resolve = socket.getaddrinfo

    def resolve_to_private(host: Any, *rest: Any, **more: Any) -> Any:
        return resolve(
            "127.0.0.1" if host in ("hub.example", b"hub.example") else host, *rest, **more
        )

    monkeypatch.setattr("socket.getaddrinfo", resolve_to_private)
    thread = Thread(target=found.server.serve_forever, args=(0.02,))
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    thread.join()


@pytest.mark.parametrize("trusted", [False, True])
def test_forged_hub_address_requires_a_trusted_certificate(
    private_server: PrivateServer,
    authority: trustme.CA,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trusted: bool,
) -> None:
    """Without a certificate that this machine trusts, no request is sent."""
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    if trusted:
        authority.cert_pem.write_to_path(tmp_path / "ca.pem")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    source = HubSource("own/Repo-GGUF", "m.gguf", endpoint=private_server.endpoint)
    with PartialFile(tmp_path / "p") as partial:

        def fetch() -> None:
            source.fetch(
                Transfer(RemoteFile("m.gguf"), partial, lambda done, total: None, lambda: False)
            )

        if trusted:
            fetch()
            assert "hf_secret" in private_server.heads[0]
            return
        with pytest.raises(SourceUnavailable, match=r"(?i)certificate"):
            fetch()
    with pytest.raises(SourceUnavailable, match="cannot list"):
        find_model("own/Repo-GGUF", None, endpoint=private_server.endpoint)
    assert private_server.heads == []
