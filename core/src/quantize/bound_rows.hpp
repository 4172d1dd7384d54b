// bound_rows.hpp: the rows of a canonical weight, out of the tensors that a name rule binds it to.
#pragma once

#include "graph/graph.hpp"
#include "graph/names.hpp"
#include "rows.hpp"

#include <memory>

namespace tenon::quantize {

// With the binding's transform. Throws Error(kFile) for shapes that do not fit.
std::unique_ptr<RowReader> bound_rows(const source::ModelSource& source, const graph::Binding& binding, const graph::Weight& weight,
                                      const plugin::Registry& registry);

// In another order. Throws Error(kFile) for an order that leaves the weight.
std::unique_ptr<RowReader> reordered_rows(std::unique_ptr<RowReader> rows, const tenon_reorder& order, const graph::Weight& weight);

// Borrows the constant.
std::unique_ptr<RowReader> constant_rows(const tenon_constant& constant);

}  // namespace tenon::quantize
