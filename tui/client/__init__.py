"""The daemon's HTTP API as the chat uses it.

Payloads, SSE, errors, generations, pulls and routing.
"""
