// Warnings of what the exporter's optimizer did to parameters, where training differs by it from PyTorch's.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "importer/flat/call_parameters.h"
#include "importer/flat/operand_uses.h"
#include "importer/message/call_kinds.h"
#include "importer/message/value_tests.h"
#include "importer/weights/looked_up.h"
#include "importer/weights/lost_parameters.h"
#include "importer/weights/tie_weights.h"

namespace tandem {
namespace {

std::vector<std::string> quoted(std::vector<std::string> names) {
  for (std::string& n : names) n = concat('\'', n, '\'');
  return names;
}

std::string first_of(const std::vector<std::string>& names) {
  constexpr std::size_t most = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i) text += concat(i ? ", " : "", names[i]);
  return names.size() > most ? concat(text, " and ", names.size() - most, " more") : text;
}

class Lost {
 public:
  explicit Lost(FlatModel& model) : model_(model), uses_(uses_of(model)) {}

  void run() {
    calls();
    for (const Symbol s : model_.computed) judge(s);
    if (!known_.empty()) warn("the exporter computed ", first_of(known_), ": what it computed is trained as it stands");
    if (!shifted_.empty())
      warn("the exporter added a number to parameters, and wrote the sums alone: ", first_of(shifted_),
           ": the sums are trained, which differs only where weight decay pulls them to 0 in place of the parameters");
    const std::vector<std::string>& absorbed = model_.signature.absorbed();
    if (!absorbed.empty() && !unknown_.empty())
      warn("the model's parameters ", first_of(quoted(absorbed)),
           " stand nowhere in the file: it does not use them, or its exporter computed with them, and ", first_of(quoted(unknown_)),
           ", what may have come of it, is trained as it stands");
    else if (const std::vector<std::string> numbers = may_be_numbers(absorbed); !numbers.empty() && elided())
      warn("the model's parameters ", first_of(quoted(numbers)),
           " stand nowhere in the file: it does not use them, or its exporter left out what adds 0 or multiplies by 1");
    overlaps();
  }

 private:
  template <class... Words>
  void warn(const Words&... words) {
    model_.warnings.push_back(concat(words..., Signature::way_out));
  }

  void calls() {
    const CallParameters found = call_parameters(model_);
    if (!found.normalizations.empty())
      warn("the exporter fused batch normalizations into the layers before them: ", first_of(quoted(found.normalizations)),
           "; their parameters are not in the file, and training does not normalize by the batch, as the module does in training mode");
    if (!found.left_out.empty())
      warn("the exporter left out parameters that the module has, as it does with biases of zeros: ", first_of(quoted(found.left_out)),
           "; they are not trained");
  }

  void judge(Symbol s) {
    const std::string& name = model_.name(s);
    const std::vector<std::string>* from = model_.signature.computed_from(name);
    if (follows(model_, s) || looked_up_there(model_, s)) return;
    if (from && rearranged(s) && std::none_of(from->begin(), from->end(), [&](const std::string& n) { return trained(n); })) {
      if (from->size() == 1) parts_[from->front()].push_back(s);
    } else if (from && model_.signature.shifted(name, reader_of(s))) {
      shifted_.push_back(concat('\'', name, "' from ", first_of(quoted(*from))));
    } else if (from && !from->empty()) {
      known_.push_back(concat('\'', name, "' from ", first_of(quoted(*from))));
    } else {
      unknown_.push_back(name);
    }
  }

  bool trained(const std::string& name) const {
    const FlatInitializer* held = find_initializer(model_, name);
    return held && model_.holding(held->symbol) == Holding::trained;
  }

  const onnx::NodeProto* reader_of(Symbol s) const {
    const FlatNode* reader = uses_[static_cast<std::size_t>(s.index)].reader.node;
    return reader ? reader->proto : nullptr;
  }

  // Numbers of its parameters as they are, none of them twice.
  bool rearranged(Symbol s) const {
    if (!model_.signature.rearranged(model_.name(s), reader_of(s))) return false;
    const FlatInitializer* held = find_initializer(model_, model_.name(s));
    return !model_.signature.looked_up(model_.name(s)) || !held || !held->data ||
           single_values(*held->data).size() == static_cast<std::size_t>(held->type.shape.elements());
  }

  // A layer's weight and bias are none, used or not.
  static std::vector<std::string> may_be_numbers(std::vector<std::string> names) {
    std::erase_if(names, [](const std::string& n) {
      return n.find("weight", n.rfind('.') + 1) != n.npos || n.find("bias", n.rfind('.') + 1) != n.npos;
    });
    return names;
  }

  // A call takes the result of a sum or product that the file does not have.
  bool elided() const {
    std::set<std::string_view> names;
    for (const FlatNode& node : model_.main.nodes)
      for (const Symbol out : node.outputs)
        if (out.present()) names.insert(model_.name(out));
    return std::any_of(model_.main.nodes.begin(), model_.main.nodes.end(), [&](const FlatNode& node) {
      if (!node.proto) return false;
      const std::vector<std::string_view> operands = operands_of(call_of(*node.proto));
      return std::any_of(operands.begin(), operands.end(), [&](std::string_view name) {
        return may_change_nothing(name) && !names.contains(name) && !find_initializer(model_, name);
      });
    });
  }

  // Values, by their bits, that a tensor has once.
  static std::set<std::uint64_t> single_values(const Tensor& t) {
    std::map<std::uint64_t, int> counts;
    const std::size_t size = size_of(t.dtype());
    for (std::size_t at = 0; at < t.bytes().size(); at += size) {
      std::uint64_t value = 0;
      std::memcpy(&value, t.bytes().data() + at, size);
      ++counts[value];
    }
    std::set<std::uint64_t> single;
    for (const auto& [value, count] : counts)
      if (count == 1) single.insert(value);
    return single;
  }

  // Parts of one parameter that have values in common, more than chance gives.
  void overlaps() {
    constexpr double numbers = 0x1p22;  // of float32 that weights of one size are drawn from
    for (const auto& [parameter, parts] : parts_) {
      std::vector<std::pair<Symbol, std::set<std::uint64_t>>> known;
      for (const Symbol s : parts) {
        const FlatInitializer* held = find_initializer(model_, model_.name(s));
        if (!held || !held->data) continue;
        std::set<std::uint64_t> mine = single_values(*held->data);
        for (const auto& [other, values] : known) {
          const auto common =
              std::count_if(mine.begin(), mine.end(), [&, &values = values](std::uint64_t v) { return values.contains(v); });
          if (static_cast<double>(common) <= 8 * static_cast<double>(mine.size()) * static_cast<double>(values.size()) / numbers) continue;
          warn("'", model_.name(other), "' and '", model_.name(s), "' hold parts of '", parameter,
               "' that overlap: what they have in common is trained apart");
        }
        known.emplace_back(s, std::move(mine));
      }
    }
  }

  FlatModel& model_;
  const std::vector<Uses> uses_;
  std::vector<std::string> known_, shifted_, unknown_;
  std::map<std::string, std::vector<Symbol>> parts_;  // by parameter
};

}  // namespace

void warn_of_lost_parameters(FlatModel& model) {
  if (model.signature.present()) Lost(model).run();
}

}  // namespace tandem
