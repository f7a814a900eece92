"""The commands of the command line, one module each; all use the HTTP API."""
