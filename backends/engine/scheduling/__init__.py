"""Continuous batching: queues, prefill budget and scheduler."""
