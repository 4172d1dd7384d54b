// communicator.hpp: one process's end of a group of all processes.
#pragma once

#include <tenon/sdk/collective.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "world.hpp"

namespace tenon::mpi {

// Calls return when the bytes are where they belong, or are MPI's: on memory without streams "enqueued" and "done" are the same.
class Communicator final : public sdk::Communicator {
 public:
  Communicator(World& world, uint64_t number, std::chrono::milliseconds limit);
  ~Communicator() override;
  uint32_t rank() const override { return world_.rank(); }
  uint32_t size() const override { return world_.size(); }
  void group(bool begin) override;
  void send(tenon_addr data, uint64_t bytes, uint32_t to, void* stream) override;
  void recv(tenon_addr data, uint64_t bytes, uint32_t from, void* stream) override;
  void poll() override;
  void abort() noexcept override;

 private:
  struct Piece {
    bool is_send;
    void* data;
    int bytes;
    uint32_t peer;
    std::unique_ptr<uint8_t[]> copy = {};  // of what is sent, where it is short
    MPI_Request request = MPI_REQUEST_NULL;
    bool is_done = false;
  };
  void add(bool is_send, tenon_addr data, uint64_t bytes, uint32_t peer);
  void run();
  void post();
  bool advance(bool& moved);
  void wait();
  void take_back();
  void end(const std::string& why);
  bool has_ended();
  void check_ended();

  World& world_;
  int value_tag_, end_tag_;
  std::chrono::milliseconds limit_;
  bool collects_ = false, is_over_ = false;
  std::vector<Piece> pieces_;
  std::string why_;
  tenon_status status_ = TENON_CANCELLED;  // of calls once the group has ended
  std::unique_ptr<int> word_;  // where the word arrives that ends the group
  MPI_Request ending_ = MPI_REQUEST_NULL;
};

}  // namespace tenon::mpi
