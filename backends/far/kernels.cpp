#include "kernels.hpp"

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "handles.hpp"
#include "tables.hpp"

namespace tenon::far {
namespace {

// A plan of the other kernel, with what a message and a launch need of its node.
struct Plan {
  const tenon_kernel* kernel = nullptr;
  tenon_plan inner = {};
  uint32_t domain = TENON_DOMAIN_TOKENS;
  std::string node;
  std::atomic<bool> is_dropped = false;
  ~Plan() {
    if (inner.impl && kernel->drop) kernel->drop(kernel, &inner);
  }
};
using PlanHolder = std::shared_ptr<Plan>;

struct Adapted {
  const tenon_kernel* inner;
  std::string name;
  tenon_kernel table;
};

// What the other plugin registered, and what it was given to do so. Filled during init().
struct Others {
  const tenon_host* host = nullptr;  // the real one
  tenon_host host_copy = {};
  const tenon_device* device = nullptr;
  std::vector<const tenon_kernel*> kernels;
  std::vector<std::unique_ptr<Adapted>> adapted;
};
Others& others() {
  static Others& one = *new Others;  // its tables live as long as the library
  return one;
}

const tenon_kernel* inner_of(const tenon_kernel* kernel) { return static_cast<const Adapted*>(kernel->self)->inner; }

bool is_linear(const tenon_kernel* kernel) { return sdk::to_view(kernel->pattern) == "linear"; }

// A matrix of plain rows: linear() takes it packed, so that the host's way of packing is used on this device as well.
bool can_pack(const tenon_weight& weight) {
  const tenon_dtype* record = sdk::host().dtype(sdk::host().self, weight.dtype);
  return record && record->n_plane == 1 && !weight.n_expert && !weight.bank;
}

tenon_status accept(const tenon_kernel* kernel, const tenon_node* node, const tenon_device*,
                    tenon_offer* offer) noexcept {
  const tenon_kernel* inner = inner_of(kernel);
  const tenon_status status = inner->accept(inner, node, others().device, offer);
  if (status != TENON_OK) return status;
  offer->flags |= TENON_OFFER_CAPTURABLE;
  for (uint32_t i = 0; is_linear(kernel) && i < node->n_weight && i < 8; ++i)
    if (can_pack(node->weight[i])) offer->pack_layout[i] = kPackedRows;
  return TENON_OK;
}

tenon_status pack(const tenon_kernel*, const tenon_node*, tenon_pack* pack) noexcept {
  return sdk::guard([&] {
    const uint64_t row_bytes = uint64_t(pack->src->row_bytes);
    if (!pack->dst) {
      pack->bytes = uint64_t(pack->src->rows) * row_bytes, pack->align = 64, pack->tail_pad = 0;
      return;
    }
    const uint64_t begin = uint64_t(pack->row0) * row_bytes, bytes = uint64_t(pack->rows) * row_bytes;
    if (is_far(pack->src->plane[0])) throw sdk::Error(TENON_INVALID_ARGUMENT, "pack() reads from the host's memory");
    Near near;
    std::memcpy(near.at(pack->dst + begin, bytes, "a packed weight"),
                reinterpret_cast<const uint8_t*>(pack->src->plane[0]) + begin, bytes);
  });
}

tenon_status plan(const tenon_kernel* kernel, const tenon_node* node, uint32_t max_rows, int64_t max_context,
                  uint32_t n_workers, tenon_plan* out) noexcept {
  return sdk::guard([&] {
    auto made = std::make_shared<Plan>();
    made->kernel = inner_of(kernel), made->node = sdk::to_view(node->name);
    made->inner.struct_size = sizeof made->inner;
    sdk::check(made->kernel->plan(made->kernel, node, max_rows, max_context, n_workers, &made->inner));
    if (node->n_out + node->n_in > 0) made->domain = node->n_out ? node->out[0].domain : node->in[0].domain;
    *out = made->inner;
    out->impl = std::make_unique<PlanHolder>(std::move(made)).release();
  });
}

void drop(const tenon_kernel*, tenon_plan* plan) noexcept {
  const std::unique_ptr<PlanHolder> holder(static_cast<PlanHolder*>(plan->impl));
  (*holder)->is_dropped = true;
  plan->impl = nullptr;
}

// On the stream's thread. Its last message is what the kernel said.
void run(const Plan& plan, const Tables& kept) {
  if (plan.is_dropped) throw sdk::Error(TENON_INVALID_ARGUMENT, "its plan was dropped before it ran");
  Near near;
  Tables tables(kept.args(), kept.exec(), plan.inner.workspace, &near);
  tables.keep_live_rows(plan.domain);
  std::atomic<int64_t> counter = 0;
  tenon_exec exec = tables.exec();
  exec.worker = 0, exec.n_workers = 1, exec.stream = nullptr, exec.team = nullptr, exec.counter = &counter;
  exec.barrier = [](void*) noexcept {};
  exec.claim = [](void* c, int64_t n) noexcept { return static_cast<std::atomic<int64_t>*>(c)->fetch_add(n); };
  stream_message()->clear();
  const tenon_status status = plan.kernel->launch(plan.kernel, &plan.inner, &tables.args(), &exec);
  if (status != TENON_OK) throw sdk::Error(status, *stream_message());
}

tenon_status launch(const tenon_kernel* kernel, const tenon_plan* plan, const tenon_args* args,
                    const tenon_exec* exec) noexcept {
  return sdk::guard([&] {
    const std::shared_ptr<Stream> stream = native_streams().get(exec->stream);
    const PlanHolder& holder = *static_cast<const PlanHolder*>(plan->impl);
    auto kept = std::make_shared<const Tables>(*args, *exec);
    stream->submit([kernel, holder, kept = std::move(kept)] {
      try {
        run(*holder, *kept);
      } catch (const sdk::Error& error) {
        throw sdk::Error(error.status(),
                         holder->node + ": kernel " + std::string(sdk::to_view(kernel->name)) + ": " + error.what());
      }
    });
  });
}

// A message of a stream's thread is kept with the stream's failure: whoever waits for the stream gets it.
tenon_status keep_message(void* self, tenon_status status, tenon_str message) noexcept {
  if (std::string* slot = stream_message()) *slot = sdk::to_view(message);
  return others().host->fail(self, status, message);
}

tenon_status take_backend(void*, const tenon_backend* backend) noexcept {
  uint32_t n = 0;
  const tenon_device* const* devices = nullptr;
  const tenon_status status = backend->devices(backend->self, &n, &devices);
  if (status == TENON_OK && n > 0) others().device = devices[0];
  return status;
}

tenon_status take_kernels(void*, const tenon_kernel* const* kernels, uint32_t n) noexcept {
  return sdk::guard([&] { others().kernels.insert(others().kernels.end(), kernels, kernels + n); });
}

std::unique_ptr<Adapted> adapt(const tenon_kernel* inner) {
  auto out = std::make_unique<Adapted>();
  out->inner = inner;
  const std::string_view name = sdk::to_view(inner->name);
  out->name = "far" + std::string(name.substr(std::min(name.find('.'), name.size())));
  out->table = *inner;
  out->table.name = sdk::to_str(out->name), out->table.backend = sdk::to_str("far"), out->table.self = out.get();
  out->table.accept = accept, out->table.pack = pack, out->table.plan = plan, out->table.launch = launch;
  out->table.drop = drop;
  return out;
}

}  // namespace

void register_kernels_of(const tenon_plugin* other, sdk::Registrar& registrar) {
  Others& all = others();
  all.host = &sdk::host();
  all.host_copy = sdk::host();
  all.host_copy.fail = keep_message;
  tenon_registrar taking = registrar.table();
  taking.backend = take_backend, taking.kernels = take_kernels;
  sdk::check(other->init(&all.host_copy, &taking));
  for (const tenon_kernel* kernel : all.kernels) {
    all.adapted.push_back(adapt(kernel));
    const tenon_kernel* entry = &all.adapted.back()->table;
    sdk::check(registrar.table().kernels(registrar.table().self, &entry, 1));
  }
}

}  // namespace tenon::far
