"""The contract of every backend: requests, events, load specs and errors."""
