// What a plan is asked to compute, before it is known on which devices and by which kernels.
#pragma once
#include <string>

#include "planner/options.h"

namespace tandem {

// A hash of the whole step's graph, as the passes make it for one device that offers no kernels: 16 hex digits. Two plans of one hash
// compute the same: model, loss, optimizer, precision, micro-batch, what is trained and how the inputs are given are all in the graph.
// Neither the values of weights nor devices are. Fails as compile does.
std::string hash_of_request(const GraphSource& source, const CompileOptions& options);

}  // namespace tandem
