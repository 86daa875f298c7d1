#include "importer/flat/call_parameters.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>

#include "importer/message/call_kinds.h"

namespace tandem {
namespace {

bool contains(const auto& list, std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

bool is_layer(const FlatNode& node) {
  constexpr std::string_view layers[] = {"Conv", "ConvTranspose", "Gemm", "MatMul"};
  return node.domain.empty() && contains(layers, node.op);
}

// "layer1.0.bn2" of "layer1.0.bn2.weight".
std::string_view module_of(std::string_view parameter) {
  const std::size_t dot = parameter.rfind('.');
  return dot == parameter.npos ? parameter : parameter.substr(0, dot);
}
std::string_view own_name(std::string_view parameter) {
  return parameter.substr(parameter.rfind('.') + 1);  // npos + 1 is 0
}

class Calls {
 public:
  explicit Calls(const FlatModel& model) : model_(model), signature_(model.signature) {
    for (const FlatInitializer& i : model.main.initializers)
      if (is_float(i.type.dtype)) held_.insert(i.symbol.index);
    for (const FlatNode& node : model.main.nodes) {
      const std::string_view call = node.proto && node.top_level ? call_of(*node.proto) : std::string_view();
      if (call.empty()) {
        for (const Symbol in : node.inputs)
          if (in.present()) others_.insert(in.index);
      } else {
        if (!nodes_.contains(call)) order_.push_back(call);
        nodes_[call].push_back(&node);
      }
    }
  }

  CallParameters run() {
    for (const std::string_view call : order_) judge(call, nodes_[call]);
    for (const int tensor : own_)
      if (!others_.contains(tensor)) found_.shared.insert(tensor);
    return std::move(found_);
  }

 private:
  // A node that reads one tensor at two places, as a fresh normalization its bias and its mean, reads the second in place of what is
  // missing.
  void judge(std::string_view call, const std::vector<const FlatNode*>& nodes) {
    const std::vector<std::string_view> operands = operands_of(call);
    std::vector<std::string> listed, missing;
    for (const std::string_view name : operands)
      if (signature_.lists(name) && !contains(listed, name)) listed.emplace_back(name);
    std::copy_if(listed.begin(), listed.end(), std::back_inserter(missing),
                 [&](const std::string& name) { return !signature_.holds(name); });
    if (is_batch_normalization(call) && !listed.empty() &&
        std::any_of(nodes.begin(), nodes.end(), [](const FlatNode* node) { return is_layer(*node); })) {
      found_.normalizations.emplace_back(module_of(signature_.target(listed.front())));
      return;
    }
    std::vector<Foreign> foreign;
    bool unknown = false;  // a float tensor of which nothing is said may be what is missing
    for (const FlatNode* node : nodes)
      for (std::size_t i = 0; i < node->inputs.size(); ++i) {
        const Symbol in = node->inputs[i];
        if (!in.present() || !held_.contains(in.index)) continue;
        const std::vector<std::string>& stands_for = signature_.stands_for(model_.name(in));
        const bool again = !missing.empty() && std::find(node->inputs.begin(), node->inputs.begin() + static_cast<std::ptrdiff_t>(i), in) !=
                                                   node->inputs.begin() + static_cast<std::ptrdiff_t>(i);
        const bool own =
            !again && (contains(operands, model_.name(in)) ||
                       std::any_of(stands_for.begin(), stands_for.end(), [&](const std::string& s) { return contains(listed, s); }));
        (own && !stands_for.empty() ? own_ : others_).insert(in.index);
        if (own) continue;
        if (stands_for.empty())
          unknown = unknown || !signature_.changed(model_.name(in));
        else
          foreign.push_back({in, node, static_cast<int>(i), {}});
      }
    if (missing.empty()) return;
    if (foreign.empty()) {
      if (unknown) return;
      for (const std::string& name : missing)
        if (signature_.is_parameter(name)) found_.left_out.push_back(signature_.target(name));
      return;
    }
    for (std::size_t i = 0; i < foreign.size(); ++i) {
      foreign[i].owner = owner_of(foreign[i].tensor, missing);
      if (foreign[i].owner.empty() && foreign.size() == missing.size()) foreign[i].owner = missing[i];
      found_.merged.push_back(std::move(foreign[i]));
    }
  }

  // Of what is missing that which has the last part of its name with what the tensor stands for.
  std::string owner_of(Symbol tensor, const std::vector<std::string>& missing) const {
    const std::vector<std::string>& stands_for = signature_.stands_for(model_.name(tensor));
    const auto same = [&](const std::string& name) {
      return own_name(signature_.target(name)) == own_name(signature_.target(stands_for.front()));
    };
    if (stands_for.size() != 1 || !signature_.lists(stands_for.front()) || std::count_if(missing.begin(), missing.end(), same) != 1)
      return {};
    return *std::find_if(missing.begin(), missing.end(), same);
  }

  const FlatModel& model_;
  const Signature& signature_;
  std::map<std::string_view, std::vector<const FlatNode*>> nodes_;  // by call
  std::vector<std::string_view> order_;
  std::set<int> held_, own_, others_;  // symbols: float initializers; read as what they stand for; read by something else, too
  CallParameters found_;
};

}  // namespace

CallParameters call_parameters(const FlatModel& model) {
  return model.signature.present() ? Calls(model).run() : CallParameters{};
}

}  // namespace tandem
