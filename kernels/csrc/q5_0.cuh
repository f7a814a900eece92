// Q5_0 weights: see block32.cuh.
#pragma once
#include "block32.cuh"

#define VARIANT(ROWS, COLUMNS, SPLIT)                                                             \
  BLOCK32_KERNEL(q5_0, 5, false, GEMV_BLOCKS(80776700, COLUMNS), ROWS, COLUMNS, SPLIT)
GEMV_VARIANTS
