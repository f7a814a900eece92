// Rows of weights as numbers: those that token ids name (an embedding), or some that follow one
// another (for a product with a plain matrix). Every value is the one that kernels/formats/dequantize.py
// has, bit for bit; 16-bit ones are it, rounded once.
//
// A thread takes 16 weights, half of a group of 32: eight bytes of nibbles, and what its neighbour
// needs too. It writes two runs of eight values, so that a warp's stores fill whole sectors. What
// limits it is memory, of which most is what it writes.
//
// How rows lie in memory is drawn in docs/kernels.md; all of them are tiles of 32 groups, the last
// one maybe of fewer. A Format says what 16 weights are:
//   void read(const u8* row, size_t number, u32 half, float (&values)[16])
//   int RUN   how far its second eight values are behind its first eight; HALF how far its halves
#pragma once
#include "code_table.cuh"
#include "elements.cuh"
#include "g4_word.cuh"
#include "mxfp4_scale.cuh"

struct RowsArguments {
  const u8* weights;
  void* out;  // (rows asked for, inputs)
  int rows;
  u32 inputs;
  size_t row_bytes;
  int type;
};

// Where half a group is in its row.
struct HalfPlace {
  u32 tile, group, groups, half;  // `group` of the `groups` that are in the tile
  DEVICE HalfPlace(u32 inputs, u32 number) : tile(number / 64), group(number / 2 % 32), half(number % 2) {
    groups = min(32u, inputs / 32 - tile * 32);
  }
};

// ---- from bytes to floats

// Eight unsigned bytes, from each of which `zero` is to be taken, times `scale`: without conversions,
// since a byte is the end of a float that is 2^23 too large.
DEVICE void scale_bytes(const u32 (&words)[2], float zero, float scale, float* values) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const u32 bits = permute_bytes(words[i / 4], 0x4b000000u, 0x7440u | i % 4);
    values[i] = rounded_product(bits_to_float(bits) - (8388608.f + zero), scale);
  }
}

struct HalfGroup {
  u32 first[2], last[2];  // eight unsigned bytes each
};

DEVICE HalfGroup nibbles_of(uint2 raw) {
  return {{raw.x & 0x0f0f0f0fu, raw.y & 0x0f0f0f0fu}, {raw.x >> 4 & 0x0f0f0f0fu, raw.y >> 4 & 0x0f0f0f0fu}};
}

// See weight_group.cuh, which has the words of both halves.
DEVICE HalfGroup five_bits_of(uint2 raw, u32 bits, u32 half) {
  const u32 places[2] = {half ? bits >> 2 : bits, half ? funnel_shift_left(bits, bits, 4) : bits << 2};
  const u32 nibbles[2] = {raw.x, raw.y};
  HalfGroup found;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    found.first[i] = (nibbles[i] & 0x0f0f0f0fu) | (places[i] & 0x10101010u);
    found.last[i] = (nibbles[i] >> 3 & 0x1e1e1e1eu) | (places[i] >> 3 & 0x01010101u);
  }
  return found;
}

// ---- formats

// Q4_0, Q4_1, Q5_0 and Q5_1.
template <int BITS, bool MINIMA>
struct BlockRows {
  static constexpr int RUN = 16, HALF = 8, BIT_BYTES = BITS == 5 ? 4 : 0, SCALE_BYTES = MINIMA ? 4 : 2;
  u32 inputs;

  DEVICE void read(const u8* row, size_t, u32 number, float (&values)[16]) const {
    const HalfPlace at(inputs, number);
    const u8* const tile = row + at.tile * (32 * (16 + BIT_BYTES + SCALE_BYTES));
    const u8* const scales = tile + at.groups * (16 + BIT_BYTES) + at.group * SCALE_BYTES;
    const uint2 raw = load_streaming_8(tile + at.group * 16 + at.half * 8);
    const u32 bits = BITS == 5 ? load_streaming_4(tile + at.groups * 16 + at.group * 4) : 0;
    const u32 both = MINIMA ? load_streaming_4(scales) : load_streaming_2(scales);
    const HalfGroup weights = BITS == 5 ? five_bits_of(raw, bits, at.half) : nibbles_of(raw);
    const float scale = half_to_float(u16(both)), zero = MINIMA ? 0.f : float(1 << BITS >> 1);
    scale_bytes(weights.first, zero, scale, values);
    scale_bytes(weights.last, zero, scale, values + 8);
    if (!MINIMA) return;
    const float minimum = half_to_float(u16(both >> 16));
#pragma unroll
    for (int i = 0; i < 16; ++i) values[i] = rounded_sum(values[i], minimum);
  }
};

struct Q80Rows {
  static constexpr int RUN = 16, HALF = 8;
  u32 inputs;

