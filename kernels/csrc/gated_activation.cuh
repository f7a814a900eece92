// activation(gate) * up of many tokens, or logistic(gate) * up, or what is positive of gate times up, as
// numbers and as bytes with scales.
#pragma once
#include "elements.cuh"
#include "gate.cuh"
#include "store_q8.cuh"

#define GATE_SIGMOID 3  // of attention, after the activations of feed-forward parts
#define GATE_RELU 4     // of feed-forward parts without gates

struct GatedRows {
  const void *gate, *up;
  int gate_stride, up_stride, type;  // from row to row, in elements of the type
};

DEVICE float gated_one(float gate, float up, int activation) {
  if (activation == GATE_RELU) return gate < 0.f ? 0.f : gate * up;  // NaN stays
  return activation == GATE_SIGMOID ? logistic(gate) * up : gated(gate, up, activation);
}

DEVICE float4 gated_four(const GatedRows& rows, int row, int first, int activation) {
  const float4 gate = load_four(rows.gate, size_t(row) * rows.gate_stride + first, rows.type);
  const float4 up = load_four(rows.up, size_t(row) * rows.up_stride + first, rows.type);
  return make_float4(gated_one(gate.x, up.x, activation), gated_one(gate.y, up.y, activation),
                     gated_one(gate.z, up.z, activation), gated_one(gate.w, up.w, activation));
}

// A lane takes four neighbours; `size` is a multiple of four, of 32 where tiles are wanted. Either
// result may be null. Grid: rows, size / 512 rounded up.
extern "C" __global__ void __launch_bounds__(128) gated_activation(
    const void* __restrict__ gate, const void* __restrict__ up, void* __restrict__ dense, u8* __restrict__ tiles,
    int gate_stride, int up_stride, int type, int dense_type, int size, int activation) {
  wait_for_previous_kernel();
  const int first = (blockIdx.y * 128 + threadIdx.x) * 4, row = blockIdx.x;
  const bool inside = first < size;
  float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
  if (inside) v = gated_four({gate, up, gate_stride, up_stride, type}, row, first, activation);
  let_next_kernel_begin();
  if (inside && dense) store_four(dense, size_t(row) * size + first, v, dense_type);
  if (tiles) store_q8(tiles, gridDim.x, row, first, v, inside);
}
EXPORT_KERNEL(gated_activation)
