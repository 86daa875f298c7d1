// What the library tells, as Python's dicts: numbers that are not known are left out.
#pragma once
#include <nanobind/nanobind.h>

#include <vector>

#include "runtime/session.h"
#include "trainer/reports.h"

namespace nb = nanobind;

namespace tandem::python {

nb::dict dict_of(const StepReport& r);
nb::dict dict_of(const EpochReport& r);
nb::dict dict_of(const Evaluation& e);
nb::dict dict_of(std::vector<NamedTensor> tensors);  // by name

}  // namespace tandem::python
