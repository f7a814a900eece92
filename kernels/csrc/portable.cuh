// The instructions that the kernels use, one inline function each: PTX on a GPU, C++ on a CPU.
//
// Header-free on the device, so that NVRTC needs nothing but this folder. The C++ twins follow the
// PTX ISA; conformance.cuh compares both on random bits, on a GPU. Fragments of the matrix
// products are those of mma.m16n8k16 and m16n8k32 in that manual.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define ON_DEVICE 1
#else
#define ON_DEVICE 0
#include "cuda_shim.h"
#endif

typedef signed char s8;
typedef unsigned char u8;
typedef short s16;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define DEVICE __device__ __forceinline__
#define EVERY_LANE 0xffffffffu

// EXPORT_KERNEL makes a kernel callable on the CPU; on a GPU its name is enough.
// SHARED_ARRAY and DYNAMIC_SHARED declare memory of the block.
#define EXPORT_KERNEL_NAMED(name) EXPORT_KERNEL(name)  // where the name itself is a macro
#if ON_DEVICE
#define EXPORT_KERNEL(name)
#define SHARED_ARRAY(type, name, count) __shared__ alignas(16) type name[count]
#define DYNAMIC_SHARED(type, name) extern __shared__ __align__(16) type name[]
#else
#define EXPORT_KERNEL(name)                                                                        \
  extern "C" int shim_##name(const shim::Launch* how, void** arguments, char* error, size_t size) { \
    return shim::launch_kernel(name, how, arguments, error, size);                                  \
  }
