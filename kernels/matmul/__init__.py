"""Linear layers: GEMV and GEMM kernels by weight format, their dispatch, and embedding look-up."""
