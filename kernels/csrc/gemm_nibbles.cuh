// Fragments of weights of four or five bits, whose nibbles are 16 bytes a group at the beginning of a
// slab's rows: byte i has weight i below weight 16 + i.
#pragma once
#include "gemm.cuh"

// Unsigned as they are; or 8 too large in memory, then 16 times too large in a fragment.
template <int ROW_BYTES, bool SIGNED>
DEVICE void load_nibbles(u32 (&a)[2][4], const u8* rows, int pair) {
  u32 words[4];
  load_words<ROW_BYTES>(words, rows, pair);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u32 first = SIGNED ? (words[i] << 4 & 0xf0f0f0f0u) ^ 0x80808080u : words[i] & 0x0f0f0f0fu;
    const u32 last = SIGNED ? (words[i] & 0xf0f0f0f0u) ^ 0x80808080u : words[i] >> 4 & 0x0f0f0f0fu;
    a[i / 2][i % 2] = first, a[i / 2][i % 2 + 2] = last;
  }
}

// With the fifth bits as weight_group.cuh has them, 4 bytes a group from BITS on: 8 times too large; or 16
// too large in memory as well, and then signed.
template <int ROW_BYTES, int BITS, bool SIGNED>
DEVICE void load_five_bits(u32 (&a)[2][4], const u8* rows, int pair) {
  const int lane = threadIdx.x % 32;
  const u32 rotation = 0x041e0200u >> lane % 4 * 8;
  u32 words[4];
  load_words<ROW_BYTES>(words, rows, pair);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u8* const row = rows + (lane / 4 + i % 2 * 8) * ROW_BYTES;
    const u32 bits = *reinterpret_cast<const u32*>(row + BITS + (2 * pair + i / 2) * 4);
    const u32 fifth = funnel_shift_left(bits, bits, rotation) & 0x18181818u;
    const u32 first = select_bits(words[i], fifth, 0x0f0f0f0fu) & 0x1f1f1f1fu;
    const u32 last = select_bits(words[i], fifth, 0xf0f0f0f0u) & 0xf8f8f8f8u;
    const u32 flipped = SIGNED ? 0x80808080u : 0;
    a[i / 2][i % 2] = first << 3 ^ flipped, a[i / 2][i % 2 + 2] = last ^ flipped;
  }
}
