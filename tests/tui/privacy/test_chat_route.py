"""Whether the route to a daemon endpoint counts as local or remote."""

from __future__ import annotations

import pytest

from ingle.tui.privacy.chat_route import route_to


@pytest.mark.parametrize(
    "endpoint", ["/run/user/1000/ingle/ingle.sock", "127.0.0.1:4645", "::1:4645", "localhost:1"]
)
def test_loopback_and_socket_endpoints_are_local(endpoint: str) -> None:
    route = route_to(endpoint)
    assert (route.kind, route.mark) == ("local", "⌂")
    assert "nothing leaves" in route.promise


def test_other_host_is_remote() -> None:
    route = route_to("192.168.1.7:4645")
    assert route.kind == "remote"
    assert "192.168.1.7:4645" in route.promise
    assert "nothing leaves" not in route.promise
