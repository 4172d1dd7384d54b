// A device for tests: whatever assumes that device memory is the host's, or that work is done when it was given, fails
// on it. Its kernels are the reference's, so every number is the reference's to the bit.
#include "backend.hpp"
#include "kernels.hpp"

// The reference's entry. It is linked into this library under another name and used through abi.h alone.
extern "C" const tenon_plugin* tenon_reference_entry();

TENON_PLUGIN("far", "0.1.0") {
  registrar.backend(tenon::far::backend_record());
  tenon::far::register_kernels_of(tenon_reference_entry(), registrar);
}
