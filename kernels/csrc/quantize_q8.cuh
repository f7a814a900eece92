// Quantises activations into the tiles of q8_tile.cuh.
#pragma once
#include "elements.cuh"
#include "store_q8.cuh"

// Eight lanes take a group of x (columns, inputs), four inputs each; inputs are a multiple of 32.
// Grid: columns, inputs / 512 rounded up.
extern "C" __global__ void __launch_bounds__(128) quantize_q8(
    const void* __restrict__ x, u8* __restrict__ tiles, int inputs, int type) {
  wait_for_previous_kernel();
  const int first = (blockIdx.y * 128 + threadIdx.x) * 4, column = blockIdx.x;
  const bool inside = first < inputs;
  float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
  if (inside) v = load_four(x, size_t(column) * inputs + first, type);
  let_next_kernel_begin();
  store_q8(tiles, gridDim.x, column, first, v, inside);
}
EXPORT_KERNEL(quantize_q8)
