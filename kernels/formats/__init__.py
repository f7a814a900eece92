"""Storage formats of weights.

GGUF quant blocks, NF4, and the repacked layouts that the kernels read.
"""
