// What lies between the projections and the attention of a layer, in one launch: heads of queries and
// keys are brought to length and rotated to their positions; keys and values go to their pages, in
// the pages' type, and queries stay where they were. See kernels/attention/rope_append.py.
#pragma once
#include "hadamard.cuh"
#include "head.cuh"

#define WARPS_OF_BLOCK 4

// Keys or values of all tokens: heads of `type` at heads * `size` elements from token to token.
struct Pages {
  void* elements;  // (slots, kv_heads, size) of a type of elements, or codes
  u16* scales;     // (slots, kv_heads, blocks) half precision, of codes
  int type;
};

// Reciprocal of a scale as it is stored; none for a block of zeros.
DEVICE float stored_scale(float scale, u16* bits) {
  const float most = 65504.f;
  *bits = float_to_half(scale > most ? most : scale < -most ? -most : scale);
  const float stored = half_to_float(*bits);
  return stored == 0.f ? 0.f : 1.f / stored;
}

// A quad's codes, a byte each, and the scale of the block that it is a part of.
DEVICE u32 codes_of(const float (&x)[4], int block, int type, u16* scale) {
  const bool wide = type == PAGES_Q8;
  float most = 0.f, least = 0.f;  // of 8 bits: the largest size, and nothing
  if (wide) {
    most = max_or_nan(max_or_nan(fabsf(x[0]), fabsf(x[1])), max_or_nan(fabsf(x[2]), fabsf(x[3])));
  } else {
    most = max_or_nan(max_or_nan(x[0], x[1]), max_or_nan(x[2], x[3]));
    least = max_or_nan(max_or_nan(-x[0], -x[1]), max_or_nan(-x[2], -x[3]));
  }
  for (int offset = 1; offset < block / 4; offset *= 2) {
    most = max_or_nan(most, __shfl_xor_sync(EVERY_LANE, most, offset));
    if (!wide) least = max_or_nan(least, __shfl_xor_sync(EVERY_LANE, least, offset));
  }
  const float largest = wide ? most : least > most ? -least : most;
  const float inverse = stored_scale(rounded_product(largest, wide ? 1.f / 127.f : -0.125f), scale);
  u32 codes = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int code = round_to_int(rounded_product(x[k], inverse));
    const int bounded = wide ? max(-127, min(127, code)) : max(-8, min(7, code)) + 8;
    codes |= u32(bounded & 255) << (8 * k);
  }
  return codes;
}

// All lanes call it; `words` is room for a word a quad, for it alone.
template <int QUADS>
DEVICE void store_in_pages(const Pages& pages, Head<QUADS>& x, size_t head, int size, u32* words, int lane) {
  if (pages.type < PAGES_Q8) return store_head<QUADS>(pages.elements, head * size, x, size, pages.type, lane);
  const int block = min(32, size & -size), blocks = size / block;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < QUADS; ++i) {
    const int first = first_of(i, lane);
    u16 scale;
    hadamard(x[i], block, lane);
    const u32 codes = codes_of(x[i], block, pages.type, &scale);
    if (first >= size) continue;
    if (pages.type == PAGES_Q8) *reinterpret_cast<u32*>(static_cast<u8*>(pages.elements) + head * size + first) = codes;
    else words[first / 4] = codes;
    if (first % block == 0) pages.scales[head * blocks + first / block] = scale;
  }
  if (pages.type == PAGES_Q8) return;
  __syncwarp();
  // Half a head apart, whatever its size: they are other lanes' codes.
  const int half = size / 8;
  u8* const to = static_cast<u8*>(pages.elements) + head * (size / 2);
#pragma unroll
  for (int i = 0; i < (QUADS + 1) / 2; ++i) {
    const int word = lane + 32 * i;
    if (word < half) reinterpret_cast<u32*>(to)[word] = words[word] | words[word + half] << 4;
  }
}

// Products of a turned query x with a bias before it turns: those that belong to the cosines of
// any position in the first half, to the sines in the second.
DEVICE void store_bias_query(float* to, const float (&x)[4], const float (&before)[4], const Turn& turn,
                             const float* bias, int pairs) {
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (!turn.turns[k]) continue;
    const int pair = turn.pair[k];
    const float other = turned(turn.other[k], before[k], turn.cosine[k], -turn.sine[k]);
    const float sign = turn.second[k] ? -1.f : 1.f;
    to[turn.second[k] ? pair + pairs : pair] =
        rounded_sum(rounded_product(x[k], bias[pair]), sign * rounded_product(other, bias[pair + pairs]));
  }
}

// Only what no kernel of a step writes is __restrict__: the compiler may read such memory at any
// time, even before the wait for the previous kernel.
#define ROPE_APPEND_PARAMETERS                                                                       \
  void *query, const void *key, const void *value, int query_stride, int key_stride, int value_stride, \
      int query_type, int key_type, int value_type, const float *__restrict__ query_norm,           \
      const float *__restrict__ key_norm, float epsilon, const float *cosine, const float *sine,    \
      int pairs, int heads, int kv_heads, int value_heads, int size, const long long *slots,        \
      void *key_pages,                                                                               \
      u16 *key_scales, void *value_pages, u16 *value_scales, int page_type,                         \
      const float *__restrict__ key_bias, int leaves_bias, float *bias_query

