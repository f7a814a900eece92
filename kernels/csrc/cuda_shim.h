// Runs CUDA kernels on a CPU from their own sources, so that they can be proven without a GPU.
//
// Every CUDA thread is a fibre. Barriers, shuffles, votes and matrix products are real meetings: a
// fibre that arrives waits until all who take part are there. Lanes that meet at different
// operations, and threads that wait for others who never come, end the launch with a report.
// A seed shuffles the order in which fibres go on, which brings out missing barriers. Shared memory
// begins as NaN, copies of cp.async happen as late as they may, and values of absent lanes are NaN.
//
// With -fsanitize=thread, every CUDA thread is a thread to ThreadSanitizer, too. What orders their
// memory accesses is what does on a GPU: __syncthreads, __syncwarp, a releasing atomic, and an
// atomic together with __threadfence, of the same thread or of one that a barrier lies between.
// Shuffles, votes and matrix products order none. An asynchronous copy writes when it is issued and
// when it is waited for.
//
// Not modelled: weak memory order beyond that, caches, and other speeds than none.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <ucontext.h>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define SHIM_ASAN 1
#else
#define SHIM_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#define SHIM_TSAN 1
extern "C" void __tsan_ignore_thread_begin();
extern "C" void __tsan_ignore_thread_end();
extern "C" void __tsan_write_range(void* address, unsigned long bytes);
#else
#define SHIM_TSAN 0
#endif

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define __constant__ static const

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct alignas(8) int2 { int x, y; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) float4 { float x, y, z, w; };
static inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

