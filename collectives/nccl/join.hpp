// join.hpp: how a rank enters a group over NCCL.
#pragma once

#include <memory>
#include <tenon/sdk/collective.hpp>

namespace tenon::nccl {

constexpr uint32_t kFlags = TENON_COLLECTIVE_CAPTURABLE | TENON_COLLECTIVE_DEVICE_MEMORY | TENON_COLLECTIVE_REPEATABLE;

// Once, before all else. Multicast over NVLink is left alone: a program that ends badly in it can leave the machine's GPUs
// unusable for others.
void set_up();
sdk::GroupId unique();
// Waits until all ranks have joined; throws when one of them does not within two minutes.
std::unique_ptr<sdk::Communicator> join(const sdk::GroupId& id, uint32_t n, uint32_t rank, std::string_view backend, uint32_t device);

}  // namespace tenon::nccl
