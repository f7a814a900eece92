// Gate and up of four-bit weights in groups in one launch.
#pragma once
#undef GEMV_VARIANTS
#define GEMV_VARIANTS  // none: those of gated_gemv.cuh
#include "g4.cuh"
#include "gated_gemv.cuh"

#define GATED(COLUMNS, SPLIT)                                                                     \
  extern "C" __global__ void __launch_bounds__(GEMV_THREADS, GEMV_BLOCKS(04055050, COLUMNS))      \
      g4_gated_c##COLUMNS##_s##SPLIT(GATED_PARAMETERS, int group) {                               \
    const G4 format(group);                                                                       \
    gated_gemv<G4, COLUMNS, SPLIT>(format, format, GATED_ARGUMENTS);                              \
  }                                                                                               \
  EXPORT_KERNEL(g4_gated_c##COLUMNS##_s##SPLIT)
GATED_VARIANTS
