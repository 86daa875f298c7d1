// What the package's module for PyTorch's autograd stands on: a file, and its passes planned for batches.
#pragma once
#include <nanobind/nanobind.h>

namespace tandem::python {

void bind_autograd(nanobind::module_& module);

}  // namespace tandem::python