  DEVICE void read(const u8* row, size_t, u32 number, float (&values)[16]) const {
    const HalfPlace at(inputs, number);
    const u8* const tile = row + at.tile * 1088;
    const uint2 first = load_streaming_8(tile + at.group * 16 + at.half * 8);
    const uint2 last = load_streaming_8(tile + (at.groups + at.group) * 16 + at.half * 8);
    const float scale = half_to_float(load_streaming_2(tile + at.groups * 32 + at.group * 2));
    scale_bytes({first.x ^ 0x80808080u, first.y ^ 0x80808080u}, 128.f, scale, values);
    scale_bytes({last.x ^ 0x80808080u, last.y ^ 0x80808080u}, 128.f, scale, values + 8);
  }
};

// Q4_K and Q5_K.
template <int BITS>
struct KRows {
  static constexpr int RUN = 16, HALF = 8, GROUP_BYTES = BITS == 5 ? 20 : 16;
  u32 inputs;

  DEVICE void read(const u8* row, size_t, u32 number, float (&values)[16]) const {
    const HalfPlace at(inputs, number);
    const u8* const tile = row + at.tile * (32 * GROUP_BYTES + 64);
    const uint2 raw = load_streaming_8(tile + at.group * 16 + at.half * 8);
    const u32 bits = BITS == 5 ? load_streaming_4(tile + at.groups * 16 + at.group * 4) : 0;
    const uint4 header = load_streaming_16(tile + at.groups * GROUP_BYTES + at.group / 8 * 16);
    const HalfGroup weights = BITS == 5 ? five_bits_of(raw, bits, at.half) : nibbles_of(raw);
    const u32 group = at.group % 8;
    const u32 low = group < 3 ? header.y : (group < 6 ? header.z : header.w);
    const u32 fields = funnel_shift_right(low, group < 3 ? header.z : header.w, 12 * group);
    const float scale = rounded_product(half_to_float(u16(header.x)), float(int(fields & 63u)));
    const float minimum = rounded_product(half_to_float(u16(header.x >> 16)), float(int(fields >> 6 & 63u)));
    scale_bytes(weights.first, 0.f, scale, values);
    scale_bytes(weights.last, 0.f, scale, values + 8);
#pragma unroll
    for (int i = 0; i < 16; ++i) values[i] = rounded_sum(values[i], -minimum);
  }
};

struct Q6KRows {
  static constexpr int RUN = 16, HALF = 8;
  u32 inputs;

  DEVICE void read(const u8* row, size_t, u32 number, float (&values)[16]) const {
    const HalfPlace at(inputs, number);
    const u8* const tile = row + at.tile * 832;
    const uint2 raw = load_streaming_8(tile + at.group * 16 + at.half * 8);
    const u32 bits = load_streaming_4(tile + at.groups * 16 + at.group * 8 + at.half * 4);
    const u32 scales = load_streaming_2(tile + at.groups * 24 + at.group * 2);
    const float d = half_to_float(load_streaming_2(row + inputs / 256 * 208 + at.tile * 8 + at.group / 8 * 2));
    // As in q6_k.cuh; the last weights are signed there, here they are 32 too large as the first.
    const u32 words[2] = {raw.x, raw.y}, pairs[2] = {bits, funnel_shift_left(bits, bits, 4)};
    HalfGroup weights;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      weights.first[i] = select_bits(words[i], pairs[i], 0x0f0f0f0fu) & 0x3f3f3f3fu;
      weights.last[i] = (select_bits(words[i], pairs[i], 0xf0f0f0f0u) >> 2 & 0x3f3f3f3fu) ^ 0x20202020u;
    }
    scale_bytes(weights.first, 32.f, rounded_product(d, float(int(s8(scales & 0xff)))), values);
    scale_bytes(weights.last, 32.f, rounded_product(d, float(int(s8(scales >> 8)))), values + 8);
  }
};

// NF4 with nested scales. `table` has the sixteen values.
struct NF4Rows {
  static constexpr int RUN = 8, HALF = 16;
  u32 inputs;
  const float *table, *values, *group_absmax, *offset;

  DEVICE void read(const u8* row, size_t number_of_row, u32 number, float (&out)[16]) const {
    const HalfPlace at(inputs, number);
    const u8* const tile = row + at.tile * 528;
    const uint2 raw = load_streaming_8(tile + at.group * 16 + at.half * 8);
    const size_t block = number_of_row * (inputs / 64) + at.tile * 16 + at.group / 2;
    const u8 absmax = tile[at.groups * 16 + at.group / 2];
    const float scale = rounded_sum(rounded_product(values[absmax], group_absmax[block / 256]), *offset);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const u32 code = (i < 8 ? raw.x : raw.y) >> (i % 8 * 4) & 15;
      out[i] = rounded_product(table[code], scale);
    }
  }
};

