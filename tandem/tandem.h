// All of the C++ API: models (trainer/model.h says what can be done with them, trainer/prepare.h what prepares a run), options, data,
// devices, plans, and the backends of this machine.
//
//   #include <tandem/tandem.h>
#pragma once
#include "base/errors.h"
#include "data/dataset.h"
#include "kernels/cpu/backend.h"
#include "options/options.h"
#include "planner/plan/plan_file.h"
#include "trainer/autograd.h"
#include "trainer/devices.h"
#include "trainer/model.h"
#include "trainer/prepare.h"

namespace tandem {

// The CPU's backend, and those whose modules are found where the program looks for them (CUDA's: libtandem_cuda.so, installed in
// lib/tandem). They are loaded by the first call and stay as long as the process. One that cannot be used now (no GPU, no driver) is
// among them and says why when a device of it is asked for.
Backends backends();

}  // namespace tandem
