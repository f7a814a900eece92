"""The `Weights` protocol.

Tensors of GGUF, safetensors and bitsandbytes files, renamed, dequantised or quantised at load.
"""