#define SHARED_ARRAY(type, name, count)                                                           \
  static const char key_of_##name = 0;                                                            \
  type* const name = static_cast<type*>(shim::shared_array(&key_of_##name, sizeof(type) * (count)))
#define DYNAMIC_SHARED(type, name)                                                                \
  static const char key_of_##name = 0;                                                            \
  type* const name = static_cast<type*>(shim::shared_array(&key_of_##name, shim::block.dynamic_bytes))
#endif

// ---- bits

DEVICE float bits_to_float(u32 bits) {
#if ON_DEVICE
  return __uint_as_float(bits);
#else
  float value;
  memcpy(&value, &bits, 4);
  return value;
#endif
}

DEVICE u32 float_to_bits(float value) {
#if ON_DEVICE
  return __float_as_uint(value);
#else
  u32 bits;
  memcpy(&bits, &value, 4);
  return bits;
#endif
}

// Four bytes of {b, a}: nibble i of `selector` names byte i of the result, its top bit asks for
// eight copies of that byte's sign instead.
DEVICE u32 permute_bytes(u32 a, u32 b, u32 selector) {
#if ON_DEVICE
  u32 result;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(selector));
  return result;
#else
  const u64 bytes = u64(b) << 32 | a;
  u32 result = 0;
  for (int i = 0; i < 4; ++i) {
    const u32 nibble = selector >> (4 * i) & 15, byte = u32(bytes >> (8 * (nibble & 7))) & 255;
    result |= (nibble & 8 ? (byte & 128 ? 255u : 0u) : byte) << (8 * i);
  }
  return result;
#endif
}

// The low word of {high, low} >> (shift mod 32).
DEVICE u32 funnel_shift_right(u32 low, u32 high, u32 shift) {
#if ON_DEVICE
  u32 result;
  asm("shf.r.wrap.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(shift));
  return result;
#else
  return u32((u64(high) << 32 | low) >> (shift & 31));
#endif
}

// The high word of {high, low} << (shift mod 32).
DEVICE u32 funnel_shift_left(u32 low, u32 high, u32 shift) {
#if ON_DEVICE
  u32 result;
  asm("shf.l.wrap.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(shift));
  return result;
#else
  return u32((u64(high) << 32 | low) << (shift & 31) >> 32);
#endif
}

// Bits of a where `mask` has ones, of b elsewhere.
DEVICE u32 select_bits(u32 a, u32 b, u32 mask) {
#if ON_DEVICE
  u32 result;
  asm("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(result) : "r"(mask), "r"(a), "r"(b));
  return result;
#else
  return (a & mask) | (b & ~mask);
#endif
}

// How many of the highest bits are zeros.
DEVICE int leading_zeros(u64 bits) {
#if ON_DEVICE
  return __clzll(bits);
#else
  return bits ? __builtin_clzll(bits) : 64;
#endif
}

// The place of the lowest one, of which there has to be one.
DEVICE int lowest_one(u32 bits) {
#if ON_DEVICE
  return __ffs(bits) - 1;
#else
  return __builtin_ctz(bits);
#endif
}

// The upper half of a product of 128 bits.
DEVICE u64 multiply_high(u64 a, u64 b) {
#if ON_DEVICE
  return __umul64hi(a, b);
#else
  return u64((unsigned __int128)a * b >> 64);
#endif
}

// ---- where this thread is, asked anew each time, so that no register holds it over a long loop

DEVICE int thread_index() {
#if ON_DEVICE
  int index;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
  return index;
#else
  return threadIdx.x;
#endif
}

DEVICE int block_index() {
#if ON_DEVICE
  int index;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(index));
  return index;
#else
  return blockIdx.x;
#endif
}

// ---- dot products of bytes

#if !ON_DEVICE
namespace shim {
inline u32 byte_of(u32 word, int i) { return word >> (8 * i) & 255; }
inline int signed_byte_of(u32 word, int i) { return static_cast<s8>(byte_of(word, i)); }
inline int half_of(u32 word, int i) { return static_cast<s16>(word >> (16 * i)); }
}  // namespace shim
#endif

// sum + the dot product of four unsigned bytes and four signed ones.
DEVICE int dp4a_us(u32 a, u32 b, int sum) {
#if ON_DEVICE
  int result;
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  return result;
#else
  u32 result = sum;
  for (int i = 0; i < 4; ++i) result += u32(int(shim::byte_of(a, i)) * shim::signed_byte_of(b, i));
  return int(result);
#endif
}

// sum + the dot product of four signed bytes and four signed ones.
DEVICE int dp4a_ss(u32 a, u32 b, int sum) {
#if ON_DEVICE
  int result;
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  return result;
#else
  u32 result = sum;
  for (int i = 0; i < 4; ++i) result += u32(shim::signed_byte_of(a, i) * shim::signed_byte_of(b, i));
  return int(result);
#endif
}

// sum + two signed halves of a by the two low signed bytes of b.
DEVICE int dp2a_low(u32 a, u32 b, int sum) {
#if ON_DEVICE
  int result;
  asm("dp2a.lo.s32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  return result;
#else
  u32 result = sum;
  for (int i = 0; i < 2; ++i) result += u32(shim::half_of(a, i) * shim::signed_byte_of(b, i));
  return int(result);
#endif
}

// sum + two signed halves of a by the two high signed bytes of b.
DEVICE int dp2a_high(u32 a, u32 b, int sum) {
#if ON_DEVICE
  int result;
  asm("dp2a.hi.s32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  return result;
#else
  return dp2a_low(a, b >> 16, sum);
#endif
}

// ---- conversions

// The float of 16 bits of IEEE half precision.
DEVICE float half_to_float(u16 bits) {
#if ON_DEVICE
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#else
  const u32 sign = u32(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 1023;
  if (exponent == 31) return bits_to_float(fraction ? 0x7fffffffu : sign | 0x7f800000u);
  if (exponent) return bits_to_float(sign | (exponent + 112) << 23 | fraction << 13);
  return bits_to_float(sign | float_to_bits(float(fraction) * 0x1p-24f));
#endif
}

// Half precision, to the nearest, ties to even.
DEVICE u16 float_to_half(float value) {
#if ON_DEVICE
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#else
  const u32 bits = float_to_bits(value), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  if (size > 0x7f800000) return 0x7fff;
  if (size >= 0x477ff000) return u16(sign | 0x7c00);
  if (size < 0x38800000) return u16(sign | u32(nearbyintf(bits_to_float(size) * 0x1p24f)));
  return u16(sign | (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13);
#endif
}

DEVICE float bf16_to_float(u16 bits) { return bits_to_float(u32(bits) << 16); }

// bfloat16, to the nearest, ties to even.
DEVICE u16 float_to_bf16(float value) {
#if ON_DEVICE
  u16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#else
  const u32 bits = float_to_bits(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return u16((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
#endif
}

// The nearest integer, ties to even; NaN is 0, and what does not fit is the largest that does.
DEVICE int round_to_int(float value) {
#if ON_DEVICE
  int result;
  asm("cvt.rni.s32.f32 %0, %1;" : "=r"(result) : "f"(value));
  return result;
#else
  if (value != value) return 0;
  if (value >= 0x1p31f) return 2147483647;
  if (value < -0x1p31f) return -2147483647 - 1;
  return int(nearbyintf(value));
#endif
}

// The larger one; NaN if one of them is.
DEVICE float max_or_nan(float a, float b) {
#if ON_DEVICE
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#else
  if (a != a || b != b) return bits_to_float(0x7fffffff);
  return a > b || (a == b && !(float_to_bits(a) >> 31)) ? a : b;
#endif
}

// 1 / (1 + e^-x), but for an error of 2e-6 of it for each unit of 10 in x; results below 2^-126 are zeros.
DEVICE float logistic(float x) {
#if ON_DEVICE
  float power, result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(-1.4426950408889634f * x));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(1.f + power));
  return result;
#else
  return 1.f / (1.f + expf(-x));
#endif
}

// ---- sums and products that are rounded each, where the compiler would join them into one instruction

DEVICE float rounded_product(float a, float b) {
#if ON_DEVICE
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

DEVICE float rounded_sum(float a, float b) {
#if ON_DEVICE
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}

// ---- global memory

// 16 bytes that are read once, of what no kernel of a step writes: they need no place in L1.
DEVICE uint4 load_streaming_16(const void* address) {
#if ON_DEVICE
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(address));
  return v;
#else
  shim::check_aligned(address, 16, "load_streaming_16");
  return *static_cast<const uint4*>(address);
#endif
}

// 8 bytes that are read once.
DEVICE uint2 load_streaming_8(const void* address) {
#if ON_DEVICE
  uint2 v;
  asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
               : "=r"(v.x), "=r"(v.y) : "l"(address));
  return v;
#else
  shim::check_aligned(address, 8, "load_streaming_8");
  return *static_cast<const uint2*>(address);
#endif
}

// 4 bytes that are read once.
DEVICE u32 load_streaming_4(const void* address) {
#if ON_DEVICE
  u32 v;
  asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(address));
  return v;
#else
  shim::check_aligned(address, 4, "load_streaming_4");
  return *static_cast<const u32*>(address);
#endif
}

// 2 bytes that are read once.
DEVICE u16 load_streaming_2(const void* address) {
#if ON_DEVICE
  u16 v;
  asm volatile("ld.global.nc.L1::no_allocate.u16 %0, [%1];" : "=h"(v) : "l"(address));
  return v;
#else
  shim::check_aligned(address, 2, "load_streaming_2");
  return *static_cast<const u16*>(address);
#endif
}

// What kernels before this one wrote, and may still have been writing when it began, is not for the
// read-only loads above: the compiler may do those at any time, even before the wait for these kernels.
// Where no kernel begins before the one before it has ended, all that it only reads is read-only.
#if ON_DEVICE && __CUDA_ARCH__ >= 900
#define LOAD_WRITTEN_BEFORE "ld.global"
#else
#define LOAD_WRITTEN_BEFORE "ld.global.nc"
#endif

// 16 bytes that other warps read too.
DEVICE uint4 load_16(const void* address) {
#if ON_DEVICE
  uint4 v;
  asm volatile(LOAD_WRITTEN_BEFORE ".v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(address));
  return v;
#else
  shim::check_aligned(address, 16, "load_16");
  return *static_cast<const uint4*>(address);
#endif
}

// 8 bytes that nobody else reads.
DEVICE uint2 load_8(const void* address) {
#if ON_DEVICE
  uint2 v;
  asm volatile(LOAD_WRITTEN_BEFORE ".L1::no_allocate.v2.u32 {%0, %1}, [%2];"
               : "=r"(v.x), "=r"(v.y) : "l"(address));
  return v;
#else
  shim::check_aligned(address, 8, "load_8");
  return *static_cast<const uint2*>(address);
#endif
}

// 16 bytes that another block of this launch may have written.
DEVICE uint4 load_written_16(const void* address) {
#if ON_DEVICE
  uint4 v;
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(address) : "memory");
  return v;
#else
  shim::check_aligned(address, 16, "load_written_16");
  return *static_cast<const uint4*>(address);
#endif
}

// Brings the 32 bytes at an address, which need not be used, to L2.
DEVICE void prefetch_to_l2([[maybe_unused]] const void* address) {
#if ON_DEVICE
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#endif
}

// Adds to a float in memory without waiting for the sum; results below 2^-126 are zeros.
DEVICE void add_in_memory(float* address, float value) {
#if ON_DEVICE
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" :: "l"(address), "f"(value) : "memory");
#else
  atomicAdd(address, value);
#endif
}

// ---- what blocks tell each other

// Counts in memory, from 0 to `last` and then from 0 again; gives what the count was. Whoever counts
// later, and has a __threadfence() between its count and its loads, finds what was stored before.
DEVICE u32 count_in_memory(u32* count, u32 last) {
#if ON_DEVICE
  u32 before;
  asm volatile("atom.release.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(before) : "l"(count), "r"(last) : "memory");
  return before;
#else
  return atomicInc(count, last);
#endif
}

// 16 bytes that other blocks stored while this kernel ran: not what L1 may have of them.
DEVICE uint4 load_fresh_16(const void* address) {
#if ON_DEVICE
  uint4 v;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(address) : "memory");
  return v;
#else
  shim::check_aligned(address, 16, "load_fresh_16");
  return *static_cast<const uint4*>(address);
#endif
}

// The same for one word.
DEVICE u32 load_fresh(const u32* address) {
#if ON_DEVICE
  u32 v;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(address) : "memory");
  return v;
#else
  return *address;
#endif
}

// ---- copies to shared memory that do not wait

// 16 bytes, of which the last `16 - bytes` become zeros without being read.
DEVICE void copy_async_16(void* shared, const void* global, u32 bytes = 16) {
#if ON_DEVICE
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :: "r"(u32(__cvta_generic_to_shared(shared))), "l"(global), "r"(bytes) : "memory");
#else
  shim::check_aligned(shared, 16, "copy_async_16 to");
  shim::check_aligned(global, 16, "copy_async_16 from");
  shim::self().uncommitted.push_back({shared, global, bytes, 16 - bytes});
#endif
}

// BYTES (4 or 8), of which the last `BYTES - bytes` become zeros without being read.
template <int BYTES>
DEVICE void copy_async(void* shared, const void* global, u32 bytes = BYTES) {
  static_assert(BYTES == 4 || BYTES == 8, "copy_async_16 is another instruction");
#if ON_DEVICE
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
               :: "r"(u32(__cvta_generic_to_shared(shared))), "l"(global), "n"(BYTES), "r"(bytes) : "memory");
#else
  shim::check_aligned(shared, BYTES, "copy_async to");
  shim::check_aligned(global, BYTES, "copy_async from");
  shim::self().uncommitted.push_back({shared, global, bytes, BYTES - bytes});
#endif
}

DEVICE void commit_copies() {
#if ON_DEVICE
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  shim::self().committed.push_back(std::move(shim::self().uncommitted));
  shim::self().uncommitted.clear();
#endif
}

// Waits until at most `N` groups of this thread's copies are under way. Others' copies need a
// barrier after it.
template <int N>
DEVICE void wait_for_copies() {
#if ON_DEVICE
  asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
#else
  shim::finish_copies(N);
#endif
}

// ---- over all lanes of a warp, in one instruction

DEVICE u32 largest_of_lanes(u32 value) {
#if ON_DEVICE
  u32 result;
  asm volatile("redux.sync.max.u32 %0, %1, 0xffffffff;" : "=r"(result) : "r"(value));
  return result;
#else
  const shim::Brought all = shim::meet("redux.max", EVERY_LANE, &value, sizeof value);
  for (int lane = 0; lane < 32; ++lane)
    if (all.present >> lane & 1 && all.payload[lane][0] > value) value = all.payload[lane][0];
  return value;
#endif
}

DEVICE u32 sum_of_lanes(u32 value) {
#if ON_DEVICE
  u32 result;
  asm volatile("redux.sync.add.u32 %0, %1, 0xffffffff;" : "=r"(result) : "r"(value));
  return result;
#else
  const shim::Brought all = shim::meet("redux.add", EVERY_LANE, &value, sizeof value);
  u32 sum = 0;
  for (int lane = 0; lane < 32; ++lane)
    if (all.present >> lane & 1) sum += all.payload[lane][0];
  return sum;
#endif
}

// ---- matrix fragments

// Four 8 by 8 matrices of 16-bit values: lane 8 i + r names row r of matrix i; register i gets
// columns 2 (lane mod 4) and the next of row lane / 4 of matrix i.
DEVICE void load_matrix_x4(u32 (&fragment)[4], const void* shared_row) {
#if ON_DEVICE
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
               : "r"(u32(__cvta_generic_to_shared(shared_row))) : "memory");
#else
  shim::check_aligned(shared_row, 16, "load_matrix_x4");
  const shim::Brought rows = shim::meet("ldmatrix", EVERY_LANE, &shared_row, sizeof shared_row);
  const unsigned lane = shim::self().lane;
  for (int i = 0; i < 4; ++i) {
    const u32* row;
    memcpy(&row, rows.payload[8 * i + lane / 4], sizeof row);
    fragment[i] = row[lane % 4];
  }
#endif
}

// The same, each matrix transposed.
DEVICE void load_matrix_x4_transposed(u32 (&fragment)[4], const void* shared_row) {
#if ON_DEVICE
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
               : "r"(u32(__cvta_generic_to_shared(shared_row))) : "memory");
#else
  shim::check_aligned(shared_row, 16, "load_matrix_x4_transposed");
  const shim::Brought rows = shim::meet("ldmatrix.trans", EVERY_LANE, &shared_row, sizeof shared_row);
  const unsigned lane = shim::self().lane;
  for (int i = 0; i < 4; ++i) {
    fragment[i] = 0;
    for (int k = 0; k < 2; ++k) {
      const u16* row;
      memcpy(&row, rows.payload[8 * i + lane % 4 * 2 + k], sizeof row);
      fragment[i] |= u32(row[lane / 4]) << (16 * k);
    }
  }
#endif
}

#if !ON_DEVICE
namespace shim {
struct Fragments {
  u32 a[4], b[2];
};

// Adds a (16, 4 words) by b (8, 4 words) to c, where `dot` multiplies two words of both.
template <class C, class Dot>
void multiply(const char* operation, C (&c)[4], const u32 (&a)[4], const u32 (&b)[2], Dot dot) {
  Fragments own;
  memcpy(own.a, a, sizeof own.a);
  memcpy(own.b, b, sizeof own.b);
  const Brought all = meet(operation, EVERY_LANE, &own, sizeof own);
  const unsigned group = self().lane / 4, pair = self().lane % 4 * 2;
  for (unsigned i = 0; i < 4; ++i)
    for (unsigned half = 0; half < 2; ++half)
      for (unsigned word = 0; word < 4; ++word) {
        Fragments left, right;
        memcpy(&left, all.payload[group * 4 + word], sizeof left);
        memcpy(&right, all.payload[(pair + i % 2) * 4 + word], sizeof right);
        c[i] = dot(left.a[i / 2 + 2 * half], right.b[half], c[i]);
      }
}
}  // namespace shim
#endif

#if ON_DEVICE
#define MMA(shape, types, constraint)                                                             \
  asm volatile("mma.sync.aligned." shape ".row.col." types                                        \
               " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                 \
               : "+" constraint(c[0]), "+" constraint(c[1]), "+" constraint(c[2]), "+" constraint(c[3]) \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#endif

// c (16, 8) += unsigned bytes a (16, 32) by signed bytes b (8, 32) transposed.
DEVICE void mma_u8s8(int (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#if ON_DEVICE
  MMA("m16n8k32", "s32.u8.s8.s32", "r");
#else
  shim::multiply("mma.u8.s8", c, a, b, [](u32 x, u32 y, int sum) { return dp4a_us(x, y, sum); });
#endif
}

// c (16, 8) += signed bytes a (16, 32) by signed bytes b (8, 32) transposed.
DEVICE void mma_s8s8(int (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#if ON_DEVICE
  MMA("m16n8k32", "s32.s8.s8.s32", "r");
#else
  shim::multiply("mma.s8.s8", c, a, b, [](u32 x, u32 y, int sum) { return dp4a_ss(x, y, sum); });
#endif
}

// d (16, 8) = c + bytes a (16, 32) by bytes b (8, 32) transposed; c stays where it is.
#if ON_DEVICE
#define MMA_ONTO(types)                                                                           \
  asm("mma.sync.aligned.m16n8k32.row.col." types                                                  \
      " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"                      \
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])                                            \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]))
#endif
DEVICE void mma_u8s8_onto(int (&d)[4], const int (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#if ON_DEVICE
  MMA_ONTO("s32.u8.s8.s32");
#else
  for (int i = 0; i < 4; ++i) d[i] = c[i];
  mma_u8s8(d, a, b);
#endif
}

DEVICE void mma_s8s8_onto(int (&d)[4], const int (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#if ON_DEVICE
  MMA_ONTO("s32.s8.s8.s32");
#else
  for (int i = 0; i < 4; ++i) d[i] = c[i];
  mma_s8s8(d, a, b);
#endif
}

// d (16, 8) = c + signed bytes a (16, 16) by signed bytes b (8, 16) transposed.
DEVICE void mma_half_s8s8_onto(int (&d)[4], const int (&c)[4], u32 a0, u32 a1, u32 b) {
#if ON_DEVICE
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a0), "r"(a1), "r"(b), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
#else
  mma_s8s8_onto(d, c, {a0, a1, 0, 0}, {b, 0});
#endif
}

// c (16, 8) += half precision a (16, 16) by b (8, 16) transposed, summed in single precision.
DEVICE void mma_f16(float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#if ON_DEVICE
  MMA("m16n8k16", "f32.f16.f16.f32", "f");
#else
  shim::multiply("mma.f16", c, a, b, [](u32 x, u32 y, float sum) {
    for (int i = 0; i < 2; ++i) sum += half_to_float(u16(x >> (16 * i))) * half_to_float(u16(y >> (16 * i)));
    return sum;
  });
#endif
}

// c (16, 8) += bfloat16 a (16, 16) by b (8, 16) transposed, summed in single precision.
DEVICE void mma_bf16(float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#if ON_DEVICE
  MMA("m16n8k16", "f32.bf16.bf16.f32", "f");
#else
  shim::multiply("mma.bf16", c, a, b, [](u32 x, u32 y, float sum) {
    for (int i = 0; i < 2; ++i) sum += bf16_to_float(u16(x >> (16 * i))) * bf16_to_float(u16(y >> (16 * i)));
    return sum;
  });
#endif
}

// ---- launches that overlap

// Waits for what the previous kernel in the stream wrote; nothing before sm_90, where it has ended.
DEVICE void wait_for_previous_kernel() {
#if ON_DEVICE && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel in the stream begin before this one has ended.
DEVICE void let_next_kernel_begin() {
#if ON_DEVICE && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
