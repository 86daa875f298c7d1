// Forward from the inputs: a value is raw while nothing but known numbers, elementwise, and constant matrices have met it. What meets a
// raw value prepares data, if a weight that is trained comes behind it. Backward from the outputs the same for what unscales.
#include "importer/weights/data_preparation.h"

#include <algorithm>
#include <optional>
#include <set>

#include "importer/message/tensor_data.h"
#include "importer/weights/filter_banks.h"

namespace tandem {
namespace {

using Dims = std::vector<std::int64_t>;

bool is_one_of(std::string_view op, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), op) != list.end();
}
// What a person computes with data's statistics: a root, a reciprocal, a bound. What is exp or a sigmoid of a tensor was learnt.
bool is_plain(const FlatNode& node) {
  return is_one_of(node.op, {"Add", "Sub", "Mul", "Div", "Neg", "Sqrt", "Reciprocal", "Max", "Clip", "Cast", "CastLike", "Reshape",
                             "Unsqueeze", "Squeeze", "Transpose", "Identity", "Expand", "Flatten"});
}
bool is_arithmetic(const FlatNode& node) {
  return node.domain.empty() && node.inputs.size() == 2 && node.inputs[0].present() && node.inputs[1].present() &&
         is_one_of(node.op, {"Add", "Sub", "Mul", "Div"});
}
bool scales(const FlatNode& node) {
  return node.op == "Mul" || node.op == "Div";
}

class Preparation {
 public:
  explicit Preparation(const PreparationQuery& query)
      : q_(query),
        model_(query.model),
        n_(model_.symbols.size()),
        found_(n_),
        known_(n_),
        plain_(n_),
        weighed_(n_),
        raw_(n_),
        centered_(n_),
        ahead_(n_),
        reads_(n_),
        dims_(n_),
        maker_(n_) {}

  std::vector<Prepares> run() {
    for (const FlatInitializer& i : model_.main.initializers) hold(i.symbol);
    for (std::size_t i = 0; i < model_.main.inputs.size() && i < model_.inputs.size(); ++i) {
      const Symbol in = model_.main.inputs[i];
      raw_[at(in)] = true;
      if (!model_.inputs[i].shape_known) continue;
      Dims dims;
      for (const ModelDim& d : model_.inputs[i].dims) dims.push_back(d.size);
      dims_[at(in)] = dims;
    }
    for (const FlatNode& node : model_.main.nodes) forward(node);
    for (auto node = model_.main.nodes.rbegin(); node != model_.main.nodes.rend(); ++node) look_ahead(*node);
    for (const auto& [node, known] : met_) {
      const Symbol out = node->outputs[0];
      if (ahead_[at(out)]) mark(node->inputs[known], Prepares::input, *node, true);
    }
    for (const Symbol out : model_.main.outputs)
      if (out.present()) back(out);
    for (std::size_t s = 0; s < n_; ++s)
      if (found_[s] != Prepares::components && reads_[s] != q_.uses[s].readers) found_[s] = Prepares::nothing;
    return std::move(found_);
  }

 private:
  static std::size_t at(Symbol s) { return static_cast<std::size_t>(s.index); }
  bool in(const std::vector<bool>& set, Symbol s) const { return s.present() && set[at(s)]; }
  bool raw(Symbol s) const { return in(raw_, s); }
  bool known(Symbol s) const { return !s.present() || known_[at(s)]; }

  void hold(Symbol s) {
    known_[at(s)] = plain_[at(s)] = true;
    weighed_[at(s)] = q_.trained(s);
  }

