// collective.hpp: how ranks of a group move bytes between them. A plugin derives from Communicator and registers one
// CollectiveRecord; calls that the class does not serve are built from send and recv.
#pragma once

#include <tenon/sdk/base.hpp>

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tenon::sdk {

using GroupId = std::array<uint8_t, 128>;

// Which of how many processes this one is.
struct ProcessPlace {
  uint32_t n_ranks = 1, rank = 0;
};

// One rank's end of a group. One thread, but for abort() and poll(), which any thread may call. What throws has moved
// nothing that others can rely on: the group is of no more use then.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual uint32_t rank() const = 0;
  virtual uint32_t size() const = 0;
  // Between group(true) and group(false) calls are collected; they run together, so that no order of sends and receives
  // can lock up. Messages of one pair of ranks arrive in the order of their calls.
  virtual void group(bool begin) = 0;
  virtual void send(tenon_addr data, uint64_t bytes, uint32_t to, void* stream) = 0;
  virtual void recv(tenon_addr data, uint64_t bytes, uint32_t from, void* stream) = 0;
  // out[i] = the sum of every rank's in[i], n values of f32: the same bits on every rank and in every run, in an order of the
  // plugin's own. `out` may be `in`. Not inside a group. Called only where the record was told of it.
  virtual void all_reduce(tenon_addr in, tenon_addr out, uint64_t n, void* stream);
  // The group's state: throws if it has ended.
  virtual void poll() = 0;
  // Ends the group: calls of every rank fail from now on, those that wait too.
  virtual void abort() noexcept = 0;
};

inline void Communicator::all_reduce(tenon_addr, tenon_addr, uint64_t, void*) {
  throw Error(TENON_UNSUPPORTED, "this collective has no all_reduce");
}

// A collective's record, and the glue between its table and Communicator. Registered once, kept for the library's life.
class CollectiveRecord {
 public:
  using Unique = std::function<GroupId()>;
  // Waits until all n ranks have joined. Throws Error.
  using Join = std::function<std::unique_ptr<Communicator>(const GroupId&, uint32_t n, uint32_t rank, std::string_view backend,
                                                            uint32_t device)>;
  // Only where ranks are processes that something else has started. Throws Error where they cannot be reached.
  using Place = std::function<ProcessPlace()>;
  CollectiveRecord(std::string name, uint32_t flags, Unique unique, Join join, Place place = {})
      : name_(std::move(name)), unique_(std::move(unique)), join_(std::move(join)), place_(std::move(place)) {
    table_.struct_size = sizeof table_, table_.flags = flags, table_.name = to_str(name_), table_.self = this;
    table_.unique = [](void* self, uint8_t id[128]) noexcept {
      return guard([&] { std::memcpy(id, of(self).unique_().data(), sizeof(GroupId)); });
    };
    table_.join = [](void* self, const uint8_t id[128], uint32_t n, uint32_t rank, tenon_str backend, uint32_t device,
                     void** comm) noexcept {
      return guard([&] {
        GroupId group;
        std::memcpy(group.data(), id, group.size());
        *comm = of(self).join_(group, n, rank, to_view(backend), device).release();
      });
    };
    table_.send = [](void* comm, tenon_addr data, uint64_t bytes, uint32_t to, void* stream) noexcept {
      return guard([&] { end(comm).send(data, bytes, to, stream); });
    };
    table_.recv = [](void* comm, tenon_addr data, uint64_t bytes, uint32_t from, void* stream) noexcept {
      return guard([&] { end(comm).recv(data, bytes, from, stream); });
    };
    table_.group = [](void* comm, uint32_t begin) noexcept { return guard([&] { end(comm).group(begin != 0); }); };
    table_.poll = [](void* comm) noexcept { return guard([&] { end(comm).poll(); }); };
    table_.abort = [](void* comm) noexcept { end(comm).abort(); };
    table_.leave = [](void* comm) noexcept { delete &end(comm); };
    if (!place_) return;
    table_.place = [](void* self, uint32_t* n_ranks, uint32_t* rank) noexcept {
      return guard([&] {
        const ProcessPlace place = of(self).place_();
        *n_ranks = place.n_ranks, *rank = place.rank;
      });
    };
  }
  CollectiveRecord(const CollectiveRecord&) = delete;
  CollectiveRecord& operator=(const CollectiveRecord&) = delete;
  // The class serves all_reduce. Elsewhere the core gathers and adds.
  CollectiveRecord& with_all_reduce() {
    table_.all_reduce = [](void* comm, tenon_addr in, tenon_addr out, uint64_t n, uint32_t encoding, void* stream) noexcept {
      return guard([&] {
        if (encoding != TENON_ENC_F32) throw Error(TENON_UNSUPPORTED, "all_reduce adds f32 values only");
        end(comm).all_reduce(in, out, n, stream);
      });
    };
    return *this;
  }
  const tenon_collective* table() const { return &table_; }

 private:
  static CollectiveRecord& of(void* self) { return *static_cast<CollectiveRecord*>(self); }
  static Communicator& end(void* comm) { return *static_cast<Communicator*>(comm); }
  std::string name_;
  Unique unique_;
  Join join_;
  Place place_;
  tenon_collective table_ = {};
};

}  // namespace tenon::sdk