namespace shim {

constexpr size_t STACK_BYTES = size_t(64) * 1024 * (SHIM_ASAN || SHIM_TSAN ? 4 : 1);
constexpr int PAYLOAD_WORDS = 8, MASKS_AT_ONCE = 4;
constexpr unsigned ALL_LANES = 0xffffffffu;

// What ThreadSanitizer is told; nothing in other builds.
#if SHIM_TSAN
inline void announce_release(const void* clock) { __tsan_release(const_cast<void*>(clock)); }
inline void announce_acquire(const void* clock) { __tsan_acquire(const_cast<void*>(clock)); }
inline void announce_write(void* address, size_t bytes) { __tsan_write_range(address, bytes); }
struct Unobserved {  // the shim's own accesses
  Unobserved() { __tsan_ignore_thread_begin(); }
  ~Unobserved() { __tsan_ignore_thread_end(); }
};
// Threads of a block whose atomics came before a place.
struct Counted : std::set<unsigned> {
  void add(const Counted& others) { insert(others.begin(), others.end()); }
};
#else
inline void announce_release(const void*) {}
inline void announce_acquire(const void*) {}
inline void announce_write(void*, size_t) {}
struct Unobserved {
  Unobserved() {}
};
struct Counted {
  void clear() {}
  void add(const Counted&) {}
};
#endif

// Where lanes of one warp meet, with what each of them brings. Two sets of payloads, because the
// first lane to go on may come to the next meeting before the last one has read this one's.
struct Meeting {
  unsigned mask = 0, arrived = 0, generation = 0;
  const char* operation = nullptr;
  unsigned present[2] = {0, 0};
  uint32_t payload[2][32][PAYLOAD_WORDS];
  uint64_t clocks[2];
  Counted counted[2];
};

struct Warp {
  unsigned live = 0;
  int meetings_used = 0;
  Meeting meetings[MASKS_AT_ONCE];
};

struct PendingCopy {
  void* target;
  const void* source;
  unsigned bytes, zeros;
  PendingCopy(void* to, const void* from, unsigned copied, unsigned cleared)
      : target(to), source(from), bytes(copied), zeros(cleared) {
    announce_write(to, copied + cleared);
  }
};

struct Fiber {
  jmp_buf resume;
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  void* fake_stack = nullptr;
  void* tsan = nullptr;
  bool started = false, done = false;
  dim3 index;
  unsigned lane = 0, number = 0;
  Warp* warp = nullptr;
  const void* waits_for = nullptr;
  const char* waits_at = "nothing";
  Counted counted;
  std::deque<std::vector<PendingCopy>> committed;
  std::vector<PendingCopy> uncommitted;
};

struct SharedArray {
  const void* key;
  std::unique_ptr<void, void (*)(void*)> data;
};

// Addresses by which ThreadSanitizer knows what orders accesses of one block, fresh for each block.
struct Clocks {
  explicit Clocks(unsigned threads) : observed(threads) {}
  uint64_t barrier[2], fenced;
  std::vector<uint64_t> observed;  // by each thread's atomics
};

// One block at a time on each thread of the operating system.
struct Block {
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  std::vector<SharedArray> shared;
  std::vector<unsigned> ready;
  size_t dynamic_bytes = 0;
  unsigned at_barrier = 0, live = 0, barriers = 0;
  std::unique_ptr<Clocks> clocks;
  Counted counted[2];
  const void* launch_clock = nullptr;
  void *tsan = nullptr, *publisher = nullptr, *observer = nullptr;
  ucontext_t scheduler_context;
  jmp_buf scheduler;
  Fiber* current = nullptr;
  const std::function<void()>* body = nullptr;
  dim3 index, size, grid;
  std::string error;
  void* scheduler_fake_stack = nullptr;
  const void* scheduler_stack = nullptr;
  size_t scheduler_stack_bytes = 0;
};
inline thread_local Block block;

inline Fiber& self() { return *block.current; }

#if SHIM_TSAN
inline void become(void* fiber) { __tsan_switch_to_fiber(fiber, __tsan_switch_to_fiber_no_sync); }

inline void yield() {
  Fiber* me = block.current;
  become(block.tsan);
  swapcontext(&me->context, &block.scheduler_context);
}
#else
inline void yield() {
  Fiber* me = block.current;
#if SHIM_ASAN
  __sanitizer_start_switch_fiber(&me->fake_stack, block.scheduler_stack, block.scheduler_stack_bytes);
#endif
  if (!_setjmp(me->resume)) _longjmp(block.scheduler, 1);
#if SHIM_ASAN
  __sanitizer_finish_switch_fiber(me->fake_stack, &block.scheduler_stack, &block.scheduler_stack_bytes);
#endif
}
#endif

// Ends the block: whoever calls never goes on.
[[noreturn]] inline void fail(const char* format, ...) {
  char text[256];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  if (block.error.empty()) block.error = text;
  for (;;) yield();
}

inline void wait_for(const void* what, const char* operation) {
  self().waits_for = what;
  self().waits_at = operation;
  yield();
}

inline void wake(const void* what) {
  for (Fiber& fiber : block.fibers) {
    if (fiber.done || fiber.waits_for != what) continue;
    fiber.waits_for = nullptr;
    block.ready.push_back(fiber.number);
  }
}

inline void release(Meeting& meeting) {
  meeting.present[meeting.generation & 1] = meeting.arrived;
  meeting.arrived = 0;
  ++meeting.generation;
  wake(&meeting);
}

inline void release_barrier() {
  block.at_barrier = 0;
  ++block.barriers;
  wake(&block.at_barrier);
}

inline Meeting& meeting_of(Warp& warp, unsigned mask) {
  for (int i = 0; i < warp.meetings_used; ++i)
    if (warp.meetings[i].mask == mask) return warp.meetings[i];
  if (warp.meetings_used == MASKS_AT_ONCE) fail("a warp uses more than %d masks", MASKS_AT_ONCE);
  Meeting& fresh = warp.meetings[warp.meetings_used++];
  fresh.mask = mask;
  return fresh;
}

struct Brought {
  const uint32_t (*payload)[PAYLOAD_WORDS];
  unsigned present;
};

// All live lanes of `mask` meet here; gives what each of them brought.
inline Brought meet(const char* operation, unsigned mask, const void* payload = nullptr, size_t bytes = 0) {
  const Unobserved unobserved;
  Fiber& me = self();
  Warp& warp = *me.warp;
  if (!(mask >> me.lane & 1)) fail("%s: lane %u is not in its own mask %08x", operation, me.lane, mask);
  Meeting& meeting = meeting_of(warp, mask);
  if (meeting.arrived && meeting.operation != operation && strcmp(meeting.operation, operation))
    fail("divergence in warp %u: one lane is at %s, another at %s", me.number / 32, meeting.operation, operation);
  const unsigned parity = meeting.generation & 1;
  meeting.operation = operation;
  if (!bytes) {  // of all meetings, only __syncwarp's orders accesses
    if (!meeting.arrived) meeting.counted[parity].clear();
    meeting.counted[parity].add(me.counted);
    announce_release(&meeting.clocks[parity]);
  }
  meeting.arrived |= 1u << me.lane;
  if (bytes) memcpy(meeting.payload[parity][me.lane], payload, bytes);
  if (meeting.arrived == (mask & warp.live)) release(meeting);
  else wait_for(&meeting, operation);
  if (!bytes) {
    announce_acquire(&meeting.clocks[parity]);
    me.counted = meeting.counted[parity];
  }
  return {meeting.payload[parity], meeting.present[parity]};
}

inline void meet_block() {
  const Unobserved unobserved;
  const unsigned parity = block.barriers & 1;
  const void* const clock = &block.clocks->barrier[parity];
  if (!block.at_barrier) block.counted[parity].clear();
  block.counted[parity].add(self().counted);
  announce_release(clock);
  if (++block.at_barrier == block.live) release_barrier();
  else wait_for(&block.at_barrier, "__syncthreads");
  announce_acquire(clock);
  self().counted = block.counted[parity];
}

inline void finish_copies(size_t still_pending) {
  Fiber& me = self();
  while (me.committed.size() > still_pending) {
    for (const PendingCopy& copy : me.committed.front()) {
      memcpy(copy.target, copy.source, copy.bytes);
      memset(static_cast<char*>(copy.target) + copy.bytes, 0, copy.zeros);
    }
    me.committed.pop_front();
  }
}

inline void leave() {
  const Unobserved unobserved;
  announce_release(block.launch_clock);
  Fiber& me = self();
  me.done = true;
  --block.live;
  me.warp->live &= ~(1u << me.lane);
  for (int i = 0; i < me.warp->meetings_used; ++i) {  // lanes that ended no longer take part
    Meeting& meeting = me.warp->meetings[i];
    if (meeting.arrived && meeting.arrived == (meeting.mask & me.warp->live)) release(meeting);
  }
  if (block.live && block.at_barrier == block.live) release_barrier();
}

inline void fiber_entry() {
#if SHIM_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &block.scheduler_stack, &block.scheduler_stack_bytes);
#endif
  (*block.body)();
  leave();
#if SHIM_ASAN
  __sanitizer_start_switch_fiber(nullptr, block.scheduler_stack, block.scheduler_stack_bytes);
#endif
#if SHIM_TSAN
  yield();
#else
  _longjmp(block.scheduler, 1);
#endif
}

inline void begin(Fiber& fiber) {
  fiber.started = true;
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = STACK_BYTES;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, fiber_entry, 0);
}

