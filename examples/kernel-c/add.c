/* add.c: a kernel in plain C, against abi.h alone: y = a + b in f32.
 *
 * A sum of two floats has one correct rounding, so the bits are those of the backend's own kernel, and the kernel may
 * carry that one's numeric class. */
#include <stdio.h>
#include <tenon/abi.h>

#define STR(text) \
  { text, sizeof(text) - 1 }

static tenon_status accept(const tenon_kernel* kernel, const tenon_node* node, const tenon_device* device,
                           tenon_offer* offer) {
  (void)kernel, (void)device;
  if (node->n_in != 2) {
    snprintf(offer->why_not, sizeof offer->why_not, "adds two values, not a weight");
    return TENON_UNSUPPORTED;
  }
  for (uint32_t i = 0; i < 3; ++i) {
    const tenon_type* type = i < 2 ? &node->in[i] : &node->out[0];
    if (type->groups > 1) {
      snprintf(offer->why_not, sizeof offer->why_not, "serves whole rows; operand %u is a strided view", (unsigned)i);
      return TENON_UNSUPPORTED;
    }
  }
  /* The encodings are preset to f32. */
  offer->flags = TENON_OFFER_ROW_EXACT;
  offer->bytes_read = 8.0 * (double)node->in[0].cols;
  return TENON_OK;
}

/* Every worker computes all rows of a decode step for itself, so that no barrier is needed; a prompt's rows are shared.
 */
static tenon_status plan(const tenon_kernel* kernel, const tenon_node* node, uint32_t max_rows, int64_t max_context,
                         uint32_t n_workers, tenon_plan* plan) {
  (void)kernel, (void)max_rows, (void)max_context, (void)n_workers;
  plan->partition = node->phase == TENON_PHASE_DECODE ? TENON_PART_REPLICATE : TENON_PART_ROWS;
  return TENON_OK;
}

static const float* row_of(const tenon_view* view, int64_t row) {
  return (const float*)(uintptr_t)(view->data + (uint64_t)(row * view->row_bytes));
}

static tenon_status launch(const tenon_kernel* kernel, const tenon_plan* plan, const tenon_args* args,
                           const tenon_exec* exec) {
  (void)kernel;
  int64_t begin = 0, end = args->rows;
  if (plan->partition == TENON_PART_ROWS) {
    begin = TENON_SHARE(args->rows, exec->worker, exec->n_workers);
    end = TENON_SHARE(args->rows, exec->worker + 1, exec->n_workers);
  }
  for (int64_t row = begin; row < end; ++row) {
    const float *a = row_of(&args->in[0], row), *b = row_of(&args->in[1], row);
    float* y = (float*)row_of(&args->out[0], row);
    for (int64_t c = 0; c < args->out[0].cols; ++c) y[c] = a[c] + b[c];
  }
  return TENON_OK;
}

static const tenon_kernel kernel = {
    .struct_size = sizeof(tenon_kernel),
    .phases = TENON_PHASE_DECODE | TENON_PHASE_PREFILL,
    .priority = 200,
    .name = STR("example.add"),
    .backend = STR("cpu"),
    .pattern = STR("add"),
    .numeric_class = STR("cpu.add"),
    .accept = accept,
    .plan = plan,
    .launch = launch,
};

static tenon_status init(const tenon_host* host, const tenon_registrar* registrar) {
  (void)host;
  const tenon_kernel* kernels[] = {&kernel};
  return registrar->kernels(registrar->self, kernels, 1);
}

static const tenon_plugin plugin = {
    .struct_size = sizeof(tenon_plugin),
    .abi_major = TENON_ABI_MAJOR,
    .abi_minor = TENON_ABI_MINOR,
    .magic = TENON_MAGIC,
    .name = STR("example-add"),
    .version = STR("0.1.0"),
    .licence = STR("Apache-2.0"),
    .init = init,
};

__attribute__((visibility("default"))) const tenon_plugin* tenon_plugin_entry(void) { return &plugin; }
