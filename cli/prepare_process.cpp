// How threads wait for each other, and when freed memory goes back to the system.
#include "cli/prepare_process.h"

#include <malloc.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace tandem {
namespace {

// OpenMP's threads spin while they wait, by default for longer than the system's time slices: beside other programs each
// waits for threads that wait their turn behind one that only spins. A short while bridges what lies between two kernels. The
// library reads its settings before main, so the program starts once more with this one, unless the user has chosen.
void spin_briefly(char** argv) {
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"})
    if (std::getenv(name)) return;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error || setenv("GOMP_SPINCOUNT", "2000", 0) != 0) return;
  execv(program.c_str(), argv);  // returns where that cannot be: all works without it
}

}  // namespace

void prepare_process(char** argv) {
  spin_briefly(argv);
  // Freed tensors go back to the system; by default the C library keeps ever larger ones once it has freed one.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
}

}  // namespace tandem