#if SHIM_TSAN
inline void run(Fiber& fiber) {
  block.current = &fiber;
  if (!fiber.started) begin(fiber);
  become(fiber.tsan);
  swapcontext(&block.scheduler_context, &fiber.context);
}
#else

inline void run(Fiber& fiber) {
  block.current = &fiber;
#if SHIM_ASAN
  static thread_local void* fake_stack;
  __sanitizer_start_switch_fiber(&fake_stack, fiber.stack.get(), STACK_BYTES);
#endif
  if (!_setjmp(block.scheduler)) {
    if (fiber.started) _longjmp(fiber.resume, 1);
    begin(fiber);
    setcontext(&fiber.context);
  }
#if SHIM_ASAN
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
}
#endif

// Blocks share nothing that would order their accesses: fibres, stacks and clocks are fresh for each.
inline void announce_end() {
#if SHIM_TSAN
  for (Fiber& fiber : block.fibers) __tsan_destroy_fiber(fiber.tsan);
  if (block.publisher) __tsan_destroy_fiber(block.publisher);
  if (block.observer) __tsan_destroy_fiber(block.observer);
  block.publisher = block.observer = nullptr;
  block.fibers.clear();
#endif
}

inline void announce_begin() {
#if SHIM_TSAN
  block.tsan = __tsan_get_current_fiber();
  block.publisher = __tsan_create_fiber(0);
  block.observer = __tsan_create_fiber(0);
  for (Fiber& fiber : block.fibers) fiber.tsan = __tsan_create_fiber(0);
#endif
}

