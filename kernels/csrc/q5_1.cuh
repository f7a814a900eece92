// Q5_1 weights: see block32.cuh.
#pragma once
#include "block32.cuh"

#define VARIANT(ROWS, COLUMNS, SPLIT)                                                             \
  BLOCK32_KERNEL(q5_1, 5, true, GEMV_BLOCKS(80778700, COLUMNS), ROWS, COLUMNS, SPLIT)
GEMV_VARIANTS
