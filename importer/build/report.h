// All problems of a model in one message.
#pragma once
#include <string>
#include <vector>

#include "importer/types.h"

namespace tandem {

// One line a problem; problems of several nodes that differ in the node's name only share a line.
std::string report_of(const std::string& model, const std::vector<Problem>& problems);

}  // namespace tandem