  bool reads_weight(const FlatNode& node) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](Symbol s) { return in(weighed_, s); });
  }

  void forward(const FlatNode& node) {
    for (const Symbol out : node.outputs)
      if (out.present()) maker_[at(out)] = &node;
    if (!node.bodies.empty() || node.outputs.empty() || !node.outputs[0].present()) return;
    const std::size_t out = at(node.outputs[0]);
    if (node.op == "Constant" || (node.op == "ConstantOfShape" && node.inputs.size() == 1 && known(node.inputs[0])))
      return hold(node.outputs[0]);
    const auto all = [&](auto&& holds) { return std::all_of(node.inputs.begin(), node.inputs.end(), holds); };
    const bool any_weight = reads_weight(node);
    if (!node.inputs.empty() && all([&](Symbol s) { return known(s); })) {
      known_[out] = true;
      weighed_[out] = any_weight;
      plain_[out] = node.domain.empty() && is_plain(node) && all([&](Symbol s) { return !s.present() || plain_[at(s)]; });
      return;
    }
    if (node.inputs.empty() || !node.inputs[0].present()) return;
    const bool product = is_product(node) && raw(node.inputs[0]) && known(node.inputs[1]);
    if (product && components(node)) return raw_result(node);
    if (any_weight || !all([&](Symbol s) { return known(s) || raw(s); })) return;
    const Operator* op = find_operator(node.op, node.domain);
    const OperandRole role = role_of(node, 0);
    if (product || is_view(role) || (op && op->elementwise) || node.domain == "ai.onnx.ml" ||
        (node.domain.empty() && is_one_of(node.op, {"Cast", "Resize", "Pad", "Gather", "Concat", "Split", "Slice", "Flatten"})))
      raw_result(node);
    if (!is_arithmetic(node)) return;
    for (const std::size_t i : {0, 1})
      if (known(node.inputs[i]) && raw(node.inputs[1 - i]) && plain_[at(node.inputs[i])]) met_.emplace_back(&node, i);
    centered_[out] = node.op == "Sub" && raw(node.inputs[0]) && known(node.inputs[1]);
    dims_[out] = dims_[at(node.inputs[raw(node.inputs[0]) ? 0 : 1])];
  }

  void raw_result(const FlatNode& node) {
    for (const Symbol out : node.outputs)
      if (out.present()) raw_[at(out)] = true;
    const std::size_t out = at(node.outputs[0]);
    if (node.op == "Cast" || node.op == "Identity" || node.op == "Clip") dims_[out] = dims_[at(node.inputs[0])];
    if (const Ints perm = node.op == "Transpose" ? node.attributes.ints("perm", {}) : Ints{}; !perm.empty())
      if (const auto& from = dims_[at(node.inputs[0])]; from && from->size() == perm.size()) {
        Dims to;
        for (const std::int64_t p : perm)
          if (p >= 0 && p < static_cast<std::int64_t>(from->size())) to.push_back((*from)[static_cast<std::size_t>(p)]);
        if (to.size() == perm.size()) dims_[out] = to;
      }
  }

  bool is_product(const FlatNode& node) const {
    const OperandRole role = node.inputs.size() < 2 ? OperandRole::data : role_of(node, 1);
    return role == OperandRole::matrix || role == OperandRole::filter || role == OperandRole::transposed_filter;
  }

  // A centered input times columns at right angles to each other.
  bool components(const FlatNode& node) {
    const Symbol matrix = node.inputs[1];
    if (!in(centered_, node.inputs[0]) || node.op == "Conv" || !q_.free(matrix)) return false;
    const Held* held = q_.held(matrix);
    if (!held || !held->data || held->type.shape.rank() != 2 || is_half(held->type.dtype) || held->type.shape.elements() == 0) return false;
    const bool turned = node.op == "Gemm" && node.attributes.integer("transB", 0) != 0;
    if (!orthogonal(turned ? rows_of(*held->data, held->type.shape[0]) : columns_of(*held->data, held->type.shape[1]))) return false;
    found_[at(matrix)] = Prepares::components;
    weighed_[at(matrix)] = false;
    return true;
  }

  // Whether a weight that is trained comes behind a value.
  void look_ahead(const FlatNode& node) {
    const bool behind = std::any_of(node.outputs.begin(), node.outputs.end(), [&](Symbol s) { return in(ahead_, s); });
    const bool here = !node.bodies.empty() || (!known(node.outputs.empty() ? Symbol{} : node.outputs[0]) && reads_weight(node));
    if (!behind && !here) return;
    for (const Symbol s : node.inputs)
      if (s.present()) ahead_[at(s)] = true;
  }

  // All that went into a known operand of `node`.
  void mark(Symbol s, Prepares what, const FlatNode& node, bool shape_counts) {
    if (!s.present()) return;
    if (const Held* held = q_.held(s)) {
      ++reads_[at(s)];
      if (!q_.free(s) || (shape_counts && !fits(held->type.shape, node))) return;
      found_[at(s)] = what;
      return;
    }
    const FlatNode* maker = maker_[at(s)];
    if (!maker || !counted_.insert(maker).second) return;
    for (const Symbol in : maker->inputs) mark(in, what, node, false);
  }

  // Statistics of features are a vector, or one number for each of a sample's. What is added and has several axes is a table of places,
  // learnt or not.
  bool fits(const Shape& shape, const FlatNode& node) const {
    const auto axes = std::count_if(shape.begin(), shape.end(), [](std::int64_t d) { return d > 1; });
    const auto& dims = dims_[at(node.inputs[raw(node.inputs[0]) ? 0 : 1])];
    if (axes > 1 && (node.op == "Add" || !dims)) return false;
    if (!dims) return true;
    if (shape.rank() > static_cast<int>(dims->size())) return axes == 0;
    for (int i = 1; i <= shape.rank(); ++i) {
      const std::int64_t given = (*dims)[dims->size() - static_cast<std::size_t>(i)], mine = shape[shape.rank() - i];
      if (mine > 1 && given > 0 && mine != given) return false;
    }
    return true;
  }

  bool gives_one(const FlatNode& layer) const {
    const Held* held = layer.inputs.size() > 1 ? q_.held(layer.inputs[1]) : nullptr;
    const Shape* shape = held ? &held->type.shape : nullptr;
    return shape && shape->rank() == 2 && (*shape)[layer.op == "Gemm" && layer.attributes.integer("transB", 0) != 0 ? 0 : 1] == 1;
  }

  // From an output back: a scale with a shift, or one behind an activation that has bounds, behind a layer that is trained. Single
  // numbers behind a layer of several results are a temperature and the like: data's statistics are as many as the results.
  void back(Symbol v) {
    std::vector<std::pair<const FlatNode*, std::size_t>> met;
    bool scale = false, shift = false, bounded = false, layer = false, single = true;
    for (const FlatNode* node = maker_[at(v)]; node; node = v.present() ? maker_[at(v)] : nullptr) {
      if (!node->domain.empty() || !node->bodies.empty() || node->inputs.empty()) return;
      if (is_arithmetic(*node)) {
        const std::size_t i = known(node->inputs[0]) ? 0 : 1;
        if (!known(node->inputs[i]) || known(node->inputs[1 - i]) || in(weighed_, node->inputs[i])) return;
        v = node->inputs[1 - i];
        const FlatNode* before = v.present() ? maker_[at(v)] : nullptr;
        const bool bias = node->op == "Add" && before && is_product(*before);
        if (!bias && plain_[at(node->inputs[i])]) met.emplace_back(node, i);
        const Held* held = q_.held(node->inputs[i]);
        single = single && (bias || !held || held->type.shape.elements() == 1);
        scale = scale || scales(*node);
        shift = shift || (!scales(*node) && !bias);
        continue;
      }
      layer = reads_weight(*node);
      if (layer) single = single && !gives_one(*node);
      if (layer) break;
      if (is_one_of(node->op, {"Sigmoid", "Tanh", "HardSigmoid"})) {
        bounded = layer = !met.empty();
        break;
      }
      const Operator* op = find_operator(node->op, node->domain);
      bounded = bounded || node->op == "Clip";
      const bool passes = is_view(role_of(*node, 0)) || is_one_of(node->op, {"Clip", "Cast", "Exp", "Flatten", "Reshape"}) ||
                          (!met.empty() && op && op->elementwise && node->inputs.size() == 1);
      if (!passes) return;
      v = node->inputs[0];
    }
    if (!layer || !scale || !(bounded || (shift && !single))) return;
    for (const auto& [node, i] : met) mark(node->inputs[i], Prepares::output, *node, false);
  }

  const PreparationQuery& q_;
  const FlatModel& model_;
  const std::size_t n_;
  std::vector<Prepares> found_;
  std::vector<bool> known_, plain_,
      weighed_;  // computed from what the file holds alone; so, by what a person computes; from a weight that is trained
  std::vector<bool> raw_, centered_, ahead_;  // inputs and what is made of them; a mean was taken off last; before a weight
  std::vector<int> reads_;                    // that prepare data
  std::vector<std::optional<Dims>> dims_;     // of raw values, as far as they are known
  std::vector<const FlatNode*> maker_;
  std::vector<std::pair<const FlatNode*, std::size_t>> met_;  // nodes where a known operand meets a raw value, and which
  std::set<const FlatNode*> counted_;
};

}  // namespace

std::vector<Prepares> data_preparation(const PreparationQuery& query) {
  return Preparation(query).run();
}

}  // namespace tandem
