// Products of many tokens with the matrices of the experts that were picked for them, on tensor cores:
// prompts of a mixture of experts. gemm.cuh, where each block of columns has a matrix of its own.
//
// The columns are picks, sorted by expert, and each expert's begin in a new block; what is left of its last
// block is computed and not used. How many blocks there are only the device knows, so the host launches
// as many as fill the GPU, and they share what there is.
//
// A file expert_gemm_<type>.cuh includes the type's own one, without its kernels, and this; then it says
// EXPERT_GEMM_KERNEL(...) for each of EXPERT_GEMM_VARIANTS.
#pragma once
#include "gemm.cuh"

// EXPERT_VARIANT(columns, COLUMN_TILES, COLUMN_WARPS, STAGES). No wider ones: they need a register more than
// there are, for less than a tenth of the time.
#ifndef EXPERT_GEMM_VARIANTS
#define EXPERT_GEMM_VARIANTS EXPERT_VARIANT(8, 1, 1, 4) EXPERT_VARIANT(32, 4, 1, 3)
#endif
#define EXPERT_GEMM_KERNEL(NAME, FORMAT, COLUMN_TILES, COLUMN_WARPS, STAGES, ...)                 \
  extern "C" __global__ void GEMM_BOUNDS(COLUMN_TILES, COLUMN_WARPS) NAME(GEMM_PARAMETERS, const int *__restrict__ experts) { \
    const FORMAT format = FORMAT __VA_ARGS__;                                                     \
    const GemmArguments arguments = {weights, tiles, partials, arrivals, rows, inputs, row_bytes, columns, EPILOGUE, experts}; \
    gemm<FORMAT, GemmShape<COLUMN_TILES, COLUMN_WARPS, STAGES>, true>(format, arguments);         \
  }                                                                                               \
  EXPORT_KERNEL_NAMED(NAME)
