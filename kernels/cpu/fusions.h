// By which nodes that passes could make of several a step on a CPU gains (Backend::fuses).
#pragma once
#include "kernels/kernel.h"

namespace tandem {

bool cpu_fuses(const KernelRequest& request);

}  // namespace tandem
