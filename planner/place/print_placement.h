// Where the nodes of a placed graph work, for people.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "planner/place/placing.h"

namespace tandem {

// A line for each node: "Gemm 'fc1' on cpu:0-3 data 2 x tensor 2: h data split(0), tensor split(1)". Of what moves also its bytes and
// the reason.
std::vector<std::string> lines_of_placement(const Graph& graph, const PutIn& put_in, std::span<const DeviceSpec> devices);

}  // namespace tandem
