#include "mailboxes.hpp"

namespace tenon::threads {

void Mailboxes::changed() {
  version_.fetch_add(1);
  if (!sleepers_.load()) return;
  { const std::lock_guard lock(mutex_); }  // whoever is about to sleep does before it is woken
  condition_.notify_all();
}

void Mailboxes::end(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (!ended_.load()) why_ = why;
    ended_.store(true);
  }
  condition_.notify_all();
}

std::string Mailboxes::why() const {
  const std::lock_guard lock(mutex_);
  return why_;
}

}  // namespace tenon::threads
