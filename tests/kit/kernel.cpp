// A family of one simple product kernel. Without a fault it keeps every duty; each macro breaks one of them.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <tenon/sdk/plugin.hpp>
#include <vector>

#ifndef FAULT
#define FAULT kNone
#endif

namespace {

enum Fault {
  kNone,
  kReadsPadding,
  kDependsOnRows,
  kWritesPadding,
  kWritesBeyond,
  kUsesScratch,
  kAllocates,
  kStartsThread,
  kHidesNan,
  kDependsOnWorkers,
  kWrongClass,
  kPackOverruns,
  kImpureAccept,
  kNoReason,
  kWrongShare,
  kWrongValues,
  kCrashes,
  kHangs,
  kChangesInput,
  kSaysNothing,
  kRegistersMore,
  kReadsBeyond,
  kAllocatesOnce,
  kSleeps,
  kLocksShared,
  kHidesLastNan,
  kFixedRows,
  kMissesThirteen,
  kMissesBarrier,
  kLeavesBarrier,
  kHangsEarly,
  kHidesAndHangs
};
constexpr Fault kFault = FAULT;

namespace sdk = tenon::sdk;

constexpr uint32_t kLayout = 70001;                     // f32 rows without gaps
constexpr bool kReadsTheFile = kFault == kReadsBeyond;  // leaves the weight where it is
constexpr bool kTwoSteps = kFault == kMissesBarrier || kFault == kLeavesBarrier;

class Linear final : public sdk::Kernel {
 public:
  explicit Linear(bool backwards = false) : backwards_(backwards) {}

  sdk::Offer accept(const sdk::Node& node, const sdk::Device&) const override {
    static std::atomic<int> calls = 0;
    if (kFault == kNoReason && node.weights().size() > 1) return sdk::Offer::refusal("");
    if (node.weights().size() != 1) return sdk::refuse("serves one weight, not %zu", node.weights().size());
    const tenon_weight& w = node.weights()[0];
    if (w.dtype != TENON_DTYPE_F32) return sdk::refuse("the weight is f32, not dtype %u", w.dtype);
    if (w.parts > 1 || w.n_expert > 0) return sdk::refuse("reads plain weights, without parts or experts");
    sdk::Offer offer = sdk::offer();
    if (!kReadsTheFile) offer.packs(0, kLayout);
    if (kFault != kMissesThirteen || node.decode()) offer.row_exact();
    if (kFault == kImpureAccept) offer.cost(0, double(++calls));
    return offer;
  }

  void pack(const sdk::Node&, const sdk::PackSlice& slice) const override {
    const tenon_weight& w = slice.src();
    if (!slice.table->dst) {
      slice.table->bytes = uint64_t(w.rows * w.cols * 4), slice.table->align = 64, slice.table->tail_pad = 0;
      return;
    }
    for (int64_t r = slice.row0(); r < slice.row0() + slice.rows(); ++r) {
      const float* from = sdk::at<float>(w.plane[0], r * w.row_bytes);
      std::copy_n(from, w.cols, slice.dst<float>() + r * w.cols);
    }
    if (kFault == kPackOverruns) slice.dst<float>()[(slice.row0() + slice.rows()) * w.cols] = 0;
  }

  void plan(const sdk::Node& node, const sdk::PlanRequest&, tenon_plan& plan) const override {
    plan.partition = kTwoSteps ? TENON_PART_CLAIM : TENON_PART_OUT_COLS, plan.unit_cols = 16, plan.scratch = 64;
    plan.workspace = 64;
    plan.impl = std::make_unique<int64_t>(node.in()[0].cols).release();
  }
  void drop(tenon_plan& plan) const override {
    std::unique_ptr<int64_t>(static_cast<int64_t*>(plan.impl)).reset();
    plan.impl = nullptr;
  }

