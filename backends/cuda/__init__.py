"""ingle's own engine, on CUDA devices, and on CPUs with the reference operations."""
