// The scale of MXFP4's weights as code_table.cuh has them, which are doubled.
#pragma once
#include "portable.cuh"

#define MXFP4_TILE_BYTES 544

// Half of two to the power of `exponent` - 127, of which the two smallest are subnormal.
DEVICE float mxfp4_scale(u32 exponent) {
  return bits_to_float(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23);
}
