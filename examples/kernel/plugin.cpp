// plugin.cpp: registers the dtype, then the kernel that serves it.
#include <tenon/sdk/plugin.hpp>

#include "linear.hpp"
#include "q6.hpp"

TENON_PLUGIN("example-q6", "0.1.0") {
  const uint32_t dtype = registrar.dtype(example::q6_dtype());
  registrar.kernel<example::Linear>("example.linear.q6",
                                    {.pattern = "linear", .numeric_class = "example.q6.f32", .priority = 200}, dtype);
}
