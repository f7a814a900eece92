// One kernel for each primitive of portable.cuh, so that a GPU can be compared with the C++ twins on
// random bits: bench/gpu/conformance.py runs both.
//
// All have one signature. Lane l of warp w reads word i of its input at in[(w * INPUTS + i) * 32 + l],
// and writes word i of its output at out[(w * OUTPUTS + i) * 32 + l]. Blocks are one warp.
#pragma once
#include "reduce.cuh"

#define PRIMITIVE(NAME, INPUTS, OUTPUTS)                                                          \
  DEVICE void on_##NAME(const u32 (&in)[INPUTS], u32 (&out)[OUTPUTS], const u32* all, u32* memory, int lane); \
  extern "C" __global__ void __launch_bounds__(32)                                                \
      conform_##NAME(const u32* __restrict__ in, u32* __restrict__ out) {                         \
    const int lane = threadIdx.x;                                                                 \
    const u32* const own = in + size_t(blockIdx.x) * INPUTS * 32;                                 \
    u32 words[INPUTS], results[OUTPUTS];                                                          \
    for (int i = 0; i < INPUTS; ++i) words[i] = own[i * 32 + lane];                               \
    for (int i = 0; i < OUTPUTS; ++i) results[i] = 0;                                             \
    u32* const memory = out + size_t(blockIdx.x) * OUTPUTS * 32;                                  \
    on_##NAME(words, results, own, memory, lane);                                                 \
    for (int i = 0; i < OUTPUTS; ++i) memory[i * 32 + lane] = results[i];                         \
  }                                                                                               \
  EXPORT_KERNEL(conform_##NAME)                                                                   \
  DEVICE void on_##NAME([[maybe_unused]] const u32 (&in)[INPUTS], u32 (&out)[OUTPUTS],            \
                        [[maybe_unused]] const u32* all, [[maybe_unused]] u32* memory, [[maybe_unused]] int lane)

PRIMITIVE(permute_bytes, 3, 1) { out[0] = permute_bytes(in[0], in[1], in[2]); }
PRIMITIVE(funnel_shift_right, 3, 1) { out[0] = funnel_shift_right(in[0], in[1], in[2]); }
PRIMITIVE(funnel_shift_left, 3, 1) { out[0] = funnel_shift_left(in[0], in[1], in[2]); }
PRIMITIVE(select_bits, 3, 1) { out[0] = select_bits(in[0], in[1], in[2]); }

PRIMITIVE(wide_integers, 4, 3) {
  const u64 a = u64(in[0]) << 32 | in[1], b = u64(in[2]) << 32 | in[3], product = multiply_high(a, b);
  out[0] = u32(product), out[1] = u32(product >> 32);
  out[2] = leading_zeros(a >> (in[2] & 63)) * 64 + lowest_one(in[3] | 0x80000000u);
}
PRIMITIVE(dp4a_us, 3, 1) { out[0] = dp4a_us(in[0], in[1], in[2]); }
PRIMITIVE(dp4a_ss, 3, 1) { out[0] = dp4a_ss(in[0], in[1], in[2]); }
PRIMITIVE(dp2a_low, 3, 1) { out[0] = dp2a_low(in[0], in[1], in[2]); }
PRIMITIVE(dp2a_high, 3, 1) { out[0] = dp2a_high(in[0], in[1], in[2]); }

PRIMITIVE(half_to_float, 1, 1) { out[0] = float_to_bits(half_to_float(u16(in[0]))); }
PRIMITIVE(bf16_to_float, 1, 1) { out[0] = float_to_bits(bf16_to_float(u16(in[0]))); }
PRIMITIVE(float_to_half, 1, 1) { out[0] = float_to_half(bits_to_float(in[0])); }
PRIMITIVE(float_to_bf16, 1, 1) { out[0] = float_to_bf16(bits_to_float(in[0])); }
PRIMITIVE(round_to_int, 1, 1) { out[0] = round_to_int(bits_to_float(in[0])); }
PRIMITIVE(max_or_nan, 2, 1) { out[0] = float_to_bits(max_or_nan(bits_to_float(in[0]), bits_to_float(in[1]))); }
PRIMITIVE(logistic, 1, 1) { out[0] = float_to_bits(logistic(bits_to_float(in[0]))); }
PRIMITIVE(rounded, 3, 1) {
  const float product = rounded_product(bits_to_float(in[0]), bits_to_float(in[1]));
  out[0] = float_to_bits(rounded_sum(product, bits_to_float(in[2])));
}

PRIMITIVE(shuffle, 2, 1) { out[0] = __shfl_sync(EVERY_LANE, in[0], int(in[1] & 31)); }
PRIMITIVE(shuffle_xor, 1, 5) {
  for (int i = 0; i < 5; ++i) out[i] = __shfl_xor_sync(EVERY_LANE, in[0], 1 << i);
}
PRIMITIVE(shuffle_up_down, 1, 4) {
  out[0] = __shfl_up_sync(EVERY_LANE, in[0], 1);
  out[1] = __shfl_up_sync(EVERY_LANE, in[0], 7);
  out[2] = __shfl_down_sync(EVERY_LANE, in[0], 1);
  out[3] = __shfl_down_sync(EVERY_LANE, in[0], 19);
}
PRIMITIVE(ballot, 1, 2) {
  out[0] = __ballot_sync(EVERY_LANE, in[0] & 1);
  const u32 half = lane < 16 ? 0xffffu : 0xffff0000u;
  out[1] = __ballot_sync(half, in[0] & 2);
}
PRIMITIVE(sum_over_lanes_1, 1, 1) {
  float value[1] = {float(int(in[0]) >> 12)};
  sum_over_lanes(value);
  out[0] = float_to_bits(value[0]);
}
PRIMITIVE(sum_over_lanes_16, 16, 1) {
  float values[16];
  for (int i = 0; i < 16; ++i) values[i] = float(int(in[i]) >> 12);
  sum_over_lanes(values);
  out[0] = float_to_bits(values[0]);
}

