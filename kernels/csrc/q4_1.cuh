// Q4_1 weights: see block32.cuh.
#pragma once
#include "block32.cuh"

#define VARIANT(ROWS, COLUMNS, SPLIT)                                                             \
  BLOCK32_KERNEL(q4_1, 4, true, GEMV_BLOCKS(00077600, COLUMNS), ROWS, COLUMNS, SPLIT)
GEMV_VARIANTS
