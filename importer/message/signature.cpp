#include "importer/message/signature.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "importer/message/call_kinds.h"
#include "tandem_onnx.pb.h"

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

constexpr std::string_view call_key = "pkg.torch.onnx.fx_node", folded_key = "pkg.onnxscript.optimizer.folded_from",
                           original_key = "pkg.torch.onnx.original_node_name", kind_key = "pkg.torch.export.graph_signature.InputSpec.kind";

}  // namespace

std::string_view call_of(const onnx::NodeProto& node) {
  return entry_of(node.metadata_props(), call_key);
}

std::vector<std::string> modules_of(const onnx::NodeProto& node) {
  std::vector<std::string> modules;
  each_name(entry_of(node.metadata_props(), "pkg.torch.onnx.name_scopes"), [&](std::string_view name) {
    if (!name.empty()) modules.emplace_back(name);
  });
  return modules;
}

std::string_view device_of(const onnx::NodeProto& node) { return entry_of(node.metadata_props(), "tandem.device"); }

std::string_view source_line_of(const onnx::NodeProto& node) {
  std::string_view line = entry_of(node.metadata_props(), "pkg.torch.onnx.stack_trace");
  line.remove_prefix(std::min(line.size(), line.rfind('\n') + 1));
  return line.substr(std::min(line.size(), line.find_first_not_of(' ')));
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
  if (const std::size_t at = call.find("(args = "); at != call.npos)
    each_operand(call.substr(at), [&](std::string_view name) { operands.push_back(name); });
  return operands;
}

// A line each: "p_fc_weight: PARAMETER target='fc.weight'".
Signature::Signature(const onnx::GraphProto& graph) {
  std::string_view text = entry_of(graph.metadata_props(), "pkg.torch.export.ExportedProgram.graph_signature");
  constexpr std::string_view parameter = ": PARAMETER target='", buffer = ": BUFFER target='";
  std::vector<std::pair<std::string_view, std::string_view>> parameters;  // "p_fc_weight", "fc.weight"
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    for (const std::string_view kind : {parameter, buffer}) {
      const std::size_t middle = line.find(kind);
      if (middle == line.npos) continue;
      const std::string_view call = line.substr(0, middle), rest = line.substr(middle + kind.size()),
                             name = rest.substr(0, rest.find('\''));
      targets_.emplace(call, name);
      called_.emplace(name, call);
      if (kind == parameter) parameters.emplace_back(call, name);
    }
  }
  if (parameters.empty()) {
    targets_.clear();
    return;
  }
  for (const auto& [call, name] : parameters) names_.emplace(name);
  note(graph);
  std::set<std::string_view> called;
  for (const auto& node : graph.node()) each_operand(call_of(node), [&](std::string_view name) { called.insert(name); });
  for (const auto& [call, name] : parameters) {
    const bool named = std::any_of(stands_for_.begin(), stands_for_.end(), [&, &call = call](const auto& s) {
      return std::find(s.second.begin(), s.second.end(), call) != s.second.end();
    });
    if (named) continue;
    changed_.emplace(call);
    const bool went_in = std::any_of(computed_.begin(), computed_.end(), [&, &name = name](const auto& c) {
      return std::find(c.second.from.begin(), c.second.from.end(), name) != c.second.from.end();
    });
    if (!called.contains(call) && !holds(call) && !went_in) absorbed_.emplace_back(name);
  }
}

// What is said of the tensors.
void Signature::note(const onnx::GraphProto& graph) {
  std::map<std::string_view, std::string_view> stated;  // what a tensor is noted as
  const auto read = [&](const auto& value) {
    if (const std::string_view from = entry_of(value.metadata_props(), folded_key); !from.empty()) compute(value.name(), from);
    const std::string_view kind = entry_of(value.metadata_props(), kind_key);
    if (kind.ends_with("PARAMETER") || kind.ends_with("BUFFER")) stated[value.name()] = entry_of(value.metadata_props(), original_key);
  };
  for (const auto& value : graph.value_info()) read(value);
  for (const auto& value : graph.input()) read(value);
  for (const auto& tensor : graph.initializer()) read(tensor);
  bool any_named = false, any_computed = false;
  for (const auto& tensor : graph.initializer()) {
    const auto by_name = called_.find(tensor.name());
    any_named = any_named || by_name != called_.end();
    const auto said = stated.find(tensor.name());
    std::vector<std::string> stands;
    if (said != stated.end() && (!said->second.empty() || by_name != called_.end()))
      stands.emplace_back(said->second.empty() ? std::string_view(by_name->second) : said->second);
    if (const Computed* known = computed(tensor.name()); known && stands.empty())
      for (const std::string& name : known->from) stands.push_back(called_.at(name));
    held_.insert(stands.begin(), stands.end());
    any_computed = any_computed || (said == stated.end() && !stands.empty());
    if (by_name != called_.end()) held_.emplace(by_name->second);
    if (!stands.empty()) stands_for_.emplace(tensor.name(), std::move(stands));
  }
  tells_kinds_ = !stated.empty() || (any_computed && !any_named);
}

