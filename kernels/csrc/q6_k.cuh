// Q6_K weights as kernels/formats/repacked_k_quants.py lays them out (drawn in docs/kernels.md): a row is tiles of
// four super-blocks, the last one maybe of fewer, then the scales (f16) of all its super-blocks. A
// tile is 16 bytes of nibbles for each of its groups, 8 bytes of pairs of bits for each, and 2 signed
// bytes of scales for each.
#pragma once
#include "gemv.cuh"

#define Q6_K_TILE_BYTES 832

struct Q6K {
  struct Cursor {
    const u8 *tile, *d;
  };
  struct Raw {
    uint4 nibbles;
    uint2 bits;
    u16 scales, d;
  };
  // The first 16 weights lie 32 too high, which the facts of activations make up for. The last 16 are
  // signed, and 4 times too large, as the factor of the first therefore is too.
  struct Group {
    u32 first[4], last[4];
    int first_factor, last_factor;
    float scale;
  };
  int lane, blocks;

  DEVICE Q6K(int lane, int inputs) : lane(lane), blocks(inputs / 256) {}

  DEVICE Cursor at(const u8* row, int, int tile) const {
    return {row + tile * Q6_K_TILE_BYTES, row + blocks * 208 + tile * 8 + lane / 8 * 2};
  }
  DEVICE void advance(Cursor& cursor, int tiles) const {
    cursor.tile += tiles * Q6_K_TILE_BYTES;
    cursor.d += tiles * 8;
  }

  DEVICE Raw load(const Cursor& cursor, int groups) const {
    const u8* const tile = cursor.tile;
    return {load_streaming_16(tile + lane * 16), load_streaming_8(tile + groups * 16 + lane * 8),
            load_streaming_2(tile + groups * 24 + lane * 2), load_streaming_2(cursor.d)};
  }

  DEVICE Group decode(const Raw& raw) const {
    Group group;
    const u32 nibbles[4] = {raw.nibbles.x, raw.nibbles.y, raw.nibbles.z, raw.nibbles.w};
    // A rotation brings the pairs of bits of the odd words to where those of the even ones are: bits
    // 4 and 5 of a byte for the first weights, 2 and 3 for the last.
    const u32 bits[4] = {raw.bits.x, funnel_shift_left(raw.bits.x, raw.bits.x, 4), raw.bits.y,
                         funnel_shift_left(raw.bits.y, raw.bits.y, 4)};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const u32 pairs = bits[i] & 0x3c3c3c3cu;
      group.first[i] = select_bits(nibbles[i], pairs, 0x0f0f0f0fu);
      group.last[i] = select_bits(nibbles[i], pairs, 0xf0f0f0f0u);
    }
    group.first_factor = 4 * int(s8(raw.scales & 0xff));
    group.last_factor = int(s8(raw.scales >> 8));
    group.scale = 0.25f * half_to_float(raw.d);
    return group;
  }

  DEVICE float product(const Group& w, const Q8Group& x, float sum) const {
    int first = dp4a_us(w.first[0], x.first.x, int(x.facts.z)), last = dp4a_ss(w.last[0], x.last.x, 0);
    first = dp4a_us(w.first[1], x.first.y, first), last = dp4a_ss(w.last[1], x.last.y, last);
    first = dp4a_us(w.first[2], x.first.z, first), last = dp4a_ss(w.last[2], x.last.z, last);
    first = dp4a_us(w.first[3], x.first.w, first), last = dp4a_ss(w.last[3], x.last.w, last);
    const int dot = first * w.first_factor + last * w.last_factor;
    return sum + w.scale * (scale_of(x) * float(dot));
  }
};

#define VARIANT(ROWS, COLUMNS, SPLIT)                                                             \
  extern "C" __global__ void __launch_bounds__(GEMV_THREADS, GEMV_BLOCKS(77777500, COLUMNS))      \
      q6_k_gemv_r##ROWS##_c##COLUMNS##_s##SPLIT(GEMV_PARAMETERS) {                                \
    gemv<Q6K, ROWS, COLUMNS, SPLIT>(Q6K(threadIdx.x % 32, inputs), GEMV_ARGUMENTS);               \
  }                                                                                               \
  EXPORT_KERNEL(q6_k_gemv_r##ROWS##_c##COLUMNS##_s##SPLIT)
GEMV_VARIANTS
