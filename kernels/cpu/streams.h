// Streams and events of the CPU backend.
#pragma once
#include <memory>
#include <vector>

#include "kernels/device.h"

namespace tandem {

// Runs everything at once in the calling thread; what a kernel throws comes out of launch().
std::unique_ptr<Stream> inline_stream();

// Runs its commands in order in a thread of its own (on `cores`, where any are given). After a failure it skips the work
// queued until the next synchronize(), which rethrows; events are still recorded, so that nobody waits for ever, and who waits for
// one fails, too.
std::unique_ptr<Stream> queue_stream(std::vector<int> cores);

std::unique_ptr<Event> cpu_event();

}  // namespace tandem
