// All of the C++ API: models (trainer/model.h says what can be done with them), data, devices, plans, and the CPU's backend.
//
//   #include <tandem/tandem.h>
#pragma once
#include "graph/error.h"
#include "kernels/cpu/backend.h"
#include "planner/plan/plan_file.h"
#include "trainer/data/dataset.h"
#include "trainer/devices.h"
#include "trainer/model.h"
