// Threads of a block as fibers on one host thread, run in turns from barrier to barrier.
#include <cstdio>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda_runtime.h"

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace tenon::emulator {
namespace {

constexpr size_t kStackBytes = 128 << 10;
constexpr unsigned kLanes = 32, kMaxThreads = 1024;

enum class State { kReady, kAtBlockBarrier, kAtWarpOperation, kDone };

#if defined(__x86_64__)
// Saves the callee's registers and the stack pointer at *from, and goes on where `to` was saved.
extern "C" void tenon_emulator_switch(void** from, void* to);
asm(R"(
.text
.globl tenon_emulator_switch
.hidden tenon_emulator_switch
.type tenon_emulator_switch, @function
tenon_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tenon_emulator_switch, . - tenon_emulator_switch
)");
using Context = void*;
void switch_to(Context& from, Context& to) { tenon_emulator_switch(&from, to); }
void prepare(Context& context, char* stack, void (*entry)()) {
  // As if `entry` had been called: the stack is 8 off a multiple of 16 on entry.
  auto* top = reinterpret_cast<void**>((reinterpret_cast<uintptr_t>(stack) + kStackBytes) & ~uintptr_t(15));
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  context = top;
}
#else
using Context = ucontext_t;
void switch_to(Context& from, Context& to) { swapcontext(&from, &to); }
void prepare(Context& context, char* stack, void (*entry)()) {
  getcontext(&context);
  context.uc_stack.ss_sp = stack, context.uc_stack.ss_size = kStackBytes, context.uc_link = nullptr;
  makecontext(&context, entry, 0);
}
#endif

struct Fiber {
  Context context;
  State state = State::kDone;
  unsigned operations = 0;  // warp operations so far: two sets of slots take turns
  bool has_waited = false;  // for the launch before
};

struct Block {
  std::vector<Fiber> fibers{kMaxThreads};
  std::unique_ptr<char[]> stacks{new char[kMaxThreads * kStackBytes]};
  uint32_t slots[2][kMaxThreads] = {};
  std::vector<uint8_t> memory;
  Context scheduler = {};
  const std::function<void()>* thread = nullptr;
  unsigned threads = 0, current = 0;
};
Block& the_block() {
  static Block& block = *new Block;
  return block;
}

void fiber_entry() {
  Block& block = the_block();
  (*block.thread)();
  Fiber& fiber = block.fibers[block.current];
  fiber.state = State::kDone;
  switch_to(fiber.context, block.scheduler);
}

void wait(State state) {
  Block& block = the_block();
  Fiber& fiber = block.fibers[block.current];
  fiber.state = state;
  const uint3 own = threadIdx;
  switch_to(fiber.context, block.scheduler);
  threadIdx = own;
}

// Lets go who waits for nobody any more; false if nobody is.
bool release(Block& block) {
  bool released = false;
  unsigned waiting = 0, alive = 0;
  for (unsigned warp = 0; warp < block.threads; warp += kLanes) {
    unsigned at_operation = 0, alive_here = 0;
    const unsigned end = warp + kLanes < block.threads ? warp + kLanes : block.threads;
    for (unsigned i = warp; i < end; ++i) {
      alive_here += block.fibers[i].state != State::kDone;
      at_operation += block.fibers[i].state == State::kAtWarpOperation;
      waiting += block.fibers[i].state == State::kAtBlockBarrier;
    }
    alive += alive_here;
    if (!at_operation || at_operation != alive_here) continue;
    for (unsigned i = warp; i < end; ++i)
      if (block.fibers[i].state == State::kAtWarpOperation) block.fibers[i].state = State::kReady;
    released = true;
  }
  if (released || !waiting || waiting != alive) return released;
  for (unsigned i = 0; i < block.threads; ++i)
    if (block.fibers[i].state == State::kAtBlockBarrier) block.fibers[i].state = State::kReady;
  return true;
}

bool run_block(Block& block) {
  for (unsigned i = 0; i < block.threads; ++i) {
    prepare(block.fibers[i].context, block.stacks.get() + i * kStackBytes, fiber_entry);
    block.fibers[i].state = State::kReady, block.fibers[i].operations = 0, block.fibers[i].has_waited = false;
  }
  for (;;) {
    bool is_alive = false;
    for (unsigned i = 0; i < block.threads; ++i) {
      if (block.fibers[i].state == State::kReady) {
        block.current = i;
        threadIdx = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
        switch_to(block.scheduler, block.fibers[i].context);
      }
      is_alive = is_alive || block.fibers[i].state != State::kDone;
    }
    if (!is_alive) return true;
    if (!release(block)) return false;
  }
}

}  // namespace

void wait_for_launch_before() { the_block().fibers[the_block().current].has_waited = true; }

void block_barrier() { wait(State::kAtBlockBarrier); }

uint32_t exchange(uint32_t value, unsigned lane_mask) {
  Block& block = the_block();
  const unsigned own = block.current, set = block.fibers[own].operations++ % 2;
  block.slots[set][own] = value;
  wait(State::kAtWarpOperation);
  return block.slots[set][own ^ lane_mask];
}

uint32_t from_lane(uint32_t value, unsigned lane) {
  Block& block = the_block();
  const unsigned own = block.current, set = block.fibers[own].operations++ % 2;
  block.slots[set][own] = value;
  wait(State::kAtWarpOperation);
  return block.slots[set][own / kLanes * kLanes + lane % kLanes];
}

uint8_t* shared_memory() { return the_block().memory.data(); }

bool vote(bool value, bool all) {
  Block& block = the_block();
  const unsigned own = block.current, set = block.fibers[own].operations++ % 2, first = own / kLanes * kLanes;
  block.slots[set][own] = value;
  wait(State::kAtWarpOperation);
  bool result = all;
  for (unsigned i = first; i < first + kLanes && i < block.threads; ++i) {
    if (block.fibers[i].state == State::kDone) continue;
    const bool theirs = block.slots[set][i] != 0;
    result = all ? result && theirs : result || theirs;
  }
  return result;
}

cudaError_t run_grid(dim3 grid, dim3 block_dim, size_t memory, const std::function<void()>& thread, bool is_early) {
  static std::mutex& mutex = *new std::mutex;
  const std::lock_guard lock(mutex);
  Block& block = the_block();
  block.threads = block_dim.x * block_dim.y * block_dim.z, block.thread = &thread;
  if (block.threads == 0 || block.threads > kMaxThreads || grid.y > 65535 || grid.z > 65535)
    return cudaErrorInvalidValue;
  gridDim = grid, blockDim = block_dim;
  block.memory.assign(memory, 0xff);  // NaN, whatever is read of it as a float
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        const char* fault = run_block(block) ? nullptr : "not all threads reach a barrier";
        for (unsigned i = 0; is_early && i < block.threads; ++i)
          if (!block.fibers[i].has_waited) fault = "a thread has not waited for the launch before";
        if (!fault) continue;
        std::fprintf(stderr, "emulator: block (%u, %u, %u): %s\n", x, y, z, fault);
        return cudaErrorLaunchFailure;
      }
  return cudaSuccess;
}

}  // namespace tenon::emulator
