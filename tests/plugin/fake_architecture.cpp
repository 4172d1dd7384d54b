// An architecture plugin that claims every file and builds nothing.
#include <tenon/abi.h>

#include <string_view>

namespace {

constexpr tenon_str str(std::string_view text) { return {text.data(), text.size()}; }

const tenon_architecture architecture = {
    .struct_size = sizeof(tenon_architecture),
    .flags = 0,
    .name = str("fake.model"),
    .self = nullptr,
    .score = [](void*, const tenon_meta*, uint32_t* score) noexcept -> tenon_status { return *score = 100, TENON_OK; },
    .configure = [](void*, const tenon_meta*, void**) noexcept -> tenon_status { return TENON_UNSUPPORTED; },
    .names = [](void*, tenon_str, const tenon_name_rule**, uint32_t*) noexcept -> tenon_status {
      return TENON_NOT_FOUND;
    },
    .limits = [](void*, tenon_limits*) noexcept -> tenon_status { return TENON_UNSUPPORTED; },
    .build = [](void*, tenon_str, const tenon_builder*) noexcept -> tenon_status { return TENON_UNSUPPORTED; },
    .drop = [](void*) noexcept {},
    .written = nullptr};

tenon_status init(const tenon_host*, const tenon_registrar* registrar) noexcept {
  return registrar->architecture(registrar->self, &architecture);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const tenon_plugin* tenon_plugin_entry() {
  static const tenon_plugin plugin = {sizeof(tenon_plugin), TENON_ABI_MAJOR, TENON_ABI_MINOR,   0,    TENON_MAGIC,
                                      str(FAKE_NAME),       str("1.2.3"),    str("Apache-2.0"), init, nullptr};
  return &plugin;
}
