"""Run and inspect the kernels without a GPU.

G++ shim, Triton interpreter, cubin disassembly. Not part of the product.
"""
