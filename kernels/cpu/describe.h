// What a list of kernels holds of one: every way it can run a request, best first; nothing where it cannot.
#pragma once
#include "kernels/kernel.h"

namespace tandem {

using Descriptions = std::vector<KernelDescription>;
using Describe = Descriptions (*)(const KernelRequest&);

}  // namespace tandem
