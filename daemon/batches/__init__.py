"""Uploaded files, and batches of requests that run when no interactive request waits."""
