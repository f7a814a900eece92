"""Whether the daemon may listen where other machines could reach it."""

from __future__ import annotations

import time

from ..settings.config import Config
from ..transport.peer import is_loopback
from ..transport.sockets import SocketError
from .api_keys import KeyStore


class Exposed(SocketError):
    """Other machines could reach the daemon, and its owner has not said all that takes."""


def check_exposure(config: Config) -> None:
    """Pass for loopback addresses, and for others where a key, a flag and TLS are there.

    Raises `Exposed`, and `KeyFailure` for a file of keys that is damaged.
    """
    if config.port < 0 or is_loopback((config.host, config.port)):
        return
    if not config.allow_lan:
        raise Exposed(
            f"Other machines could reach {config.host}, and that needs your explicit word.",
            hint="Add `--allow-lan`, or reach the daemon through a tunnel: "
            "`ssh -L 4645:127.0.0.1:4645 HOST`.",
        )
    now = time.time()
    if not any(not key.expired(now) for key in KeyStore(config.paths.keys).list()):
        raise Exposed(
            f"On {config.host} only a key lets anybody in, and there is none.",
            hint="`ingle key new NAME --scope inference` makes one.",
        )
    if bool(config.tls_cert) != bool(config.tls_key):
        raise Exposed(
            "`tls_cert` and `tls_key` go together, and one of them is missing.",
            hint="Name the PEM file of the certificate, and that of its key.",
        )
    if not config.tls_cert and not config.allow_plain_lan:
        raise Exposed(
            f"Without TLS everybody on the way to {config.host} could read keys and prompts.",
            hint="Set `tls_cert` and `tls_key`; or add `--allow-plain-lan` where the network "
            "itself is encrypted, as a VPN is.",
        )
