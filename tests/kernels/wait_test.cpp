// Who waits spins only where a core is left for whom it waits for.
#include "kernels/wait.h"

#include <gtest/gtest.h>
#include <sched.h>

#include "base/cores.h"

namespace tandem {
namespace {

// As under taskset, or where a launcher binds ranks. The machine may have more cores: other processes have those.
TEST(Spins, AreForThreadsThatHaveACoreOfThisProcessEach) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto with_one_core = [] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
    sched_setaffinity(0, sizeof one, &one);
    std::exit(usable_cores().size() == 1 && spins_for(1) > 0 && spins_for(2) == 0 ? 0 : 1);
  };
  EXPECT_EXIT(with_one_core(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tandem
