// The header of a super-block of Q4_K and Q5_K: d and dmin (f16), then 96 bits, of which group g has
// twelve from bit 12 g on: its scale, then its minimum.
#pragma once
#include "weight_group.cuh"

struct KHeader {
  u32 shift;  // where this lane's twelve bits are
  bool in_first, in_second;

  DEVICE explicit KHeader(int lane)
      : shift(12u * (lane & 7) & 31), in_first((lane & 7) < 3), in_second((lane & 7) < 6) {}

  DEVICE void decode(uint4 header, WeightGroup& group) const {
    const u32 low = in_first ? header.y : (in_second ? header.z : header.w);
    const u32 high = in_first ? header.z : header.w;
    const u32 fields = funnel_shift_right(low, high, shift);
    group.scale = half_to_float(u16(header.x)) * float(int(fields & 63u));
    group.minimum = half_to_float(u16(header.x >> 16)) * float(int(fields >> 6 & 63u));
  }
};
