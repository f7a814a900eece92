// Gate and up of a feed-forward part with 16-bit weights in one launch: activation(gate(x)) * up(x).
//
// A warp takes eight rows of the gate and the same rows of up, as its two tiles of dense_gemv.cuh: so
// both products of an output meet in one lane.
#pragma once
#undef DENSE_VARIANTS
#define DENSE_VARIANTS  // none: those below
#include "dense_gemv.cuh"
#include "gate.cuh"

struct DensePair {
  const u16 *gate, *up;
  int row;
  DEVICE const u16* matrix(int tile) const { return tile ? up : gate; }
  DEVICE int number(int) const { return row; }
};

struct DenseGate {
  const float *gate_bias, *up_bias;  // (rows,), or null
  void* y;                           // (columns, rows) of an element type
  int type, activation;
};

template <int TYPE, int COLUMNS, int SPLIT>
DEVICE void dense_gated(const u16* gate, const u16* up, const DenseArguments& a, const DenseGate& g) {
  constexpr int VALUES = COLUMNS / 4;  // of each matrix
  const DensePlace<8, SPLIT> begin;
  if (SPLIT <= 1 && begin.row >= a.rows) return;
  float values[2 * VALUES];
  dense_sums<TYPE, 2, COLUMNS, SPLIT>(DensePair{gate, up, begin.row}, a, begin.lane, begin.split, values);
  const DensePlace<8, SPLIT> place;
  if (place.split) return;
#pragma unroll
  for (int i = 0; i < VALUES; ++i) {
    const int column = place.lane / 4 + i / 2 * 8, row = place.row + place.lane % 4 * 2 + i % 2;
    if (row >= a.rows || column >= a.columns) continue;
    const float first = g.gate_bias ? values[i] + g.gate_bias[row] : values[i];
    const float second = g.up_bias ? values[VALUES + i] + g.up_bias[row] : values[VALUES + i];
    store_one(g.y, size_t(column) * a.rows + row, gated(first, second, g.activation), g.type);
  }
}

#define DENSE_GATED_KERNEL(NAME, TYPE, COLUMNS, SPLIT)                                            \
  extern "C" __global__ void __launch_bounds__(32 * dense_warps(SPLIT))                           \
      dense_gated_##NAME##_c##COLUMNS##_s##SPLIT(                                                 \
          const u16* __restrict__ gate, const u16* __restrict__ up, const u16* __restrict__ x,    \
          const float* __restrict__ gate_bias, const float* __restrict__ up_bias, void* __restrict__ y, \
          int rows, int inputs, int columns, int type, int activation) {                          \
    dense_gated<TYPE, COLUMNS, SPLIT>(gate, up, {gate, x, rows, inputs, columns},                 \
                                      {gate_bias, up_bias, y, type, activation});                 \
  }                                                                                               \
  EXPORT_KERNEL(dense_gated_##NAME##_c##COLUMNS##_s##SPLIT)

#define DENSE_GATED(COLUMNS, SPLIT)                                                               \
  DENSE_GATED_KERNEL(f16, ELEMENT_F16, COLUMNS, SPLIT)                                            \
  DENSE_GATED_KERNEL(bf16, ELEMENT_BF16, COLUMNS, SPLIT)
DENSE_GATED(8, 1)
DENSE_GATED(8, 4)
DENSE_GATED(16, 1)
DENSE_GATED(16, 4)