// MXFP4: codes as NF4's.
struct MXFP4Rows {
  static constexpr int RUN = 8, HALF = 16;
  u32 inputs;

  DEVICE void read(const u8* row, size_t, u32 number, float (&out)[16]) const {
    const HalfPlace at(inputs, number);
    const u8* const tile = row + at.tile * MXFP4_TILE_BYTES;
    const uint2 raw = load_streaming_8(tile + at.group * 16 + at.half * 8);
    const float scale = mxfp4_scale(tile[at.groups * 16 + at.group]);
    const CodeTable table = {E2M1_BYTES};
    const u32 codes[2] = {raw.x, raw.y};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const u32 four = codes[i / 2] >> i % 2 * 16, select = (four >> 1 & 0x4444u) | 0x3210u;
      const u32 bytes = table.look_up(four & 0x7777u, select);
#pragma unroll
      for (int j = 0; j < 4; ++j) out[4 * i + j] = rounded_product(float(int(s8(bytes >> 8 * j & 0xff))), scale);
    }
  }
};

// Four bits in groups of `group`.
struct G4Rows {
  static constexpr int RUN = 16, HALF = 8;
  u32 inputs, group;

  DEVICE void read(const u8* row, size_t, u32 number, float (&values)[16]) const {
    const HalfPlace at(inputs, number);
    const u8* const tile = row + at.tile * g4_tile_bytes(group);
    const HalfGroup weights = nibbles_of(load_streaming_8(tile + at.group * 16 + at.half * 8));
    const u32 word = load_streaming_4(tile + at.groups * 16 + at.group / (group / 32) * 4);
    scale_bytes(weights.first, g4_zero(word), g4_scale(word), values);
    scale_bytes(weights.last, g4_zero(word), g4_scale(word), values + 8);
  }
};

// Numbers already, of the type `type`.
struct DenseRows {
  static constexpr int RUN = 8, HALF = 16;
  int type;

  DEVICE void read(const u8* row, size_t, u32 number, float (&values)[16]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float4 four = load_four(row, size_t(number) * 16 + i * 4, type);
      values[4 * i] = four.x, values[4 * i + 1] = four.y, values[4 * i + 2] = four.z, values[4 * i + 3] = four.w;
    }
  }
};

// ---- kernels

DEVICE u32 pack_two(float low, float high, int type) {
  if (type == ELEMENT_F16) return float_to_half(low) | u32(float_to_half(high)) << 16;
  return float_to_bf16(low) | u32(float_to_bf16(high)) << 16;
}

DEVICE void store_eight(void* out, size_t index, const float* v, int type) {
  if (type == ELEMENT_F32) {
    uint4* const to = reinterpret_cast<uint4*>(static_cast<float*>(out) + index);
#pragma unroll
    for (int i = 0; i < 2; ++i)
      to[i] = make_uint4(float_to_bits(v[4 * i]), float_to_bits(v[4 * i + 1]), float_to_bits(v[4 * i + 2]),
                         float_to_bits(v[4 * i + 3]));
    return;
  }
  *reinterpret_cast<uint4*>(static_cast<u16*>(out) + index) =
      make_uint4(pack_two(v[0], v[1], type), pack_two(v[2], v[3], type), pack_two(v[4], v[5], type),
                 pack_two(v[6], v[7], type));
}

template <class Format>
DEVICE void store_half(const RowsArguments& a, u32 half, const float (&values)[16]) {
  const size_t index = size_t(blockIdx.x) * a.inputs + half / 2 * 32 + half % 2 * Format::HALF;
  store_eight(a.out, index, values, a.type);
  store_eight(a.out, index + Format::RUN, values + 8, a.type);
}

// Row `first` and those behind it.
template <class Format>
DEVICE void follow_rows(const Format& format, const RowsArguments& a, int first) {
  const u32 half = blockIdx.y * blockDim.x + threadIdx.x;
  if (half * 16 >= a.inputs) return;
  wait_for_previous_kernel();  // which may still use what is overwritten here
  const size_t row = size_t(first) + blockIdx.x;
  float values[16];
  format.read(a.weights + row * a.row_bytes, row, half, values);
  let_next_kernel_begin();
  store_half<Format>(a, half, values);
}

// The rows that `ids` name, times `scale`; zeros where there is no such row.
template <class Format>
DEVICE void gather_rows(const Format& format, const RowsArguments& a, const long long* ids, float scale) {
  const u32 half = blockIdx.y * blockDim.x + threadIdx.x;
  if (half * 16 >= a.inputs) return;
  wait_for_previous_kernel();
  const long long id = ids[blockIdx.x];
  float values[16] = {};
  if (id >= 0 && id < a.rows) {
    format.read(a.weights + size_t(id) * a.row_bytes, size_t(id), half, values);
#pragma unroll
    for (int i = 0; i < 16; ++i) values[i] = rounded_product(values[i], scale);
  }
  let_next_kernel_begin();
  store_half<Format>(a, half, values);
}

