"""LM Studio's REST API under `/api/v0/` and `/api/v1/`."""
