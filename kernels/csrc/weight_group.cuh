// 32 weights as unsigned bytes, with one factor and what is to be subtracted: what Q4_0, Q4_1, Q5_0,
// Q5_1, Q4_K and Q5_K have in common.
//
// A group is 16 bytes of nibbles: byte i has weight i below weight 16 + i. The fifth bits of weights
// that have one are 4 bytes more: weight i keeps its lowest four bits in the nibble, weight 16 + i
// its highest four, so that one word of fifth bits serves both halves of a word of nibbles. Word j
// of the nibbles finds them at bits 4 and 3 of each byte once the word of bits is brought into place.
#pragma once
#include "q8_tile.cuh"

// 1.5 * 2^23. Added to the bits of this float, integers near zero are added to its value, so that
// sums need no conversion.
#define FLOAT_BASE 12582912.f
#define FLOAT_BASE_BITS 0x4b400000

// The scale of activations times a sum of integers that began at FLOAT_BASE_BITS. Only the last step
// rounds: FLOAT_BASE times a scale is exact, as q8_scale says.
DEVICE float scaled_dot(const Q8Group& x, int sum) {
  return fmaf(bits_to_float(sum), scale_of(x), -FLOAT_BASE * scale_of(x));
}

struct WeightGroup {
  u32 first[4], last[4];  // 16 weights each, the last ones times 16, or times 8 where they have five bits
  float scale, minimum;
};

DEVICE void take_nibbles(uint4 raw, WeightGroup& group) {
  const u32 nibbles[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    group.first[i] = nibbles[i] & 0x0f0f0f0fu;
    group.last[i] = nibbles[i] & 0xf0f0f0f0u;
  }
}

DEVICE void take_five_bits(uint4 raw, u32 bits, WeightGroup& group) {
  const u32 nibbles[4] = {raw.x, raw.y, raw.z, raw.w};
  const u32 places[4] = {bits, bits << 2, bits >> 2, funnel_shift_left(bits, bits, 4)};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u32 fifth = places[i] & 0x18181818u;
    group.first[i] = select_bits(nibbles[i], fifth, 0x0f0f0f0fu);
    group.last[i] = select_bits(nibbles[i], fifth, 0xf0f0f0f0u);
  }
}

// `sum` and the products of a group with one column's; `SHIFT` is 4 or 3, as the last weights want.
template <int SHIFT>
DEVICE float add_products(const WeightGroup& w, const Q8Group& x, float sum) {
  int first = dp4a_us(w.first[0], x.first.x, FLOAT_BASE_BITS), last = dp4a_us(w.last[0], x.last.x, 0);
  first = dp4a_us(w.first[1], x.first.y, first), last = dp4a_us(w.last[1], x.last.y, last);
  first = dp4a_us(w.first[2], x.first.z, first), last = dp4a_us(w.last[2], x.last.z, last);
  first = dp4a_us(w.first[3], x.first.w, first), last = dp4a_us(w.last[3], x.last.w, last);
  return fmaf(w.scale, scaled_dot(x, first + (last >> SHIFT)), fmaf(-w.minimum, scaled_sum_of(x), sum));
}
