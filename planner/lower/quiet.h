// Whether kernels can be timed now.
#pragma once

namespace tandem {

// Threads that compute, as many as the process may use cores, get them for a short while (20 ms): no other program takes more than a
// twentieth of any.
bool machine_is_quiet();

}  // namespace tandem
