#include "control.hpp"

#include "plugin/plugin_host.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tenon::parallel {
namespace {

constexpr uint64_t kPieceBytes = 64 << 20;          // received before more memory is asked for
constexpr uint64_t kMostBytes = uint64_t(1) << 40;  // of a message

tenon_addr address_of(const void* pointer) { return reinterpret_cast<tenon_addr>(pointer); }

}  // namespace

void Control::expect(tenon_status status) const {
  if (status == TENON_OK) return;
  const Error error(ErrorKind::kRuntime, plugin::PluginHost::take_message());
  abort();
  throw error;
}

void Control::send(std::span<const uint8_t> message, uint32_t to) {
  Frame frame;
  frame.bytes = message.size();
  const size_t head = std::min(message.size(), frame.head.size());
  std::copy_n(message.begin(), head, frame.head.begin());
  expect(communicator_->send(address_of(&frame), sizeof frame, to, nullptr));
  for (size_t at = head; at < message.size(); at += kPieceBytes)
    expect(communicator_->send(address_of(message.data() + at), std::min<uint64_t>(kPieceBytes, message.size() - at), to, nullptr));
}

Message Control::receive(uint32_t from) {
  Frame frame;
  expect(communicator_->recv(address_of(&frame), sizeof frame, from, nullptr));
  if (frame.bytes > kMostBytes) throw Error(ErrorKind::kRuntime, fmt::format("rank {} announces a message of {} bytes", from, frame.bytes));
  const auto words = [](uint64_t bytes) { return size_t((bytes + 7) / 8); };
  const auto head = size_t(std::min<uint64_t>(frame.bytes, frame.head.size()));
  Message out;
  out.size_ = size_t(frame.bytes);
  out.words_.assign(words(head), 0);
  std::memcpy(out.words_.data(), frame.head.data(), head);
  for (uint64_t at = head; at < frame.bytes; at += kPieceBytes) {
    const uint64_t n = std::min(kPieceBytes, frame.bytes - at);
    out.words_.resize(words(at + n));
    expect(communicator_->recv(address_of(reinterpret_cast<uint8_t*>(out.words_.data()) + at), n, from, nullptr));
  }
  return out;
}

void Control::check() const { expect(communicator_->poll()); }

}  // namespace tenon::parallel
