// Base of the reference's kernels: one worker, no packing, every encoding and dtype, buffers in the workspace.
#pragma once

#include <memory>
#include <tenon/sdk/kernel.hpp>
#include <vector>

#include "values.hpp"

namespace tenon::reference {

// What a launch needs of its node; made by plan().
struct Facts {
  std::vector<uint64_t> attr;  // bytes of the attributes, aligned
  std::vector<tenon_type> in, out;
  std::vector<tenon_store_type> store;
  int64_t max_context = 0;
  uint32_t max_rows = 0;
};

// One launch: the facts, the operands and f32 buffers cut from the workspace.
class Call {
 public:
  Call(const Facts& facts, const sdk::Args& args, tenon_addr workspace)
      : facts_(facts), args_(args), next_(workspace), begin_(workspace) {}
  template <typename Attr>
  const Attr& attr() const {
    return *reinterpret_cast<const Attr*>(facts_.attr.data());
  }
  bool has_attr() const { return !facts_.attr.empty(); }
  const Facts& facts() const { return facts_; }
  const tenon_store_type& store_type(int i) const { return facts_.store[size_t(i)]; }
  const sdk::Args& args() const { return args_; }
  int64_t rows() const { return args_.rows(); }
  uint32_t n_in() const { return args_.table().n_in; }
  uint32_t n_out() const { return args_.table().n_out; }
  uint32_t n_weight() const { return args_.table().n_weight; }
  const tenon_view& in(int i) const { return args_.in(i); }
  const tenon_view& out(int i) const { return args_.out(i); }
  const tenon_weight& weight(int i) const { return args_.weight(i); }
  const tenon_store& store(int i) const { return args_.store(i); }
  const tenon_step& step() const { return args_.step(); }
  // A buffer of n numbers; plan() has counted it.
  template <typename T = float>
  T* take(int64_t n) {
    T* buffer = sdk::at<T>(next_);
    next_ += uint64_t(TENON_ALIGN64(n * int64_t(sizeof(T))));
    return buffer;
  }
  float* decoded(int i) {
    float* values = take(count(weight(i)));
    decode_all(weight(i), values);
    return values;
  }

 private:
  const Facts& facts_;
  const sdk::Args& args_;
  tenon_addr next_, begin_;
};

class OpKernel : public sdk::Kernel {
 public:
  sdk::Offer accept(const sdk::Node& node, const sdk::Device&) const final {
    for (const tenon_weight& weight : node.weights())
      if (!sdk::host().dtype(sdk::host().self, weight.dtype))
        return sdk::refuse("dtype %u is not registered", weight.dtype);
    for (const tenon_store_type& store : node.stores())
      if ((store.kind == TENON_STORE_PAGED || store.kind == TENON_STORE_LATENT) && (!can_store(store.dtype_k) || !can_store(store.dtype_v)))
        return sdk::refuse("the cache's dtype %s or %s has no encoder",
                           std::string(sdk::dtype_name(store.dtype_k)).c_str(),
                           std::string(sdk::dtype_name(store.dtype_v)).c_str());
    sdk::Offer offer;
    offer.row_exact().flag(TENON_OFFER_DEQUANTIZES);
    double bytes = 0;
    for (const tenon_weight& weight : node.weights()) bytes += double(weight.rows) * double(weight.row_bytes);
    offer.cost(bytes);
    return refine(node, offer);
  }

  void plan(const sdk::Node& node, const sdk::PlanRequest& request, tenon_plan& plan) const final {
    auto facts = std::make_unique<Facts>();
    if (const void* attr = node.table().attr) {
      const uint32_t bytes = *static_cast<const uint32_t*>(attr);
      facts->attr.resize((bytes + 7) / 8);
      std::memcpy(facts->attr.data(), attr, bytes);
    }
    facts->in.assign(node.in().begin(), node.in().end());
    facts->out.assign(node.out().begin(), node.out().end());
    facts->store.assign(node.stores().begin(), node.stores().end());
    facts->max_rows = request.max_rows, facts->max_context = request.max_context;
    plan.partition = TENON_PART_ONE;
    plan.workspace = workspace(node, request);
    plan.impl = facts.release();
  }

  void launch(const tenon_plan& plan, const sdk::Args& args, const sdk::Worker& worker) const final {
    if (worker.index() != 0) return;
    Call call(*static_cast<const Facts*>(plan.impl), args, worker.table().workspace);
    run(call);
  }

  void drop(tenon_plan& plan) const final {
    std::unique_ptr<Facts>(static_cast<Facts*>(plan.impl)).reset(), plan.impl = nullptr;
  }

 protected:
  virtual sdk::Offer refine(const sdk::Node&, sdk::Offer offer) const { return offer; }
  // Bytes of all that run() takes. Preset: every input and output row and every weight once.
  virtual uint64_t workspace(const sdk::Node& node, const sdk::PlanRequest&) const {
    int64_t bytes = 0;
    for (const tenon_type& type : node.in()) bytes += floats(type.cols);
    for (const tenon_type& type : node.out()) bytes += floats(type.cols);
    for (const tenon_weight& weight : node.weights()) bytes += floats(count(weight));
    return uint64_t(bytes);
  }
  virtual void run(Call& call) const = 0;
  static int64_t floats(int64_t n) { return TENON_ALIGN64(n * 4); }
  static int64_t doubles(int64_t n) { return TENON_ALIGN64(n * 8); }
};

// act(x), and act(gate) × up with the limits of tenon_glu_attr (limit 0 = none).
double activate(uint32_t activation, double x);
double glu(uint32_t activation, double limit, double alpha, double gate, double up);

}  // namespace tenon::reference
