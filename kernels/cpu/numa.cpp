#include "kernels/cpu/numa.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/spec.h"

namespace tandem {
namespace {

bool read_number(std::string_view text, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && number >= 0;
}

// "0-3,8-11": of the cores those in the list. What is no such list has none.
std::vector<int> listed(const std::string& list, const std::vector<int>& cores) {
  std::vector<int> found;
  for (const std::string& part : split(list, ',')) {
    const std::size_t dash = std::min(part.find('-'), part.size());
    int first = 0, last = 0;
    if (!read_number(std::string_view(part).substr(0, dash), first)) return {};
    if (dash == part.size()) last = first;
    else if (!read_number(std::string_view(part).substr(dash + 1), last)) return {};
    std::copy_if(cores.begin(), cores.end(), std::back_inserter(found), [&](int core) { return core >= first && core <= last; });
  }
  return found;
}

}  // namespace

std::filesystem::path numa_folder() {
  const char* const other = std::getenv("TANDEM_NUMA");
  return other ? other : "/sys/devices/system/node";
}

std::vector<NumaNode> numa_nodes(const std::vector<int>& cores, const std::filesystem::path& folder) {
  std::vector<NumaNode> nodes;
  std::size_t known = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    NumaNode node;
    if (!name.starts_with("node") || !read_number(std::string_view(name).substr(4), node.number)) continue;
    std::string list;
    std::ifstream file(entry.path() / "cpulist");
    std::getline(file, list);
    node.cores = listed(list, cores);
    known += node.cores.size();
    if (!node.cores.empty()) nodes.push_back(std::move(node));
  }
  if (nodes.size() < 2 || known != cores.size()) return {};
  std::sort(nodes.begin(), nodes.end(), [](const NumaNode& a, const NumaNode& b) { return a.number < b.number; });
  return nodes;
}

std::vector<int> in_order_of_nodes(std::vector<int> cores, const std::vector<NumaNode>& nodes) {
  if (nodes.empty()) return cores;
  cores.clear();
  for (const NumaNode& node : nodes) cores.insert(cores.end(), node.cores.begin(), node.cores.end());
  return cores;
}

// mbind(2) without libnuma.
void place_memory(void* address, std::size_t bytes, const std::vector<NumaNode>& nodes) {
  constexpr int preferred = 1, interleaved = 3, most = 1024, bits = sizeof(unsigned long) * CHAR_BIT;
  if (nodes.empty() || nodes.back().number >= most) return;
  std::array<unsigned long, most / bits> mask{};
  for (const NumaNode& node : nodes) mask[static_cast<std::size_t>(node.number / bits)] |= 1UL << node.number % bits;
  syscall(SYS_mbind, address, bytes, nodes.size() == 1 ? preferred : interleaved, mask.data(), static_cast<unsigned long>(most) + 1, 0U);
}

}  // namespace tandem
