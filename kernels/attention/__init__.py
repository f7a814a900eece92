"""Paged attention.

RoPE and append, the Triton kernels and their ahead-of-time build, split-KV combine.
"""
