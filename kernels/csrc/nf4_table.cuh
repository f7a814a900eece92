// NF4's sixteen values as bytes, and the look-up of four of them.
#pragma once
#include "portable.cuh"

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

  // The compiler keeps what it knows to be the same in all lanes in uniform registers, and copies it
  // for every look-up. It does not know that this shuffle of values plus `zero` changes nothing.
  DEVICE void keep_apart(u32 zero) {
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = __shfl_sync(EVERY_LANE, words[i] + zero, 0);
  }
};
