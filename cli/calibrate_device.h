// Rates of this machine's kernels, timed once for plans that time none.
#pragma once
#include "cli/command.h"

namespace tandem {

// Times some kernels on all of the CPU's cores (some seconds), keeps their times where plans look for them (kernel_times_file) and prints
// them. Times that other programs disturbed are not used, and a warning names them. Fails (io) where nothing can be kept.
int calibrate(const Invocation& call, const Backend& cpu);

}  // namespace tandem
