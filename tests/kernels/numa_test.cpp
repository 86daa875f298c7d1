// NUMA nodes as Linux lists them, and where the memory of devices lies.
#include "kernels/cpu/numa.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <string>

#include "tests/trainer/temporary_folder.h"

namespace tandem {
namespace {

using Cores = std::vector<int>;

struct Row {
  const char* name;
  std::map<std::string, std::string> files;  // "node0": its cpulist
  Cores cores;                               // that are usable
  std::map<int, Cores> wanted;               // by node; none where the machine is taken for one of one node
  Cores order;
};
const Row rows[] = {
    {"one node", {{"node0", "0-3"}}, {0, 1, 2, 3}, {}, {0, 1, 2, 3}},
    {"two nodes", {{"node0", "0-1"}, {"node1", "2-3"}}, {0, 1, 2, 3}, {{0, {0, 1}}, {1, {2, 3}}}, {0, 1, 2, 3}},
    {"cores by turns", {{"node0", "0,2"}, {"node1", "1,3"}}, {0, 1, 2, 3}, {{0, {0, 2}}, {1, {1, 3}}}, {0, 2, 1, 3}},
    {"two threads a core", {{"node0", "0-1,4-5"}, {"node1", "2-3,6-7"}}, {0, 1, 2, 3, 4, 5, 6, 7},
     {{0, {0, 1, 4, 5}}, {1, {2, 3, 6, 7}}}, {0, 1, 4, 5, 2, 3, 6, 7}},
    {"ten and more nodes", {{"node10", "1"}, {"node2", "0"}}, {0, 1}, {{2, {0}}, {10, {1}}}, {0, 1}},
    {"of two nodes one may be used", {{"node0", "0-1"}, {"node1", "2-3"}}, {2, 3}, {}, {2, 3}},
    {"a part of each", {{"node0", "0-3"}, {"node1", "4-7"}}, {3, 4, 5}, {{0, {3}}, {1, {4, 5}}}, {3, 4, 5}},
    {"a node of memory alone", {{"node0", "0-1"}, {"node1", ""}, {"node2", "2"}}, {0, 1, 2}, {{0, {0, 1}}, {2, {2}}}, {0, 1, 2}},
    {"a core of no node", {{"node0", "0"}, {"node1", "1"}}, {0, 1, 2}, {}, {0, 1, 2}},
    {"a core of two nodes", {{"node0", "0-1"}, {"node1", "1-2"}}, {0, 1, 2}, {}, {0, 1, 2}},
    {"no list", {{"node0", "0-1"}, {"node1", "2-x"}}, {0, 1, 2}, {}, {0, 1, 2}},
    {"other folders", {{"node0", "0"}, {"nodes", "1"}, {"power", "2"}}, {0, 1, 2}, {}, {0, 1, 2}},
    {"nothing", {}, {0, 1}, {}, {0, 1}},
};

TEST(Numa, Nodes) {
  for (const Row& row : rows) {
    const TemporaryFolder folder;
    for (const auto& [node, list] : row.files) {
      std::filesystem::create_directories(folder / node);
      std::ofstream(folder / node / "cpulist") << list << '\n';
    }
    const std::vector<NumaNode> nodes = numa_nodes(row.cores, folder / ".");
    std::map<int, Cores> found;
    for (const NumaNode& node : nodes) found[node.number] = node.cores;
    EXPECT_EQ(found, row.wanted) << row.name;
    EXPECT_EQ(in_order_of_nodes(row.cores, nodes), row.order) << row.name;
  }
  EXPECT_TRUE(numa_nodes({0, 1}, "no such folder").empty());
}

// The policy of a page, by the system's own account.
int policy_of(void* address) {
  constexpr unsigned long of_address = 2;  // MPOL_F_ADDR
  int policy = -1;
  return syscall(SYS_get_mempolicy, &policy, nullptr, 0UL, address, of_address) == 0 ? policy : -1;
}

TEST(Numa, MemoryIsPlaced) {
  constexpr std::size_t bytes = 1 << 16;
  constexpr int by_default = 0, preferred = 1, interleaved = 3;
  const auto placed = [](const std::vector<NumaNode>& nodes) {
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    place_memory(memory, bytes, nodes);
    static_cast<char*>(memory)[bytes - 1] = 1;
    const int policy = policy_of(memory);
    munmap(memory, bytes);
    return policy;
  };
  if (placed({}) != by_default) GTEST_SKIP() << "the system does not say where memory lies";
  if (placed({{0, {0}}}) == by_default) GTEST_SKIP() << "the system does not let programs place memory";
  EXPECT_EQ(placed({{0, {0}}}), preferred);
  EXPECT_EQ(placed({{0, {0}}, {0, {1}}}), interleaved);
  EXPECT_EQ(placed({{1000, {0}}}), by_default) << "a node that is not there";
  EXPECT_EQ(placed({{5000, {0}}}), by_default) << "a node of a number that no system has";
}

}  // namespace
}  // namespace tandem