#define ROWS_THREADS 256
#define ROWS_PARAMETERS                                                                           \
  const u8 *__restrict__ weights, void *__restrict__ out, int rows, int inputs, int row_bytes, int type
#define ROWS_ARGUMENTS {weights, out, rows, u32(inputs), size_t(row_bytes), type}

#define ROWS_KERNELS(NAME, FORMAT)                                                                \
  extern "C" __global__ void __launch_bounds__(ROWS_THREADS)                                      \
      dequantize_rows_##NAME(ROWS_PARAMETERS, int first) {                                        \
    follow_rows<FORMAT>({u32(inputs)}, ROWS_ARGUMENTS, first);                                         \
  }                                                                                               \
  EXPORT_KERNEL(dequantize_rows_##NAME)                                                           \
  extern "C" __global__ void __launch_bounds__(ROWS_THREADS)                                      \
      gather_rows_##NAME(ROWS_PARAMETERS, const long long* ids, float scale) {                    \
    gather_rows<FORMAT>({u32(inputs)}, ROWS_ARGUMENTS, ids, scale);                                    \
  }                                                                                               \
  EXPORT_KERNEL(gather_rows_##NAME)

typedef BlockRows<4, false> Q40Rows;
typedef BlockRows<4, true> Q41Rows;
typedef BlockRows<5, false> Q50Rows;
typedef BlockRows<5, true> Q51Rows;
typedef KRows<4> Q4KRows;
typedef KRows<5> Q5KRows;
ROWS_KERNELS(q4_0, Q40Rows)
ROWS_KERNELS(q4_1, Q41Rows)
ROWS_KERNELS(q5_0, Q50Rows)
ROWS_KERNELS(q5_1, Q51Rows)
ROWS_KERNELS(q8_0, Q80Rows)
ROWS_KERNELS(q4_k, Q4KRows)
ROWS_KERNELS(q5_k, Q5KRows)
ROWS_KERNELS(q6_k, Q6KRows)
ROWS_KERNELS(mxfp4, MXFP4Rows)

__constant__ float NF4_VALUES[16] = {
    -1.f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,
    -0.18477343022823334f, -0.09105003625154495f, 0.f, 0.07958029955625534f, 0.16093020141124725f,
    0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f,
    0.7229568362236023f, 1.f};

// In shared memory, since lanes look different values up, which constant memory answers one by one.
DEVICE void fill_table(float* table) {
  if (threadIdx.x < 16) table[threadIdx.x] = NF4_VALUES[threadIdx.x];
  __syncthreads();
}

#define NF4_PARAMETERS                                                                            \
  const float *__restrict__ values, const float *__restrict__ group_absmax, const float *__restrict__ offset

extern "C" __global__ void __launch_bounds__(ROWS_THREADS)
    dequantize_rows_nf4(ROWS_PARAMETERS, int first, NF4_PARAMETERS) {
  SHARED_ARRAY(float, table, 16);
  fill_table(table);
  follow_rows<NF4Rows>({u32(inputs), table, values, group_absmax, offset}, ROWS_ARGUMENTS, first);
}
EXPORT_KERNEL(dequantize_rows_nf4)

extern "C" __global__ void __launch_bounds__(ROWS_THREADS)
    gather_rows_nf4(ROWS_PARAMETERS, const long long* ids, float scale, NF4_PARAMETERS) {
  SHARED_ARRAY(float, table, 16);
  fill_table(table);
  gather_rows<NF4Rows>({u32(inputs), table, values, group_absmax, offset}, ROWS_ARGUMENTS, ids, scale);
}
EXPORT_KERNEL(gather_rows_nf4)

extern "C" __global__ void __launch_bounds__(ROWS_THREADS)
    dequantize_rows_g4(ROWS_PARAMETERS, int first, int group) {
  follow_rows<G4Rows>({u32(inputs), u32(group)}, ROWS_ARGUMENTS, first);
}
EXPORT_KERNEL(dequantize_rows_g4)

extern "C" __global__ void __launch_bounds__(ROWS_THREADS)
    gather_rows_g4(ROWS_PARAMETERS, const long long* ids, float scale, int group) {
  gather_rows<G4Rows>({u32(inputs), u32(group)}, ROWS_ARGUMENTS, ids, scale);
}
EXPORT_KERNEL(gather_rows_g4)

extern "C" __global__ void __launch_bounds__(ROWS_THREADS)
    gather_rows_dense(ROWS_PARAMETERS, const long long* ids, float scale, int weight_type) {
  gather_rows<DenseRows>({weight_type}, ROWS_ARGUMENTS, ids, scale);
}
EXPORT_KERNEL(gather_rows_dense)
