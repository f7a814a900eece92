"""ingle's own API under `/ingle/v1/`."""
