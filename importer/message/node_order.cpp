// The usual sort by what is still missing, which takes the first node in the file's order whenever there is a choice.
#include "importer/message/node_order.h"

#include <functional>
#include <queue>
#include <string_view>
#include <unordered_map>

namespace tandem {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

// Also what graphs within the node read: some of those names are their own, which does no harm. And what a Gradient names.
template <class F>
void for_each_read(const onnx::NodeProto& node, F&& f) {
  for (const std::string& name : node.input()) f(name);
  for (const auto& attribute : node.attribute()) {
    if (is_gradient(node)) {
      for (const std::string& name : attribute.strings()) f(name);
      if (attribute.has_s()) f(attribute.s());
    }
    if (!attribute.has_g()) continue;
    for (const auto& inner : attribute.g().node()) for_each_read(inner, f);
    for (const auto& output : attribute.g().output()) f(output.name());
  }
}

}  // namespace

std::vector<int> computing_order(const Nodes& nodes) {
  std::unordered_map<std::string_view, int> producers;
  for (int i = 0; i < nodes.size(); ++i)
    for (const std::string& name : nodes[i].output())
      if (!name.empty()) producers.emplace(name, i);
  std::vector<std::vector<int>> consumers(static_cast<std::size_t>(nodes.size()));
  std::vector<int> missing(static_cast<std::size_t>(nodes.size()));
  for (int i = 0; i < nodes.size(); ++i)
    for_each_read(nodes[i], [&](const std::string& name) {
      const auto producer = producers.find(name);
      if (producer == producers.end() || producer->second == i) return;
      consumers[static_cast<std::size_t>(producer->second)].push_back(i);
      ++missing[static_cast<std::size_t>(i)];
    });
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < nodes.size(); ++i)
    if (missing[static_cast<std::size_t>(i)] == 0) ready.push(i);
  std::vector<int> order;
  std::vector<bool> placed(static_cast<std::size_t>(nodes.size()));
  while (!ready.empty()) {
    const int i = ready.top();
    ready.pop();
    order.push_back(i);
    placed[static_cast<std::size_t>(i)] = true;
    for (const int next : consumers[static_cast<std::size_t>(i)])
      if (--missing[static_cast<std::size_t>(next)] == 0) ready.push(next);
  }
  for (int i = 0; i < nodes.size(); ++i)
    if (!placed[static_cast<std::size_t>(i)]) order.push_back(i);
  return order;
}

}  // namespace tandem
