#include "importer/signature.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

namespace tandem {
namespace {

using Entries = google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto>;

std::string_view entry_of(const Entries& entries, std::string_view key) {
  for (const auto& entry : entries)
    if (entry.key() == key) return entry.value();
  return {};
}

bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Calls `f` with each NAME of "%NAME" in `text`.
template <class F>
void each_operand(std::string_view text, F&& f) {
  for (std::size_t at = text.find('%'); at != text.npos; at = text.find('%', at)) {
    std::size_t end = ++at;
    while (end < text.size() && in_name(text[end])) ++end;
    f(text.substr(at, end - at));
    at = end;
  }
}

// Calls `f` with each NAME of "['NAME', 'NAME']", a list as Python writes it.
template <class F>
void each_name(std::string_view text, F&& f) {
  for (std::size_t at = text.find('\''); at != text.npos;) {
    const std::size_t end = text.find('\'', at + 1);
    if (end == text.npos) return;
    f(text.substr(at + 1, end - at - 1));
    at = text.find('\'', end + 1);
  }
}

// "index", "index_3": what torch.export calls the result of aten.index.
bool picks_or_repeats(std::string_view value) {
  constexpr std::string_view calls[] = {"embedding", "index", "index_select", "gather", "take", "expand", "repeat", "repeat_interleave", "tile", "broadcast_to"};
  std::size_t end = value.find_last_not_of("0123456789");
  if (end == value.npos) return false;
  if (end + 1 < value.size() && value[end] == '_') value = value.substr(0, end);
  return std::find(std::begin(calls), std::end(calls), value) != std::end(calls);
}

constexpr std::string_view call_key = "pkg.torch.onnx.fx_node", folded_key = "pkg.onnxscript.optimizer.folded_from";

}  // namespace

std::string_view call_of(const onnx::NodeProto& node) {
  return entry_of(node.metadata_props(), call_key);
}

std::string_view target_of(std::string_view call) {
  constexpr std::string_view before = "[target=";
  const std::size_t at = call.find(before);
  if (at == call.npos) return {};
  call.remove_prefix(at + before.size());
  return call.substr(0, call.find(']'));
}

std::vector<std::string_view> operands_of(std::string_view call) {
  std::vector<std::string_view> operands;
  if (const std::size_t at = call.find("(args = "); at != call.npos) each_operand(call.substr(at), [&](std::string_view name) { operands.push_back(name); });
  return operands;
}

// A line each: "p_fc_weight: PARAMETER target='fc.weight'".
Signature::Signature(const onnx::GraphProto& graph) {
  std::string_view text = entry_of(graph.metadata_props(), "pkg.torch.export.ExportedProgram.graph_signature");
  constexpr std::string_view kind = ": PARAMETER target='";
  std::vector<std::pair<std::string_view, std::string_view>> parameters;  // "p_fc_weight", "fc.weight"
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t middle = line.find(kind);
    if (middle == line.npos) continue;
    const std::string_view rest = line.substr(middle + kind.size());
    if (const std::size_t end = rest.find('\''); end != rest.npos) parameters.emplace_back(line.substr(0, middle), rest.substr(0, end));
  }
  if (parameters.empty()) return;
  for (const auto& [call, name] : parameters) {
    names_.emplace(name);
    called_.emplace(name, call);
  }
  std::set<std::string_view> noted, called, initializers;
  std::set<std::string, std::less<>> went_in, stands_in_another;  // into any value; into one that the file holds
  for (const auto& tensor : graph.initializer()) initializers.insert(tensor.name());
  const auto note = [&](const auto& value) {
    if (const std::string_view from = entry_of(value.metadata_props(), folded_key); !from.empty()) {
      Computed& computed = computed_[value.name()] = {.from = {}, .values = 0, .picked = picks_or_repeats(value.name())};
      each_name(from, [&](std::string_view name) {
        ++computed.values;
        if (!names_.contains(name)) {
          computed.picked = computed.picked || picks_or_repeats(name);
          return;
        }
        computed.from.emplace_back(name);
        went_in.emplace(name);
        if (initializers.contains(value.name())) stands_in_another.emplace(name);
      });
    }
    if (entry_of(value.metadata_props(), "pkg.torch.export.graph_signature.InputSpec.kind").ends_with("PARAMETER"))
      noted.insert(entry_of(value.metadata_props(), "pkg.torch.onnx.original_node_name"));
  };
  for (const auto& value : graph.value_info()) note(value);
  for (const auto& value : graph.input()) note(value);
  for (const auto& tensor : graph.initializer()) note(tensor);
  for (const auto& node : graph.node()) each_operand(call_of(node), [&](std::string_view name) { called.insert(name); });
  for (const auto& [call, name] : parameters) {
    if (noted.contains(call) || stands_in_another.contains(name)) continue;
    changed_.emplace(call);
    if (!called.contains(call) && !initializers.contains(name) && !went_in.contains(name)) absorbed_.emplace_back(name);
  }
}

bool Signature::may_read_parameter(const onnx::NodeProto& node) const {
  const std::string_view call = call_of(node);
  bool may = call.empty();
  each_operand(call, [&](std::string_view name) { may = may || changed_.contains(name); });
  return may;
}

bool Signature::names(std::string_view tensor) const {
  return names_.contains(tensor) || (tensor.ends_with("_bias") && names_.contains(tensor.substr(0, tensor.size() - 5)));
}

const Signature::Computed* Signature::computed(std::string_view tensor) const {
  const auto found = computed_.find(tensor);
  return found == computed_.end() ? nullptr : &found->second;
}

const std::vector<std::string>* Signature::computed_from(std::string_view tensor) const {
  const Computed* known = computed(tensor);
  return known ? &known->from : nullptr;
}

bool Signature::looked_up(std::string_view tensor) const {
  const Computed* known = computed(tensor);
  return known && known->picked;
}

bool Signature::from_nothing_else(std::string_view tensor) const {
  const Computed* known = computed(tensor);
  return known && known->values == 1 && known->from.size() == 1;
}

bool Signature::rearranged(std::string_view tensor, const onnx::NodeProto& reader) const {
  if (!from_nothing_else(tensor)) return false;
  const std::string& parameter = called_.at(computed(tensor)->from[0]);
  bool taken = false;
  each_operand(call_of(reader), [&](std::string_view name) { taken = taken || name == parameter; });
  return taken;
}

}  // namespace tandem
