// The describe functions that kernels.cpp lists. Each returns every way it can run the request, best first, and
// nothing where it cannot.
#pragma once
#include "kernels/kernel.h"

namespace tandem {

using Descriptions = std::vector<KernelDescription>;
using Describe = Descriptions (*)(const KernelRequest&);

namespace native {
Descriptions describe_elementwise(const KernelRequest&);
Descriptions describe_reorder(const KernelRequest&);
Descriptions describe_fill(const KernelRequest&);
}  // namespace native

}  // namespace tandem
