// NF4 weights as kernels/formats/repacked_nf4.py lays them out (drawn in docs/kernels.md): a row is tiles of
// 1024 weights, the last one maybe shorter; a tile is 16 bytes of codes for each of its groups of 32,
// low nibbles first, then one byte for each of its blocks of 64.
//
// A code becomes a byte by permutations: 16 bytes fit into four registers. One byte a code is off by
// 0.33 % of a weight's size, where activations as bytes are off by 0.7 % and NF4 itself by 9 %. EXACT
// (nf4_exact.cuh) takes two bytes, off by 0.002 %, and one and a half times the instructions.
#pragma once
#include "gemv.cuh"
#include "code_table.cuh"

#define NF4_TILE_BYTES 528

template <bool EXACT>
struct NF4 {
  struct Cursor {
    const u8 *codes, *absmax;  // this lane's, in a full tile
    u32 block;                 // of the whole matrix
  };
  struct Raw {
    uint4 codes;
    u32 block;
    u8 absmax;
  };
  struct Group {
    u32 high[8], low[EXACT ? 8 : 1];
    float scale;
  };
  CodeTable high, low;
  const float *values, *group_absmax;  // what bytes of scales stand for, and of which group
  float offset;
  int lane, row_blocks;

  DEVICE Cursor at(const u8* row, int number, int tile) const {
    const u8* const start = row + tile * NF4_TILE_BYTES;
    return {start + lane * 16, start + 512 + lane / 2, u32(number) * u32(row_blocks) + u32(tile * 16 + lane / 2)};
  }
  DEVICE void advance(Cursor& cursor, int tiles) const {
    cursor.codes += tiles * NF4_TILE_BYTES;
    cursor.absmax += tiles * NF4_TILE_BYTES;
    cursor.block += tiles * 16;
  }

  DEVICE Raw load(const Cursor& cursor, int groups) const {
    return {load_streaming_16(cursor.codes), cursor.block, cursor.absmax[groups * 16 - 512]};
  }

  DEVICE Group decode(const Raw& raw) const {
    Group group;
    high.look_up_all(raw.codes, group.high);
    if constexpr (EXACT) low.look_up_all(raw.codes, group.low);
    group.scale = (values[raw.absmax] * group_absmax[raw.block / 256] + offset) *
                  (EXACT ? 1.f / NF4_EXACT_SCALE : 1.f / NF4_BYTE_SCALE);
    return group;
  }

  DEVICE float product(const Group& w, const Q8Group& x, float sum) const {
    const u32 inputs[8] = {x.first.x, x.first.y, x.first.z, x.first.w, x.last.x, x.last.y, x.last.z, x.last.w};
    int high = 0, low = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      high = dp4a_ss(w.high[i], inputs[i], high);
      if constexpr (EXACT) low = dp4a_us(w.low[i], inputs[i], low);
    }
    return sum + w.scale * (scale_of(x) * float(EXACT ? 256 * high + low : high));
  }
};

#define NF4_PARAMETERS                                                                            \
  const float *__restrict__ values, const float *__restrict__ group_absmax, const float *__restrict__ offset

template <bool EXACT>
DEVICE NF4<EXACT> nf4_format(const float* values, const float* group_absmax, const float* offset, int inputs) {
  CodeTable high = {NF4_BYTES}, low = {NF4_EXACT_LOW_BYTES};
  if (EXACT) high = {NF4_EXACT_HIGH_BYTES};
  high.keep_apart(u32(inputs) >> 31);
  if (EXACT) low.keep_apart(u32(inputs) >> 31);
  return {high, low, values, group_absmax, *offset, int(threadIdx.x % 32), inputs / 64};
}

#ifndef NF4_EXACT
#define NF4_EXACT false
#define NF4_KERNEL(ROWS, COLUMNS, SPLIT) nf4_gemv_r##ROWS##_c##COLUMNS##_s##SPLIT
#endif
// The second bound is how many blocks a processor has room for. Left alone with many columns, the
// compiler makes room for one more and spills a register for it.
#define VARIANT(ROWS, COLUMNS, SPLIT)                                                             \
  extern "C" __global__ void __launch_bounds__(GEMV_THREADS, COLUMNS > 4 ? (NF4_EXACT ? 4 : 6) : 0)\
      NF4_KERNEL(ROWS, COLUMNS, SPLIT)(GEMV_PARAMETERS, NF4_PARAMETERS) {                         \
    const auto format = nf4_format<NF4_EXACT>(values, group_absmax, offset, inputs);              \
    gemv<NF4<NF4_EXACT>, ROWS, COLUMNS, SPLIT>(format, GEMV_ARGUMENTS);                           \
  }                                                                                               \
  EXPORT_KERNEL_NAMED(NF4_KERNEL(ROWS, COLUMNS, SPLIT))
GEMV_VARIANTS