  void launch(const tenon_plan& plan, const sdk::Args& args, const sdk::Worker& worker) const override {
    const int64_t n = args.out(0).cols, k = *static_cast<const int64_t*>(plan.impl), rows = args.rows();
    const sdk::Range units =
        kFault == kWrongShare ? sdk::Range{0, worker.index() == 0 ? (n + 15) / 16 : 0} : worker.share((n + 15) / 16);
    if (kFault == kAllocates) std::vector<float>(size_t(k)).at(0) = 1;
    if (kFault == kStartsThread) start_thread();
    if (kFault == kCrashes && rows == 7) {
      volatile int* volatile nowhere = nullptr;
      *nowhere = 1;
    }
    if (kFault == kHangs && rows == 7)
      for (;;) std::atomic_thread_fence(std::memory_order_seq_cst);
    if (kFault == kAllocatesOnce) static_cast<void>(kept());
    if (kFault == kSleeps) sleep_a_while();
    if (kFault == kLocksShared) lock_shared();
    if (kTwoSteps) {
      // The last worker writes what all of them read.
      if (worker.index() + 1 == worker.count()) *worker.workspace<float>() = 0;
      if (kFault == kLeavesBarrier && (worker.index() > 0 || worker.count() < 3)) worker.barrier();
    }
    if (kFault == kChangesInput && worker.index() == 0) *sdk::row(args.in(0), 0) += 0.5f;
    for (int64_t r = 0; r < rows + (kFault == kWritesPadding); ++r)
      for (int64_t c = units.begin * 16; c < std::min(n, units.end * 16); ++c)
        sdk::row(args.out(0), r)[c] = dot(args, worker, r, c, k);
    if (kFault == kWritesBeyond && worker.index() == 0) *sdk::row(args.out(0), args.out(0).rows) = 0;
  }

 private:
  static void start_thread();
  static void sleep_a_while();
  static void lock_shared();
  static std::vector<float>& kept();
  float dot(const sdk::Args& args, const sdk::Worker& worker, int64_t r, int64_t c, int64_t k) const {
    const float* w = sdk::at<float>(args.weight(0).plane[0]) + c * k;
    const tenon_view& x = args.in(0);
    const int64_t width = x.cols / x.groups;
    float sum = kFault == kUsesScratch ? worker.scratch<float>()[0] : 0;
    if (kTwoSteps) sum = *worker.workspace<float>();
    if (kFault == kMissesThirteen && args.rows() == 13) sum = 1;
    if (kFault == kReadsBeyond) sum = 0 * *static_cast<const volatile float*>(w + k + 15);
    bool backwards = backwards_;
    if (kFault == kDependsOnRows) backwards = args.rows() > 8;
    if (kFault == kDependsOnWorkers) backwards = worker.count() > 2;
    const int64_t used = kFault == kWrongValues && k % 32 ? k - 1 : k;
    for (int64_t i = 0; i < used; ++i) {
      const int64_t at = backwards ? used - 1 - i : i;
      const int64_t row_bytes =
          kFault == kFixedRows && x.groups == 1 ? tenon_encoding_row_bytes(TENON_ENC_F32, x.cols) : x.row_bytes;
      float value = sdk::at<float>(x.data, r * row_bytes + at / width * x.group_bytes)[at % width];
      if (kFault == kHidesNan && !std::isfinite(value)) value = 0;
      if (kFault == kHidesLastNan && at == k - 1 && std::isnan(value)) value = 0;
      sum += value * w[at];
    }
    if (kFault == kReadsPadding) sum += 0 * sdk::row(x, args.rows())[0];
    return sum;
  }

  bool backwards_;
};

}  // namespace

#include <unistd.h>

#include <chrono>
#include <shared_mutex>
#include <thread>

std::vector<float>& Linear::kept() {
  static std::vector<float> all(100);
  return all;
}
void Linear::sleep_a_while() { std::this_thread::sleep_for(std::chrono::microseconds(1)); }
void Linear::lock_shared() {
  static std::shared_mutex mutex;
  const std::shared_lock lock(mutex);
}
void Linear::start_thread() {
  std::thread([] {}).join();
}

#define KIT_PLUGIN(name) TENON_PLUGIN(name, "0.1.0")
KIT_PLUGIN(KIT_NAME) {
  if (kFault == kHidesAndHangs)
    for (int fd = 3; fd < 256; ++fd) close(fd);
  if (kFault == kHangsEarly || kFault == kHidesAndHangs)
    for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
  if (kFault == kSaysNothing) {
    // Goes on although the host refuses the kernel.
    try {
      registrar.kernel<Linear>(KIT_NAME, {.pattern = "linear", .numeric_class = KIT_NAME});
    } catch (const std::exception&) {
    }
    return;
  }
  registrar.kernel<Linear>(KIT_NAME, {.pattern = "linear", .numeric_class = KIT_NAME});
  if (kFault == kWrongClass)
    registrar.kernel<Linear>(KIT_NAME ".backwards", {.pattern = "linear", .numeric_class = KIT_NAME}, true);
  if (kFault == kRegistersMore)
    registrar.kernel<Linear>(KIT_NAME ".more", {.pattern = "concat", .numeric_class = KIT_NAME ".more"});
}
