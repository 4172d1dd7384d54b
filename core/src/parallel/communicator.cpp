#include "communicator.hpp"

#include "plugin/plugin_host.hpp"

#include <fmt/format.h>

#include <string_view>

namespace tenon::parallel {

Communicator::Communicator(const tenon_collective& collective, const uint8_t id[128], uint32_t n_ranks, uint32_t rank,
                           const program::Device& device)
    : collective_(collective), n_ranks_(n_ranks), rank_(rank) {
  join(id, device.table().backend, device.table().index);
}

Communicator::Communicator(const tenon_collective& collective, const uint8_t id[128], uint32_t n_ranks, uint32_t rank)
    : collective_(collective), n_ranks_(n_ranks), rank_(rank) {
  join(id, {"cpu", 3}, 0);
}

void Communicator::join(const uint8_t id[128], tenon_str backend, uint32_t device) {
  plugin::check_status(collective_.join(collective_.self, id, n_ranks_, rank_, backend, device, &comm_),
                       fmt::format("collective {}: rank {} of {} cannot join",
                                   std::string_view(collective_.name.data, size_t(collective_.name.size)), rank_, n_ranks_));
}

Communicator::~Communicator() { collective_.leave(comm_); }

}  // namespace tenon::parallel
