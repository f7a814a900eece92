"""Loads models on request, leases them to requests and unloads them; request queues, retries and
limits.
"""
