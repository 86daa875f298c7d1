// The activation behind a product, or its slope behind the product that is a gradient, as a kernel of our own.
#pragma once
#include "kernels/cuda/native/describe.h"

namespace tandem::cuda {

// Of InnerProduct: output 0 = f(output 1), or of itself where there is no second output. Of InnerProductBackwardData: output 0, in
// place, times the slope that input 2, laid out as it, has.
Binder activation_binder(const KernelDescription& product, const KernelRequest& request, Libraries& libraries);

}  // namespace tandem::cuda
