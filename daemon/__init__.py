"""The service: HTTP API, model lifecycle, command line."""
