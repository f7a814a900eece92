// Gate and up of a feed-forward part in one launch: activation(gate(x)) * up(x), as numbers and as the
// bytes that the next product reads.
//
// A warp takes a row of the gate and the same row of up, so that both meet in its registers. The
// warp that completes a group of 32 outputs makes bytes of them: values go through memory (they
// stay in L2), and a count for each group, which begins at 0 and ends there, says who was last.
//
// A file gated_<type>.cuh includes the type's own one, without its kernels, and this; then it says
// GATED_KERNEL(...) for each of GATED_VARIANTS.
#pragma once
#include "gate.cuh"
#include "gemv.cuh"
#include "store_q8.cuh"

struct GatedArguments {
  const u8 *gate, *up, *tiles;
  const float *gate_bias, *up_bias;  // (rows,), or null
  void* dense;                       // (columns, rows) of an element type, or null
  u8* q8;                            // tiles of the results, or null
  float* outputs;                    // (columns, rows), and
  u32* counts;                       // (rows / 32,) zeros: where there are tiles
  int rows, inputs, row_bytes, type, activation;
};

template <class Format>
struct TwoMatrices {
  static constexpr int STEP = 1, first_block = 0;  // rows from one warp to the next
  const Format &gate_format, &up_format;
  const u8 *gate, *up;
  int rows;
  DEVICE int number(int first, int) const { return min(first, rows - 1); }
  DEVICE const u8* start(int r) const { return r ? up : gate; }
  DEVICE const Format& format(int r) const { return r ? up_format : gate_format; }
};

// Makes bytes of the outputs of a group, four columns at a time: eight lanes take a column.
template <int COLUMNS>
DEVICE void quantize_group(const GatedArguments& a, int group, int lane) {
#pragma unroll
  for (int column = lane / 8; column - lane / 8 < COLUMNS; column += 4) {
    const int first = group * 32 + lane % 8 * 4;
    const bool inside = column < COLUMNS;
    uint4 v = make_uint4(0, 0, 0, 0);
    if (inside) v = load_fresh_16(a.outputs + size_t(column) * a.rows + first);
    store_q8(a.q8, COLUMNS, column, first,
             make_float4(bits_to_float(v.x), bits_to_float(v.y), bits_to_float(v.z), bits_to_float(v.w)), inside);
  }
}

template <class Format, int COLUMNS, int SPLIT>
DEVICE void gated_gemv(const Format& gate_format, const Format& up_format, const GatedArguments& a) {
  constexpr int COUNT = power_of_two_from(2 * COLUMNS), LANES = 32 / COUNT;
  if (SPLIT == 1 && GemvPlace<1, SPLIT>(0).row >= a.rows) return;
  float sums[COUNT];
#pragma unroll
  for (int i = 0; i < COUNT; ++i) sums[i] = 0.f;
  const TwoMatrices<Format> matrices{gate_format, up_format, a.gate, a.up, a.rows};
  add_tiles<Format, 2, COLUMNS, SPLIT>(matrices, a.tiles, a.inputs, a.row_bytes, sums);
  let_next_kernel_begin();
  sum_over_lanes(sums);
  const GemvPlace<1, SPLIT> place(0);
  if constexpr (SPLIT > 1) sum_over_warps<SPLIT, COUNT>(sums[0], place.warp, place.lane);
  if (place.warp % SPLIT || place.row >= a.rows) return;
  const int column = place.lane / LANES;
  float gate = sums[0], up = __shfl_sync(EVERY_LANE, sums[0], (column + COLUMNS) * LANES & 31);
  if (place.lane % LANES == 0 && column < COLUMNS) {
    if (a.gate_bias) gate += a.gate_bias[place.row];
    if (a.up_bias) up += a.up_bias[place.row];
    const float value = gated(gate, up, a.activation);
    const size_t index = size_t(column) * a.rows + place.row;
    if (a.dense) store_one(a.dense, index, value, a.type);
    if (a.q8) a.outputs[index] = value;
  }
  if (!a.q8) return;
  __syncwarp();
  u32 before = 0;
  if (place.lane == 0) before = count_in_memory(a.counts + place.row / 32, 31);
  if (__shfl_sync(EVERY_LANE, before, 0) != 31) return;
  __syncwarp();  // a shuffle orders no memory accesses
  __threadfence();
  quantize_group<COLUMNS>(a, place.row / 32, place.lane);
}

#define GATED_PARAMETERS                                                                          \
  const u8 *__restrict__ gate, const u8 *__restrict__ up, const u8 *__restrict__ tiles,           \
      const float *__restrict__ gate_bias, const float *__restrict__ up_bias, void *__restrict__ dense, \
      u8 *__restrict__ q8, float *outputs, u32 *counts, int rows, int inputs, int row_bytes, int type, int activation
#define GATED_ARGUMENTS                                                                           \
  {gate, up, tiles, gate_bias, up_bias, dense, q8, outputs, counts, rows, inputs, row_bytes, type, activation}

// `value` is what makes a Format from `inputs`, where that says all of both matrices; a processor has to
// have room for so many blocks.
#define GATED_KERNEL(NAME, COLUMNS, SPLIT, BLOCKS, Format, value)                                 \
  extern "C" __global__ void __launch_bounds__(GEMV_THREADS, BLOCKS)                              \
      NAME##_gated_c##COLUMNS##_s##SPLIT(GATED_PARAMETERS) {                                      \
    const Format format = value;                                                                  \
    gated_gemv<Format, COLUMNS, SPLIT>(format, format, GATED_ARGUMENTS);                          \
  }                                                                                               \
  EXPORT_KERNEL(NAME##_gated_c##COLUMNS##_s##SPLIT)

// GATED(COLUMNS, SPLIT). No model has so few outputs here that several warps would have to share them.
#ifndef GATED_VARIANTS
#define GATED_VARIANTS                                                                            \
  GATED(1, 1) GATED(2, 1) GATED(3, 1) GATED(4, 1) GATED(5, 1) GATED(6, 1) GATED(7, 1) GATED(8, 1)
#endif
