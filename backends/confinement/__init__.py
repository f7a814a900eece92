"""Sandboxing of processes that read untrusted files: seccomp, Landlock, resource limits."""
