// Numbers in memory as single, half or bfloat16 precision: the kernels compute in single.
#pragma once
#include "portable.cuh"

#define ELEMENT_F32 0
#define ELEMENT_F16 1
#define ELEMENT_BF16 2

DEVICE float half_of_type(u32 bits, int type) {
  return type == ELEMENT_F16 ? half_to_float(u16(bits)) : bf16_to_float(u16(bits));
}

DEVICE float4 four_of_type(uint2 halves, int type) {
  return make_float4(half_of_type(halves.x & 0xffff, type), half_of_type(halves.x >> 16, type),
                     half_of_type(halves.y & 0xffff, type), half_of_type(halves.y >> 16, type));
}

// Four neighbours from `index` on, a multiple of four.
DEVICE float4 load_four(const void* x, size_t index, int type) {
  if (type == ELEMENT_F32) {
    const uint4 v = load_16(static_cast<const float*>(x) + index);
    return make_float4(bits_to_float(v.x), bits_to_float(v.y), bits_to_float(v.z), bits_to_float(v.w));
  }
  return four_of_type(load_8(static_cast<const u16*>(x) + index), type);
}

DEVICE void store_one(void* y, size_t index, float value, int type) {
  if (type == ELEMENT_F32) static_cast<float*>(y)[index] = value;
  else static_cast<u16*>(y)[index] = type == ELEMENT_F16 ? float_to_half(value) : float_to_bf16(value);
}

DEVICE u32 half_bits(float value, int type) { return type == ELEMENT_F16 ? float_to_half(value) : float_to_bf16(value); }

// Four neighbours from `index` on, a multiple of four.
DEVICE void store_four(void* y, size_t index, float4 v, int type) {
  if (type == ELEMENT_F32) {
    *reinterpret_cast<float4*>(static_cast<float*>(y) + index) = v;
    return;
  }
  *reinterpret_cast<uint2*>(static_cast<u16*>(y) + index) =
      make_uint2(half_bits(v.x, type) | half_bits(v.y, type) << 16, half_bits(v.z, type) | half_bits(v.w, type) << 16);
}
