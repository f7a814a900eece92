"""The daemon's HTTP API as its clients use it: wire types, SSE reader and clients."""
