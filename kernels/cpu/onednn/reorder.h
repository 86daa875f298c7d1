// Copies by the library: from one memory descriptor to another, as Reorder and as what other operators come to.
#pragma once
#include "kernels/cpu/onednn/primitive.h"

namespace tandem::onednn {

std::vector<KernelDescription> describe_copy(const KernelRequest& request, const std::string& kernel, const Desc& from,
                                             const Layout& from_layout, const Desc& to, const Layout& to_layout);

}  // namespace tandem::onednn
