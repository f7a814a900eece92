// Two matrices of different types with the same inputs in one launch: queries and keys in one type, values
// in a finer one. The first blocks take the first matrix, the others the second.
//
// A file <first>_<second>.cuh includes both types' own ones, without their kernels, and this; then it
// says PAIRED_KERNEL(...) for each of PAIRED_VARIANTS.
#pragma once
#include "gemv.cuh"

#define PAIRED_PARAMETERS                                                                         \
  const u8 *__restrict__ weights, const u8 *__restrict__ second_weights, const u8 *__restrict__ tiles, \
      int rows, int second_rows, int inputs, int row_bytes, int second_row_bytes, int second_block, \
      EPILOGUE_PARAMETERS, void *__restrict__ second_y, const float *__restrict__ second_bias

// `first` and `second` make a Format from `inputs`; a processor has to have room for so many blocks.
#define PAIRED_KERNEL(NAME, ROWS, COLUMNS, SPLIT, BLOCKS, First, first, Second, second)           \
  extern "C" __global__ void __launch_bounds__(GEMV_THREADS, BLOCKS)                              \
      NAME##_gemv_r##ROWS##_c##COLUMNS##_s##SPLIT(PAIRED_PARAMETERS) {                            \
    if (block_index() < second_block)                                                             \
      gemv<First, ROWS, COLUMNS, SPLIT>(first, {weights, tiles, rows, inputs, row_bytes, EPILOGUE}); \
    else                                                                                          \
      gemv<Second, ROWS, COLUMNS, SPLIT>(                                                         \
          second, {second_weights, tiles, second_rows, inputs, second_row_bytes,                  \
                   {second_y, second_bias, scale, stride, type}, second_block});                  \
  }                                                                                               \
  EXPORT_KERNEL(NAME##_gemv_r##ROWS##_c##COLUMNS##_s##SPLIT)

// PAIRED(ROWS, COLUMNS, SPLIT).
#ifndef PAIRED_VARIANTS
#define PAIRED_VARIANTS                                                                           \
  PAIRED(2, 1, 1) PAIRED(2, 1, 4) PAIRED(2, 2, 1) PAIRED(2, 2, 4) PAIRED(2, 3, 1) PAIRED(2, 3, 4) \
  PAIRED(2, 4, 1) PAIRED(2, 4, 4) PAIRED(2, 5, 1) PAIRED(2, 5, 4) PAIRED(2, 6, 1) PAIRED(2, 6, 4) \
  PAIRED(2, 7, 1) PAIRED(2, 7, 4) PAIRED(2, 8, 1) PAIRED(2, 8, 4)
#endif
