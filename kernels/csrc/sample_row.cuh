// One row of logits as the sampling kernel sees it: what is asked, logits in order, chances as integers.
#pragma once
#include "portable.cuh"

#define LIKELIEST 0  // the largest logit, of equal ones the first
#define BY_PLACE 1   // a draw along the vocabulary
#define BY_RANK 2    // a draw along the logits in descending order

// Parameters of one draw; kernels/token_sampling.py fills them in.
struct SampleRow {
  u64 seed, place;               // of the random number: a stream, and where in it
  u64 top_p;                     // times 2^53; that much or more keeps all
  double log_min_p;              // minus infinity keeps all
  float scale_high, scale_low;   // their sum is log2(e) / temperature
  int top_k;                     // 0 keeps all
  int mode;
  int row, mask;                 // of the logits, and of the masks or -1
  u64 unused;
};

// Chances are sums of integers, so that no order of adding them gives another token. 2^44 is the
// likeliest one's: 2^19 tokens cannot overflow, and what is below 2^-44 of it never comes.
#define CHANCE_BITS 44
#define GROUP_BITS 31

// An order of logits without a comparison of floats. 0 is what cannot come: -infinity, NaN.
DEVICE u32 key_of(float logit) {
  const u32 bits = float_to_bits(rounded_sum(logit, 0.f));  // of the two zeros one
  return logit > bits_to_float(0xff800000) ? (bits >> 31 ? ~bits : bits | 0x80000000u) : 0;
}

DEVICE float logit_of(u32 key) { return bits_to_float(key >> 31 ? key & 0x7fffffff : ~key); }

// Logits and places in one order: of equal logits the first is the likelier. Vocabularies have less
// than 2^20 tokens.
#define PLACE_BITS 20
#define LAST_PLACE 0xfffffu
DEVICE u64 rank_of(u32 key, u32 place) { return u64(key) << PLACE_BITS | (LAST_PLACE - place); }
DEVICE u32 place_of(u64 rank) { return LAST_PLACE - u32(rank & LAST_PLACE); }

struct LogitRow {
  const float* logits;
  const u32* mask;  // a bit for each token, 1 for those that may come; null for all
  int vocab;

  DEVICE u32 key(int place) const {
    if (place >= vocab || (mask && !(mask[place >> 5] >> (place & 31) & 1))) return 0;
    return key_of(logits[place]);
  }
};

// mantissa · 2^exponent; the mantissa is zero or a normal float.
struct Power {
  float mantissa;
  int exponent;
};

// What a difference of logits is multiplied by.
struct Scale {
  float high, low;
};

// 2^((logit - peak) · scale) for a logit that is not above the peak, off by 1.5e-7 of it. Each
// step is rounded as IEEE says, so that a CPU finds the same bits.
DEVICE Power power_below(u32 key, u32 peak, Scale scale) {
  const float x = key == peak ? 0.f : logit_of(key) - logit_of(peak);
  const float t = rounded_product(x, scale.high);
  if (!(t > -100.f)) return {0.f, 0};
  const int whole = round_to_int(t);
  const float rest = rounded_sum(rounded_sum(t, -float(whole)), fmaf(x, scale.low, fmaf(x, scale.high, -t)));
  float y = 1.5252733804e-5f;  // ln(2)^k / k!
  y = fmaf(y, rest, 1.5403530393e-4f);
  y = fmaf(y, rest, 1.3333558146e-3f);
  y = fmaf(y, rest, 9.6181291076e-3f);
  y = fmaf(y, rest, 5.5504108665e-2f);
  y = fmaf(y, rest, 2.4022650696e-1f);
  y = fmaf(y, rest, 6.9314718056e-1f);
  return {fmaf(y, rest, 1.f), whole};
}

// The whole part of a power times 2^bits.
DEVICE u64 fixed_point(Power power, int bits) {
  const u32 word = float_to_bits(power.mantissa);
  const int shift = int(word >> 23) - 150 + power.exponent + bits;
  if (!word || shift <= -24) return 0;
  const u64 digits = (word & 0x7fffff) | 0x800000;
  return shift >= 0 ? digits << shift : digits >> -shift;
}

// How much of `total` comes before a share of `share` / 2^53, rounded up; at least 1.
DEVICE u64 share_of(u64 total, u64 share) {
  const u64 high = multiply_high(total, share), low = total * share;
  const u64 whole = (high << 11 | low >> 53) + ((low & ((1ull << 53) - 1)) != 0);
  return whole ? whole : 1;
}

// The random number of a place in a stream, above 0 and up to 2^53: the first two words of
// Philox4x32-10 (Salmon et al. 2011).
DEVICE u64 random_share(u64 seed, u64 place) {
  u32 a = u32(place), b = u32(place >> 32), c = 0, d = 0;
  u32 low = u32(seed), high = u32(seed >> 32);
#pragma unroll 1
  for (int round = 0; round < 10; ++round) {
    const u64 first = u64(a) * 0xd2511f53u, second = u64(c) * 0xcd9e8d57u;
    a = u32(second >> 32) ^ b ^ low;
    b = u32(second);
    c = u32(first >> 32) ^ d ^ high;
    d = u32(first);
    low += 0x9e3779b9u;
    high += 0xbb67ae85u;
  }
  return ((u64(a) << 32 | b) >> 11) + 1;
}

// Of a warp: the sum over all lanes up to this one.
DEVICE u64 sum_up_to_lane(u64 value) {
#pragma unroll
  for (int offset = 1; offset < 32; offset <<= 1) {
    const u64 other = __shfl_up_sync(EVERY_LANE, value, offset);
    if ((threadIdx.x & 31) >= unsigned(offset)) value += other;
  }
  return value;
}