// `from`: "['fc.weight', 'val_3']".
void Signature::compute(const std::string& tensor, std::string_view from) {
  Computed& c = computed_[tensor] = {};
  bool detached = false, joined = false, others = false;
  int sums = 0, numbers = 0;
  const auto way = [&](std::string_view value) {
    const CallKind kind = kind_of_result(value);
    sums += is_shift(value);
    others = others || (kind != CallKind::moves && kind != CallKind::within && !is_shift(value));
    detached = detached || is_detached(value);
    joined = joined || is_joined(value);
    c.picked = c.picked || kind == CallKind::picks;
    c.indexed = c.indexed || kind == CallKind::counts;
    c.moved = c.moved && kind != CallKind::computes;
  };
  each_name(from, [&](std::string_view name) {
    ++c.values;
    if (names_.contains(name)) c.from.emplace_back(name);
    else if (called_.contains(name)) others = true;  // buffers are no results
    else way(name);
    numbers += kind_of_result(name) == CallKind::within;
  });
  const CallKind last = kind_of_result(tensor);
  way(tensor);
  if (last == CallKind::counts || (c.indexed && (!c.picked || c.from.size() > 1))) c.moved = false;
  c.detached = detached && c.from.size() == 1;
  if (detached && (joined || !c.detached)) c.moved = false;  // with a gradient in part
  c.within = last == CallKind::within;
  c.shifted = sums == 1 && numbers == 1 && !others && !joined && !detached && c.from.size() == 1;
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

bool Signature::detached(std::string_view tensor) const {
  return moved(tensor) && computed(tensor)->detached;
}

bool Signature::moved(std::string_view tensor) const {
  const Computed* known = computed(tensor);
  return known && !known->from.empty() && known->moved;
}

bool Signature::rearranged(std::string_view tensor, const onnx::NodeProto* reader) const {
  return moved(tensor) && (!computed(tensor)->within || (reader && takes_as_they_are(call_of(*reader))));
}

bool Signature::shifted(std::string_view tensor, const onnx::NodeProto* reader) const {
  const Computed* known = computed(tensor);
  return known && known->shifted && (!known->within || (reader && takes_as_they_are(call_of(*reader))));
}

const std::vector<std::string>& Signature::stands_for(std::string_view tensor) const {
  static const std::vector<std::string> nothing;
  const auto found = stands_for_.find(tensor);
  return found == stands_for_.end() ? nothing : found->second;
}

void Signature::rename(google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto>& notes, const std::string& from,
                       const std::string& to) const {
  for (int i = notes.size() - 1; i >= 0; --i) {
    onnx::StringStringEntryProto& note = notes[i];
    const bool folded = note.key() == folded_key, original = note.key() == original_key;
    if (note.key() == kind_key && lists(to)) note.set_value(is_parameter(to) ? "PARAMETER" : "BUFFER");
    if (!folded && !original) continue;
    if (from.empty()) {
      notes.DeleteSubrange(i, 1);
    } else if (original) {
      note.set_value(to);
    } else {
      const std::string old = '\'' + target(from) + '\'', now = '\'' + target(to) + '\'';
      if (const std::size_t at = note.value().find(old); at != std::string::npos) note.mutable_value()->replace(at, old.size(), now);
    }
  }
}

bool Signature::changed(std::string_view tensor) const {
  return names(tensor) && stands_for(tensor).empty();
}

}  // namespace tandem
