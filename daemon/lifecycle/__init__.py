"""Loads models on request, leases and unloads them; queues, retries and limits of a request."""