// A warp has a head of a token: those of queries come first, then those of keys, then of values, of
// which there are none where an earlier layer has written them, or where they are parts of keys.
// Grid: tokens, heads of all three / 4 rounded up.
template <int QUADS>
DEVICE void rope_append(ROPE_APPEND_PARAMETERS) {
  SHARED_ARRAY(float, rows, WARPS_OF_BLOCK * 128 * QUADS);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, of_all = blockIdx.y * WARPS_OF_BLOCK + warp;
  if (of_all >= heads + kv_heads + value_heads) return;
  const bool is_query = of_all < heads, is_key = !is_query && of_all < heads + kv_heads;
  const bool is_value = !is_query && !is_key;
  const int head = is_query ? of_all : is_key ? of_all - heads : of_all - heads - kv_heads;
  const size_t token = blockIdx.x;
  float* const row = rows + warp * 128 * QUADS;

  const float* const norm = is_query ? query_norm : is_key ? key_norm : nullptr;
  Head<QUADS> x, weight;
  if (norm) load_head<QUADS>(weight, norm, 0, size, ELEMENT_F32, lane);
  wait_for_previous_kernel();
  const int type = is_query ? query_type : is_key ? key_type : value_type;
  const size_t place = token * (is_query ? query_stride : is_key ? key_stride : value_stride) + size_t(head) * size;
  load_head<QUADS>(x, is_query ? query : is_key ? key : value, place, size, type, lane);
  const size_t slot = is_query ? 0 : size_t(slots[token]);
  const int turning = is_value ? 0 : pairs;
  const Rotation rotation = {cosine + token * pairs, sine + token * pairs, turning};
  Turn turns[QUADS];
#pragma unroll
  for (int i = 0; i < QUADS; ++i) turns[i] = turn_of(first_of(i, lane), rotation);
  let_next_kernel_begin();

  if (is_key && key_bias && !leaves_bias) {
    Head<QUADS> bias;
    load_head<QUADS>(bias, key_bias, size_t(head) * size, size, ELEMENT_F32, lane);
#pragma unroll
    for (int i = 0; i < QUADS; ++i)
#pragma unroll
      for (int k = 0; k < 4; ++k) x[i][k] += bias[i][k];
  }
  if (norm) normalise_head<QUADS>(x, weight, epsilon, size);
  if (turning) {
    store_head<QUADS>(row, 0, x, size, ELEMENT_F32, lane);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < QUADS; ++i) {
      load_others(turns[i], row, pairs);
      const float before[4] = {x[i][0], x[i][1], x[i][2], x[i][3]};
      turn_quad(x[i], turns[i]);
      if (is_query && leaves_bias)
        store_bias_query(bias_query + (token * heads + head) * 2 * pairs, x[i], before, turns[i],
                         key_bias + size_t(head / (heads / kv_heads)) * size, pairs);
    }
  }
  if (is_query) {
    if (page_type >= PAGES_Q8) {
#pragma unroll
      for (int i = 0; i < QUADS; ++i) hadamard(x[i], min(32, size & -size), lane);
    }
    return store_head<QUADS>(query, place, x, size, type, lane);
  }
  const Pages pages = {is_key ? key_pages : value_pages, is_key ? key_scales : value_scales, page_type};
  store_in_pages<QUADS>(pages, x, slot * kv_heads + head, size, reinterpret_cast<u32*>(row), lane);
}

#define ROPE_APPEND_ARGUMENTS                                                                          \
  query, key, value, query_stride, key_stride, value_stride, query_type, key_type, value_type,         \
      query_norm, key_norm, epsilon, cosine, sine, pairs, heads, kv_heads, value_heads, size, slots,   \
      key_pages, key_scales, value_pages, value_scales, page_type, key_bias, leaves_bias, bias_query

// Heads of at most 128 elements.
extern "C" __global__ void __launch_bounds__(128) rope_append_128(ROPE_APPEND_PARAMETERS) {
  rope_append<1>(ROPE_APPEND_ARGUMENTS);
}
EXPORT_KERNEL(rope_append_128)

// Heads of at most 256 elements.
extern "C" __global__ void __launch_bounds__(128) rope_append_256(ROPE_APPEND_PARAMETERS) {
  rope_append<2>(ROPE_APPEND_ARGUMENTS);
}
EXPORT_KERNEL(rope_append_256)

// Heads of at most 512 elements.
extern "C" __global__ void __launch_bounds__(128) rope_append_512(ROPE_APPEND_PARAMETERS) {
  rope_append<4>(ROPE_APPEND_ARGUMENTS);
}
EXPORT_KERNEL(rope_append_512)

// Heads of at most 640 elements, without norms: those of latent attention.
extern "C" __global__ void __launch_bounds__(128) rope_append_640(ROPE_APPEND_PARAMETERS) {
  rope_append<5>(ROPE_APPEND_ARGUMENTS);
}
EXPORT_KERNEL(rope_append_640)