// An atomic publishes what the block's fences came after, and a later fence acquires what it saw, in
// this thread or behind a barrier.
template <class Operation>
auto ordered_by_fences([[maybe_unused]] const void* address, Operation operation) {
#if SHIM_TSAN
  become(block.publisher);
  announce_acquire(&block.clocks->fenced);
  announce_release(address);
  become(self().tsan);
  const auto result = operation();
  become(block.observer);
  announce_acquire(address);
  announce_release(&block.clocks->observed[self().number]);
  become(self().tsan);
  const Unobserved unobserved;
  self().counted.insert(self().number);
  return result;
#else
  return operation();
#endif
}

inline void prepare_block(unsigned threads) {
  announce_end();
  if (block.fibers.size() != threads) block.fibers = std::vector<Fiber>(threads);
  block.warps = std::vector<Warp>((threads + 31) / 32);
  block.shared.clear();
  block.ready.clear();
  block.at_barrier = block.barriers = 0;
  block.clocks.reset(new Clocks(threads));
  block.live = threads;
  for (unsigned i = 0; i < threads; ++i) {
    Fiber& fiber = block.fibers[i];
    if (!fiber.stack) fiber.stack.reset(new char[STACK_BYTES]);
    fiber.started = fiber.done = false;
    fiber.waits_for = nullptr;
    fiber.counted.clear();
    fiber.committed.clear();
    fiber.uncommitted.clear();
    fiber.number = i;
    fiber.lane = i % 32;
    fiber.warp = &block.warps[i / 32];
    fiber.warp->live |= 1u << fiber.lane;
    fiber.index = dim3(i % block.size.x, i / block.size.x % block.size.y, i / block.size.x / block.size.y);
    block.ready.push_back(i);
  }
  announce_begin();
}

inline std::string deadlock() {
  std::string text = "deadlock:";
  const char* before = "";
  for (const Fiber& fiber : block.fibers) {
    if (fiber.done || !strcmp(before, fiber.waits_at)) continue;
    before = fiber.waits_at;
    text += " thread " + std::to_string(fiber.number) + " waits at " + before + ";";
  }
  return text + " the others have ended";
}

// Gives an empty string, or what went wrong.
inline std::string run_block(const std::function<void()>& body, unsigned threads, std::mt19937* order) {
  block.body = &body;
  block.error.clear();
  prepare_block(threads);
  while (block.live && block.error.empty()) {
    if (block.ready.empty()) return deadlock();
    std::vector<unsigned> turn;
    turn.swap(block.ready);
    if (order) std::shuffle(turn.begin(), turn.end(), *order);
    for (unsigned number : turn) {
      run(block.fibers[number]);
      if (!block.error.empty()) break;
    }
  }
  return block.error;
}

struct Launch {
  unsigned grid[3], block[3], shared_bytes, seed, threads;
};

inline std::string launch(const Launch& how, const std::function<void()>& body) {
  const dim3 grid(how.grid[0], how.grid[1], how.grid[2]), size(how.block[0], how.block[1], how.block[2]);
  const unsigned long long blocks = 1ull * grid.x * grid.y * grid.z;
  std::atomic<unsigned long long> next{0};
  std::mutex lock;
  std::string error;
  const uint64_t clock = 0;
  auto work = [&] {
    const Unobserved unobserved;
    block.launch_clock = &clock;
    block.size = size;
    block.grid = grid;
    block.dynamic_bytes = how.shared_bytes;
    for (unsigned long long i; (i = next++) < blocks;) {
      block.index = dim3(i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y);
      std::mt19937 order(how.seed * 7919u + unsigned(i));
      const std::string wrong = run_block(body, size.x * size.y * size.z, how.seed ? &order : nullptr);
      if (wrong.empty()) continue;
      next = blocks;
      std::lock_guard<std::mutex> guard(lock);
      if (error.empty()) error = "block " + std::to_string(i) + ": " + wrong;
    }
    announce_end();
    block.fibers.clear();
    block.shared.clear();
  };
  std::vector<std::thread> workers;
  for (unsigned long long t = 0; t < std::max(1ull, std::min<unsigned long long>(how.threads, blocks)); ++t)
    workers.emplace_back(work);
  for (std::thread& worker : workers) worker.join();
  announce_acquire(&clock);
  return error;
}

template <class... A, size_t... I>
void call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
  kernel(*static_cast<std::remove_cv_t<A>*>(arguments[I])...);
}

