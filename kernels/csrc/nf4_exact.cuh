// The kernels of nf4.cuh with two bytes rather than one for each of NF4's sixteen values.
#pragma once
#define NF4_EXACT true
#define NF4_KERNEL(ROWS, COLUMNS, SPLIT) nf4_exact_gemv_r##ROWS##_c##COLUMNS##_s##SPLIT
#include "nf4.cuh"
