#include "communicator.hpp"

#include "plugin/plugin_host.hpp"

#include <fmt/format.h>

#include <string_view>

namespace tenon::parallel {

Communicator::Communicator(const tenon_collective& collective, const uint8_t id[128], uint32_t n_ranks, uint32_t rank,
                           const program::Device& device)
    : collective_(collective), n_ranks_(n_ranks), rank_(rank) {
  plugin::check_status(collective.join(collective.self, id, n_ranks, rank, device.table().backend, device.table().index, &comm_),
                       fmt::format("collective {}: rank {} of {} cannot join",
                                   std::string_view(collective.name.data, size_t(collective.name.size)), rank, n_ranks));
}

Communicator::~Communicator() { collective_.leave(comm_); }

}  // namespace tenon::parallel
