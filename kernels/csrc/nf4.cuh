// NF4 weights as kernels/repacked_nf4.py lays them out (drawn in docs/kernels.md): a row is tiles of
// 1024 weights, the last one maybe shorter; a tile is 16 bytes of codes for each of its groups of 32,
// low nibbles first, then one byte for each of its blocks of 64.
//
// A code becomes a byte by permutations: 16 bytes fit into four registers. One byte a code is off by
// 0.33 % of a weight's size, where activations as bytes are off by 0.7 % and NF4 itself by 9 %. EXACT
// (nf4_exact.cuh) takes two bytes, off by 0.002 %, and one and a half times the instructions.
#pragma once
#include "gemv.cuh"

#define NF4_TILE_BYTES 528

// The scale at which sixteen rounded bytes are nearest to the sixteen values: off by 0.33 %.
#define NF4_BYTE_SCALE 112.03f
#define NF4_BYTES {0xd4c5b290u, 0x00f6ebe0u, 0x261c1209u, 0x70513f31u}
// At 127 * 256 two bytes, a signed high and an unsigned low one, are off by 0.002 %.
#define NF4_EXACT_SCALE 32512.f
#define NF4_EXACT_HIGH_BYTES {0xcdbda781u, 0x00f4e8dbu, 0x2a1f140au, 0x7f5b4737u}
#define NF4_EXACT_LOW_BYTES {0xd8519500u, 0x007089e0u, 0xea42701bu, 0x00d174f8u}

// One byte of each of the sixteen values, in the order of codes.
struct NF4Table {
  u32 words[4];

  // The bytes of four codes, which are the low 16 bits of `low`, each without its top bit; `select`
  // has nibble i, or i + 4 where the code's top bit is set.
  DEVICE u32 look_up(u32 low, u32 select) const {
    return permute_bytes(permute_bytes(words[0], words[1], low), permute_bytes(words[2], words[3], low), select);
  }
};

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
  NF4Table high, low;
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
    const u32 codes[4] = {raw.codes.x, raw.codes.y, raw.codes.z, raw.codes.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const u32 index = codes[i] & 0x77777777u, select = (codes[i] >> 1 & 0x44444444u) | 0x32103210u;
      group.high[2 * i] = high.look_up(index, select);
      group.high[2 * i + 1] = high.look_up(index >> 16, select >> 16);
      if constexpr (EXACT) {
        group.low[2 * i] = low.look_up(index, select);
        group.low[2 * i + 1] = low.look_up(index >> 16, select >> 16);
      }
    }
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
  NF4Table exact_high = {NF4_EXACT_HIGH_BYTES}, low = {NF4_EXACT_LOW_BYTES}, bytes = {NF4_BYTES};
  // The compiler keeps what it knows to be the same in all lanes in uniform registers, and copies it
  // for every look-up. It does not know that this shuffle of values plus zero changes nothing.
  const u32 zero = u32(inputs) >> 31;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    exact_high.words[i] = __shfl_sync(EVERY_LANE, (EXACT ? exact_high : bytes).words[i] + zero, 0);
    if (EXACT) low.words[i] = __shfl_sync(EVERY_LANE, low.words[i] + zero, 0);
  }
  return {exact_high, low, values, group_absmax, *offset, int(threadIdx.x % 32), inputs / 64};
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
