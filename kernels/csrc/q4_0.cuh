// Q4_0 weights: see block32.cuh.
#pragma once
#include "block32.cuh"

#define VARIANT(ROWS, COLUMNS, SPLIT)                                                             \
  BLOCK32_KERNEL(q4_0, 4, false, GEMV_BLOCKS(00050600, COLUMNS), ROWS, COLUMNS, SPLIT)
GEMV_VARIANTS
