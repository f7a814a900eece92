"""Samplers on the device: penalties, DRY, mirostat, truncation and fused kernels."""
