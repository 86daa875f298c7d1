#include "importer/flat/embedding_notes.h"

#include <charconv>
#include <optional>
#include <set>

#include "graph/marks.h"

namespace tandem {
namespace {

constexpr std::string_view aten = "torch.ops.aten.";

// "%p_weight", "%x", "0", "True": the operands of a call in their order.
std::vector<std::string_view> arguments_of(std::string_view call) {
  constexpr std::string_view before = "(args = (";
  std::vector<std::string_view> list;
  const std::size_t begin = call.find(before);
  if (begin == call.npos) return list;
  call.remove_prefix(begin + before.size());
  call = call.substr(0, call.find(')'));
  while (!call.empty()) {
    const std::size_t end = std::min(call.find(", "), call.size());
    list.push_back(call.substr(0, end));
    call.remove_prefix(std::min(call.size(), end + 2));
  }
  return list;
}

// By its place among the operands, or by its name.
std::string_view argument(std::string_view call, std::size_t place, std::string_view name) {
  const std::vector<std::string_view> list = arguments_of(call);
  if (place < list.size()) return list[place];
  const std::size_t named = call.find(concat(name, ": "), std::min(call.find("kwargs = {"), call.size()));
  if (named == call.npos) return {};
  call.remove_prefix(named + name.size() + 2);
  return call.substr(0, call.find_first_of(",}"));
}

std::int64_t number(std::string_view text) {
  std::int64_t value = -1;
  return std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc() ? value : -1;
}

class Marks {
 public:
  void body(FlatBody& b) {
    for (FlatNode& node : b.nodes) {
      if (node.proto && node.domain.empty()) mark(node);
      for (FlatBody& inner : node.bodies) body(inner);
    }
  }

  void warn(FlatModel& model) const {
    for (const auto& [lost, what] :
         {std::pair(&scaled_,
                    "scale_grad_by_freq: PyTorch divides a row's gradient by how often the batch reads the row, which is not done here"),
          {&renormed_,
           "max_norm: PyTorch shortens a row of the weight itself when it is read, here that is a formula on the way and the weight stays "
           "longer"}}) {
      std::string list;
      for (const std::string& name : *lost) list += concat(list.empty() ? "'" : ", '", name, '\'');
      if (!list.empty()) model.warnings.push_back(concat("the embeddings of ", list, " have ", what));
    }
  }

 private:
  void mark(FlatNode& node) {
    const std::string_view call = call_of(*node.proto), target = target_of(call);
    if (!target.starts_with(aten)) return;
    const std::string_view function = target.substr(aten.size(), target.find('.', aten.size()) - aten.size());
    if (function == "embedding" && node.op == "Gather") {
      if (const std::int64_t row = number(argument(call, 2, "padding_idx")); row >= 0) node.attributes.set(std::string(padding_row), row);
      if (argument(call, 3, "scale_grad_by_freq") == "True") scaled_.insert(node.name);
    }
    if (function == "embedding_bag" && node.op == "Gather" && argument(call, 3, "scale_grad_by_freq") == "True") scaled_.insert(node.name);
    if (function == "embedding_renorm" && node.op == "Gather") renormed_.insert(node.name);
  }

  std::set<std::string> scaled_, renormed_;
};

}  // namespace

void mark_embeddings(FlatModel& model) {
  Marks marks;
  marks.body(model.main);
  marks.warn(model);
}

}  // namespace tandem
