"""The daemon's side of a worker: process, pipes, request streams and stall detection."""
