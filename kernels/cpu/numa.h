// The machine's NUMA nodes: cores with memory of their own, which other nodes' cores reach over a slower link.
#pragma once
#include <cstddef>
#include <filesystem>
#include <vector>

namespace tandem {

struct NumaNode {
  int number = 0;
  std::vector<int> cores;
};

// Where Linux lists the nodes; TANDEM_NUMA names another folder (for tests).
std::filesystem::path numa_folder();

// The nodes of these cores, each with those that are its own, by number. Empty where all are of one node, or the folder does not say
// of each of them which node's it is.
std::vector<NumaNode> numa_nodes(const std::vector<int>& cores, const std::filesystem::path& folder = numa_folder());

// The same cores, one node's behind the other's: parts of this list have few nodes.
std::vector<int> in_order_of_nodes(std::vector<int> cores, const std::vector<NumaNode>& nodes);

// Asks the system for this memory, of which nothing has been written, on these nodes, which stand by number: on one, or page by page on
// several. Where it refuses, each page lies where it is first written. Addresses and bytes are whole pages.
void place_memory(void* address, std::size_t bytes, const std::vector<NumaNode>& nodes);

}  // namespace tandem
