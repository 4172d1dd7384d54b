// kv_write: rows of K and V, or latent rows, to their places in the pages of a store.
#include "ops_isa.hpp"
#include "pages.hpp"

namespace tenon::cpu::TENON_ISA {
namespace {

TENON_INLINE tenon_status put(const tenon_dtype* record, uint32_t dtype, uint8_t* to, const float* from, int64_t dim) {
  switch (dtype) {
    case TENON_DTYPE_F32:
      memcpy(to, from, size_t(dim) * sizeof(float));
      return TENON_OK;
    case TENON_DTYPE_F16:
      for (int64_t i = 0; i < dim; i += kLanes)
        store_f16_first(reinterpret_cast<uint16_t*>(to) + i, load_first(from + i, dim - i), dim - i);
      return TENON_OK;
    case TENON_DTYPE_BF16:
      for (int64_t i = 0; i < dim; i += kLanes)
        store_bf16_first(reinterpret_cast<uint16_t*>(to) + i, load_first(from + i, dim - i), dim - i);
      return TENON_OK;
    default: {
      const tenon_weight row = row_as_weight(dtype, to, row_bytes_of(record, dim), 1, dim);
      return record->encode(from, 1, dim, &row);
    }
  }
}

}  // namespace

tenon_status kv_write(const OpPlan* plan, const tenon_args* args, const tenon_exec* exec) {
  const tenon_kv_write_attr* attr = &plan->kv_write;
  const tenon_store* pages = &args->store[0];
  const int32_t* seq = pointer_at<int32_t>(args->step->seq, 0);
  const int32_t* index = pointer_at<int32_t>(args->step->index, 0);
  const int64_t n_rows = *pointer_at<uint32_t>(args->step->n_rows, 0);
  const int64_t k_bytes = row_bytes_of(plan->dtype[0], attr->head_dim);
  const int64_t v_bytes = row_bytes_of(plan->dtype[1], attr->head_dim_v);
  const Span heads = heads_of(plan, attr->kv_heads, exec);
  const Span rows = plan->partition == TENON_PART_ROWS ? share_of(n_rows, exec) : Span{0, n_rows};
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    uint8_t* page = page_of(pages, seq[r], index[r] / TENON_PAGE_TOKENS);
    if (!page) return TENON_INVALID_ARGUMENT;
    const int64_t slot = index[r] % TENON_PAGE_TOKENS;
    for (int64_t h = heads.begin; h < heads.end; ++h) {
      uint8_t* k = page + (h * TENON_PAGE_TOKENS + slot) * k_bytes;
      uint8_t* v = page + pages->value_offset + (h * TENON_PAGE_TOKENS + slot) * v_bytes;
      if (const tenon_status status =
              put(plan->dtype[0], plan->dtype_id[0], k, f32_at(&args->in[0], r, h * attr->head_dim), attr->head_dim))
        return status;
      if (args->n_in < 2) continue;  // a latent store has no values of its own
      if (const tenon_status status = put(plan->dtype[1], plan->dtype_id[1], v,
                                          f32_at(&args->in[1], r, h * attr->head_dim_v), attr->head_dim_v))
        return status;
    }
  }
  return TENON_OK;
}

}  // namespace tenon::cpu::TENON_ISA
