"""Addresses of the web, checked before anything is sent."""

from __future__ import annotations

from urllib.parse import quote, urlsplit, urlunsplit

from .public_addresses import is_public
from .web_errors import WebFailed

_MOST_OF_URL = 2_000
_SAFE = "!#$%&'()*+,/:;=?@[]~"


def checked_url(url: str) -> str:
    """Return an address of the web in ASCII; raises `WebFailed` for any other."""
    if len(url) > _MOST_OF_URL:
        raise WebFailed(f"The address is longer than {_MOST_OF_URL} characters.")
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname or "", parts.port
        host = host if ":" in host else host.encode("idna").decode()
    except (ValueError, UnicodeError) as error:
        raise WebFailed("This is no address of the web.") from error
    if parts.scheme not in ("http", "https") or not host or parts.username is not None:
        raise WebFailed("Only http and https addresses without a password can be fetched.")
    if (host.replace(".", "").isdigit() or ":" in host) and not is_public(host):
        raise WebFailed(f"{host} is not a public address. Nothing is fetched there.")
    where = f"[{host}]" if ":" in host else host
    where = f"{where}:{port}" if port is not None else where
    path, query = (quote(part, safe=_SAFE) for part in (parts.path or "/", parts.query))
    return urlunsplit((parts.scheme, where, path, query, ""))


def host_of(url: str) -> str:
    """Return the host of a checked address."""
    return urlsplit(url).hostname or ""
