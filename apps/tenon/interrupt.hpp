// interrupt.hpp: Ctrl-C as a question that long work asks.
#pragma once

namespace tenon::launcher {

// The first SIGINT from now on is remembered, the second ends the process. Writing to a closed pipe becomes an error
// of the write instead of a signal. Call once, before any thread is started.
void watch_interrupts();

bool interrupted();  // any thread

}  // namespace tenon::launcher
