"""One-off work on models in confined child processes."""
