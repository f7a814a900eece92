"""The commands of the command line, one module each; every one a client of the HTTP API."""