PRIMITIVE(over_lanes, 1, 2) {
  out[0] = largest_of_lanes(in[0]);
  out[1] = sum_of_lanes(in[0]);
}

PRIMITIVE(loads, 4, 13) {
  const u32* const address = all + (lane * 11 % 32) * 4;
  const uint4 a = load_streaming_16(address), b = load_16(address);
  const uint2 c = load_streaming_8(address + 2), d = load_8(address + 2);
  const u32 last = load_streaming_2((const u16*)address + 3);
  const u32 values[13] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, c.x, c.y, last, d.x, d.y};
  for (int i = 0; i < 13; ++i) out[i] = values[i];
}

// Sums, counts, and what other lanes stored, in the memory that is the results' in the end.
PRIMITIVE(memory, 2, 6) {
  memory[lane] = float_to_bits(float(int(in[0]) >> 12));
  memory[32 + lane] = in[1] % 8;
  __syncwarp();
  add_in_memory(reinterpret_cast<float*>(memory) + lane * 5 % 32, float(int(in[1]) >> 12));
  out[0] = count_in_memory(memory + 32 + lane * 7 % 32, 5);
  __threadfence();
  __syncwarp();
  const uint4 fresh = load_fresh_16(memory + lane % 8 * 4);
  out[1] = memory[32 + lane], out[2] = fresh.x, out[3] = fresh.y, out[4] = fresh.z, out[5] = fresh.w;
  __syncwarp();
}

PRIMITIVE(copy_async, 8, 8) {
  SHARED_ARRAY(u32, stages, 2 * 32 * 4);
  copy_async_16(stages + lane * 4, all + lane * 4);
  commit_copies();
  copy_async_16(stages + 128 + lane * 4, all + 128 + lane * 4, lane % 5 * 4);
  commit_copies();
  wait_for_copies<1>();
  __syncwarp();
  for (int i = 0; i < 4; ++i) out[i] = stages[(lane ^ 1) * 4 + i];
  wait_for_copies<0>();
  __syncwarp();
  for (int i = 0; i < 4; ++i) out[4 + i] = stages[128 + (31 - lane) * 4 + i];
}

PRIMITIVE(load_matrix, 4, 8) {
  SHARED_ARRAY(u32, rows, 32 * 4);
  for (int i = 0; i < 4; ++i) rows[lane * 4 + i] = in[i];
  __syncwarp();
  u32 plain[4], transposed[4];
  load_matrix_x4(plain, rows + (lane * 5 % 32) * 4);
  load_matrix_x4_transposed(transposed, rows + (lane * 5 % 32) * 4);
  for (int i = 0; i < 4; ++i) out[i] = plain[i], out[4 + i] = transposed[i];
}

// Words of fragments a (4), b (2) and c (4).
#define MATRIX_PRIMITIVE(NAME, TYPE, FROM_BITS, TO_BITS)                                          \
  PRIMITIVE(NAME, 10, 4) {                                                                        \
    const u32 a[4] = {in[0], in[1], in[2], in[3]}, b[2] = {in[4], in[5]};                         \
    TYPE c[4] = {FROM_BITS(in[6]), FROM_BITS(in[7]), FROM_BITS(in[8]), FROM_BITS(in[9])};         \
    NAME(c, a, b);                                                                                \
    for (int i = 0; i < 4; ++i) out[i] = TO_BITS(c[i]);                                           \
  }
MATRIX_PRIMITIVE(mma_u8s8, int, int, u32)
MATRIX_PRIMITIVE(mma_s8s8, int, int, u32)
MATRIX_PRIMITIVE(mma_f16, float, bits_to_float, float_to_bits)
MATRIX_PRIMITIVE(mma_bf16, float, bits_to_float, float_to_bits)

// Sums begin at c, which has to stay; of the third product only half of a and b count.
PRIMITIVE(mma_onto, 10, 16) {
  const u32 a[4] = {in[0], in[1], in[2], in[3]}, b[2] = {in[4], in[5]};
  const int c[4] = {int(in[6]), int(in[7]), int(in[8]), int(in[9])};
  int mixed[4], both[4], half[4];
  mma_u8s8_onto(mixed, c, a, b);
  mma_s8s8_onto(both, c, a, b);
  mma_half_s8s8_onto(half, c, a[2], a[3], b[1]);
  for (int i = 0; i < 4; ++i) out[i] = mixed[i], out[4 + i] = both[i], out[8 + i] = half[i], out[12 + i] = c[i];
}

PRIMITIVE(copy_async_few, 3, 7) {
  SHARED_ARRAY(u32, few, 32 * 3);
  copy_async<8>(few + lane * 2, all + lane * 2, lane % 3 * 4);
  copy_async<4>(few + 64 + lane, all + 64 + lane, lane % 2 * 4);
  commit_copies();
  wait_for_copies<0>();
  __syncwarp();
  for (int i = 0; i < 2; ++i) out[i] = few[(lane ^ 1) * 2 + i];
  out[2] = few[64 + (31 - lane)];
  const uint4 v = load_written_16(all + lane % 8 * 4);
  out[3] = v.x, out[4] = v.y, out[5] = v.z, out[6] = v.w;
}
