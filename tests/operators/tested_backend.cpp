#include "kernels/cpu/backend.h"
#include "tests/operators/run_graph.h"

namespace tandem::test {

TestedBackend tested_backend() {
  return {&cpu_backend(), [](const Backend*) {}};
}

}  // namespace tandem::test