template <class... A>
int launch_kernel(void (*kernel)(A...), const Launch* how, void** arguments, char* error, size_t size) {
  const std::string wrong = launch(*how, [&] { call(kernel, arguments, std::index_sequence_for<A...>()); });
  snprintf(error, size, "%s", wrong.c_str());
  return wrong.empty() ? 0 : 1;
}

// An array of the block, NaN at first. Its own heap block, so that ASan sees accesses past its end.
inline void* shared_array(const void* key, size_t bytes) {
  const Unobserved unobserved;
  for (SharedArray& array : block.shared)
    if (array.key == key) return array.data.get();
  void* data = nullptr;
  if (posix_memalign(&data, 128, bytes)) fail("no memory for a shared array of %zu bytes", bytes);
  memset(data, 0xff, bytes);
  block.shared.push_back({key, std::unique_ptr<void, void (*)(void*)>(data, free)});
  return data;
}

inline void check_aligned(const void* address, size_t bytes, const char* operation) {
  if (reinterpret_cast<uintptr_t>(address) % bytes) fail("%s: an address is not a multiple of %zu", operation, bytes);
}

template <class T>
T exchange(const char* operation, unsigned mask, T value, unsigned source) {
  static_assert(sizeof(T) <= sizeof(uint32_t) * PAYLOAD_WORDS, "too much for one exchange");
  const Brought brought = meet(operation, mask, &value, sizeof value);
  T result;
  if (brought.present >> (source & 31) & 1) memcpy(&result, brought.payload[source & 31], sizeof result);
  else memset(&result, 0xff, sizeof result);
  return result;
}

}  // namespace shim

#define threadIdx (shim::self().index)
#define blockIdx (shim::block.index)
#define blockDim (shim::block.size)
#define gridDim (shim::block.grid)

static inline int min(int a, int b) { return a < b ? a : b; }
static inline int max(int a, int b) { return a > b ? a : b; }

static inline void __syncthreads() { shim::meet_block(); }
static inline void __syncwarp(unsigned mask = shim::ALL_LANES) { shim::meet("__syncwarp", mask); }

template <class T>
static inline T __shfl_sync(unsigned mask, T value, int source) {
  return shim::exchange("__shfl_sync", mask, value, source);
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T value, int bits) {
  return shim::exchange("__shfl_xor_sync", mask, value, shim::self().lane ^ bits);
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned distance) {
  const unsigned lane = shim::self().lane;
  return shim::exchange("__shfl_down_sync", mask, value, lane + distance > 31 ? lane : lane + distance);
}
template <class T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned distance) {
  const unsigned lane = shim::self().lane;
  return shim::exchange("__shfl_up_sync", mask, value, lane < distance ? lane : lane - distance);
}
static inline unsigned __ballot_sync(unsigned mask, int vote) {
  const uint32_t own = vote != 0;
  const shim::Brought brought = shim::meet("__ballot_sync", mask, &own, sizeof own);
  unsigned result = 0;
  for (int lane = 0; lane < 32; ++lane)
    if (brought.present >> lane & brought.payload[lane][0] & 1) result |= 1u << lane;
  return result;
}
static inline int __any_sync(unsigned mask, int vote) { return __ballot_sync(mask, vote) != 0; }

template <class T>
static inline T atomicAdd(T* address, T value) {
  return shim::ordered_by_fences(address, [&] { return __atomic_fetch_add(address, value, __ATOMIC_RELAXED); });
}
static inline float atomicAdd(float* address, float value) {
  return shim::ordered_by_fences(address, [&] {
    uint32_t* const bits = reinterpret_cast<uint32_t*>(address);
    uint32_t before = __atomic_load_n(bits, __ATOMIC_RELAXED), after;
    float old, sum;
    do {
      memcpy(&old, &before, 4);
      sum = old + value;
      memcpy(&after, &sum, 4);
    } while (!__atomic_compare_exchange_n(bits, &before, after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
  });
}
// Releases what this thread stored before.
static inline unsigned atomicInc(unsigned* address, unsigned last) {
  return shim::ordered_by_fences(address, [&] {
    unsigned before = __atomic_load_n(address, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(address, &before, before >= last ? 0 : before + 1, true, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED)) {}
    return before;
  });
}
static inline void __threadfence() {
#if SHIM_TSAN
  for (const unsigned thread : shim::self().counted) shim::announce_acquire(&shim::block.clocks->observed[thread]);
  shim::announce_release(&shim::block.clocks->fenced);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}
