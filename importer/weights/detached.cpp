#include "importer/weights/detached.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "importer/weights/tie_weights.h"

namespace tandem {
namespace {

bool is_detach(std::string_view name) {
  constexpr std::string_view call = "detach";
  if (!name.starts_with(call)) return false;
  name.remove_prefix(call.size());
  return name.empty() || (name[0] == '_' && name.size() > 1 && name.find_first_not_of("0123456789", 1) == name.npos);
}

// What torch.export calls a parameter, a buffer or a constant that a call takes.
bool is_held(std::string_view name) {
  return name.starts_with("p_") || name.starts_with("b_") || name.starts_with("c_");
}

class Detached {
 public:
  explicit Detached(FlatModel& model) : model_(model) {
    for (const Symbol in : model.main.inputs) names_.insert(model.name(in));
    for (const FlatInitializer& i : model.main.initializers) {
      held_.insert(i.symbol.index);
      if (is_float(i.type.dtype)) learnt_.insert(i.symbol.index);
      held_names_.insert(model.name(i.symbol));
    }
    for (const FlatNode& node : model.main.nodes)
      for (const Symbol out : node.outputs) {
        if (!out.present()) continue;
        names_.insert(model.name(out));
        if (node.op == "Constant") {
          held_.insert(out.index);
          held_names_.insert(model.name(out));
        }
        if (node.proto) calls_[out.index] = call_of(*node.proto);
      }
  }

  void run() {
    std::vector<FlatNode> nodes;
    for (FlatNode& node : model_.main.nodes) {
      const std::string_view call = node.proto ? call_of(*node.proto) : std::string_view();
      const std::string_view line = node.proto ? source_line_of(*node.proto) : std::string_view();
      const bool says_detach = line.find(".detach(") != line.npos, may_be_missed = says_detach && reads_elided(node, call);
      if (node.op == "Identity" && node.domain.empty() && node.inputs.size() == 1 && target_of(call).starts_with("torch.ops.aten.detach")) {
        node.detached = true;
        placed_.insert(line);
      } else {
        for (const std::size_t input : taken_detached(node, call)) {
          node.inputs[input] = without_gradient(node, node.inputs[input], nodes);
          placed_.insert(line);
        }
      }
      if (may_be_missed) missed_.try_emplace(line, node.name);
      if (std::any_of(node.inputs.begin(), node.inputs.end(), [&](Symbol in) { return in.present() && learnt_.contains(in.index); }))
        for (const Symbol out : node.outputs) learnt_.insert(out.index);
      nodes.push_back(std::move(node));
    }
    model_.main.nodes = std::move(nodes);
    warn();
  }

 private:
  // It reads something that came of parameters in place of a value that is not in the file, which may have been detached before it was left
  // out: a slice of everything, a view of the same shape.
  bool reads_elided(const FlatNode& node, std::string_view call) const {
    const std::vector<std::string_view> operands = operands_of(call);
    const bool elided = std::any_of(operands.begin(), operands.end(), [&](std::string_view name) {
      return !is_held(name) && !held_names_.contains(name) && !names_.contains(name) && !name.starts_with("sym_");
    });
    return elided && std::any_of(node.inputs.begin(), node.inputs.end(), [&](Symbol in) {
             return in.present() && learnt_.contains(in.index) && !held_.contains(in.index) &&
                    std::find(operands.begin(), operands.end(), model_.name(in)) == operands.end();
           });
  }

  // The node's operands that its call takes detached.
  std::vector<std::size_t> taken_detached(const FlatNode& node, std::string_view call) {
    std::vector<std::string_view> taken, missing;  // but what the file holds; of these what goes by another name in the file
    for (const std::string_view name : operands_of(call)) {
      if (is_held(name) || held_names_.contains(name)) continue;
      taken.push_back(name);
      if (!names_.contains(name) && !name.starts_with("sym_") && std::find(missing.begin(), missing.end(), name) == missing.end())
        missing.push_back(name);
    }
    if (std::none_of(missing.begin(), missing.end(), is_detach)) return {};
    std::vector<std::size_t> read, others;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Symbol in = node.inputs[i];
      if (!in.present() || held_.contains(in.index)) continue;
      if (const auto made = calls_.find(in.index); made != calls_.end() && made->second == call) continue;  // on the way, by the same call
      read.push_back(i);
      if (std::find(taken.begin(), taken.end(), model_.name(in)) == taken.end()) others.push_back(i);
    }
    const auto agrees = [&](std::size_t i, std::string_view name) { return !names_.contains(name) || model_.name(node.inputs[i]) == name; };
    std::vector<std::size_t> found;
    if (std::equal(read.begin(), read.end(), taken.begin(), taken.end(), agrees)) {
      for (std::size_t i = 0; i < read.size(); ++i)
        if (!names_.contains(taken[i]) && is_detach(taken[i])) found.push_back(read[i]);
    } else if (others.size() == missing.size()) {
      for (std::size_t i = 0; i < others.size(); ++i)
        if (is_detach(missing[i])) found.push_back(others[i]);
    } else if (!others.empty()) {
      lost_.push_back(concat('\'', node.name, '\''));
    }
    return found;
  }

  Symbol without_gradient(const FlatNode& reader, Symbol of, std::vector<FlatNode>& nodes) {
    if (const auto known = stopped_.find(of.index); known != stopped_.end()) return known->second;
    FlatNode node;
    node.id = model_.node_ids++;
    node.name = concat(reader.name, "/detach");
    node.op = "Identity";
    node.opset = reader.opset;
    node.inputs = {of};
    node.detached = node.top_level = true;
    const Symbol out{static_cast<int>(model_.symbols.size())};
    model_.symbols.push_back(concat(model_.name(of), "/detached"));
    model_.stated.emplace_back();
    node.outputs = {out};
    nodes.push_back(std::move(node));
    found_.push_back(concat('\'', model_.name(of), '\''));
    stopped_.emplace(of.index, out);
    return out;
  }

  void warn() {
    if (!found_.empty())
      model_.warnings.push_back(concat("PyTorch's calls take ", listed(found_),
                                       " detached, and no gradient flows there: by their notes, as the exporter left the detach out",
                                       Signature::way_out));
    for (const auto& [line, node] : missed_)
      if (!placed_.contains(line))
        model_.warnings.push_back(concat("the source of '", node, "' detaches a value (", line,
                                         "), of which the exporter left no trace: gradients flow through all of it", Signature::way_out));
    if (!lost_.empty())
      model_.warnings.push_back(concat("PyTorch's calls of ", listed(lost_),
                                       " take a value detached, but it is not known which: gradients flow through all",
                                       Signature::way_out));
  }

  FlatModel& model_;
  std::set<std::string, std::less<>> names_, held_names_;  // of computed values and inputs; of initializers and constants
  std::set<int> held_;                     // by symbol
  std::map<int, std::string_view> calls_;  // by symbol: what made it
  std::map<int, Symbol> stopped_;
  std::set<int> learnt_;                   // symbols: what came of floats that the file holds
  std::set<std::string_view> placed_;      // source lines of which a detach was found
  std::map<std::string_view, std::string> missed_;  // by source line: the node that may read what it detaches
  std::vector<std::string> found_, lost_;
};

}  // namespace

void mark_detached(FlatModel& model) {
  Detached(model).run();
}

}  // namespace tandem
