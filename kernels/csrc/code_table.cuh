// The sixteen values of NF4 and of four-bit floats as bytes, and the look-up of four of them.
#pragma once
#include "portable.cuh"

// The scale at which sixteen rounded bytes are nearest to the sixteen values: off by 0.33 %.
#define NF4_BYTE_SCALE 112.03f
#define NF4_BYTES {0xd4c5b290u, 0x00f6ebe0u, 0x261c1209u, 0x70513f31u}
// At 127 * 256 two bytes, a signed high and an unsigned low one, are off by 0.002 %.
#define NF4_EXACT_SCALE 32512.f
#define NF4_EXACT_HIGH_BYTES {0xcdbda781u, 0x00f4e8dbu, 0x2a1f140au, 0x7f5b4737u}
#define NF4_EXACT_LOW_BYTES {0xd8519500u, 0x007089e0u, 0xea42701bu, 0x00d174f8u}

// Twice the values of four-bit floats (E2M1), exactly.
#define E2M1_BYTES {0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu}

// One byte of each of the sixteen values, in the order of codes.
struct CodeTable {
  u32 words[4];

  // The bytes of four codes, which are the low 16 bits of `low`, each without its top bit; `select`
  // has nibble i, or i + 4 where the code's top bit is set.
  DEVICE u32 look_up(u32 low, u32 select) const {
    return permute_bytes(permute_bytes(words[0], words[1], low), permute_bytes(words[2], words[3], low), select);
  }

  // The bytes of 32 codes that follow one another.
  DEVICE void look_up_all(uint4 codes, u32 (&bytes)[8]) const {
    const u32 words[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const u32 index = words[i] & 0x77777777u, select = (words[i] >> 1 & 0x44444444u) | 0x32103210u;
      bytes[2 * i] = look_up(index, select);
      bytes[2 * i + 1] = look_up(index >> 16, select >> 16);
    }
  }

  // The compiler keeps what it knows to be the same in all lanes in uniform registers, and copies it
  // for every look-up. It does not know that this shuffle of values plus `zero` changes nothing.
  DEVICE void keep_apart(u32 zero) {
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = __shfl_sync(EVERY_LANE, words[i] + zero, 0);
  }
};
