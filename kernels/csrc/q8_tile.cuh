// Activations as signed bytes, one scale for 32 of them: what every product with bytes reads.
//
// 1024 inputs of a column (one token's vector) are a tile of 1536 bytes: the first 16 bytes of each
// of its 32 groups, the last 16 of each, then 16 bytes of facts of each. So a lane that owns a group
// of 32 weights reads three times 16 bytes, each time next to its neighbours' ones. The tiles of
// all columns lie together: (tiles, columns, 1536), and a kernel that knows how many columns there
// are finds them at fixed distances.
//
// Facts: scale (f32); scale times the sum of the bytes (f32, since 16 bits overflow); -32 times the
// sum of the first and of the last 16 (s32), which is what weights stored 32 too large add too much.
#pragma once
#include "portable.cuh"

#define Q8_TILE_INPUTS 1024
#define Q8_TILE_BYTES 1536

struct Q8Group {
  uint4 first, last, facts;
};

// `tile` points to this lane's 16 bytes.
DEVICE Q8Group load_q8_group(const u8* tile) { return {load_16(tile), load_16(tile + 512), load_16(tile + 1024)}; }

DEVICE float scale_of(const Q8Group& group) { return bits_to_float(group.facts.x); }
DEVICE float scaled_sum_of(const Q8Group& group) { return bits_to_float(group.facts.y); }

// The scale of a group by its largest size. Its two lowest bits are zeros, so that three times it, and
// with that 1.5 * 2^23 times it, is a float without rounding: sums of integers that begin at the bits
// of 1.5 * 2^23 become scaled floats in one multiply-add.
DEVICE float q8_scale(float largest) { return bits_to_float(float_to_bits(largest / 127.f) & ~3u); }
