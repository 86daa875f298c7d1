// The cores that this process may use: fewer than the machine has under taskset, in a cpuset, or where a launcher binds ranks.
#pragma once
#include <vector>

namespace tandem {

// Numbers of the process's affinity mask when it was first asked for.
std::vector<int> usable_cores();

}  // namespace tandem
