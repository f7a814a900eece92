"""Checks whether the daemon may listen on an address that other machines can reach."""

from __future__ import annotations

import time

from ..settings.config import Config
from ..transport.peer import is_loopback
from ..transport.sockets import SocketError
from .api_keys import KeyStore


class Exposed(SocketError):
    """Other machines could reach the daemon, and a flag, a key or TLS is missing."""


def check_exposure(config: Config) -> None:
    """Raise `Exposed` for an address that is not loopback, unless a key, a flag and TLS are set.

    Raises `KeyFailure` for a damaged key file.
    """
    if config.port < 0 or is_loopback((config.host, config.port)):
        return
    if not config.allow_lan:
        raise Exposed(
            f"Other machines could reach {config.host}, which needs your explicit permission.",
            hint="Add `--allow-lan`, or reach the daemon through a tunnel: "
            "`ssh -L 4645:127.0.0.1:4645 HOST`.",
        )
    now = time.time()
    if all(key.expired(now) for key in KeyStore(config.paths.keys).list()):
        raise Exposed(
            f"Requests to {config.host} need a key, and there is none.",
            hint="`ingle key new NAME --scope inference` creates one.",
        )
    if bool(config.tls_cert) != bool(config.tls_key):
        raise Exposed(
            "`tls_cert` and `tls_key` go together, and one of them is missing.",
            hint="Name the PEM file of the certificate, and that of its key.",
        )
    if not config.tls_cert and not config.allow_plain_lan:
        raise Exposed(
            f"Without TLS, keys and prompts could be read on the way to {config.host}.",
            hint="Set `tls_cert` and `tls_key`; or add `--allow-plain-lan` if the network "
            "itself is encrypted, as a VPN is.",
        )
