// Goes back from each update_binding to the node that computes it, which says what the step is; all of them must say the same.
#include "importer/training/training_info.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.h"
#include "base/option.h"
#include "importer/message/node_order.h"
#include "importer/message/tensor_data.h"

namespace tandem {
namespace {

constexpr const char* own_training = "tandem.training";
constexpr const char* training_domains[] = {"ai.onnx.preview.training", own_training};

std::string name_of(const onnx::NodeProto& node) {
  return concat(node.op_type(), " '", node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name(), "'");
}

// As it is written shortest: 0.9 and not 0.89999998.
double shortest(float x) {
  char digits[64];
  double value = static_cast<double>(x);
  std::from_chars(digits, std::to_chars(digits, digits + sizeof digits, x).ptr, value);
  return value;
}
double real(const onnx::NodeProto& node, std::string_view name, float absent) {
  for (const auto& a : node.attribute())
    if (a.name() == name) absent = a.f();
  return shortest(absent);
}
std::int64_t integer(const onnx::NodeProto& node, std::string_view name, std::int64_t absent) {
  for (const auto& a : node.attribute())
    if (a.name() == name) return a.i();
  return absent;
}
std::string text(const onnx::NodeProto& node, std::string_view name, const char* absent) {
  for (const auto& a : node.attribute())
    if (a.name() == name) return a.s();
  return absent;
}
// Empty where there is none.
const std::string& in(const onnx::NodeProto& node, int i) {
  static const std::string none;
  return i < node.input_size() ? node.input(i) : none;
}
const std::string& in(const onnx::NodeProto* node, int i) { return in(*node, i); }
std::vector<std::string> strings(const onnx::NodeProto& node, std::string_view name) {
  for (const auto& a : node.attribute())
    if (a.name() == name) return {a.strings().begin(), a.strings().end()};
  return {};
}

// An attribute's number as a number of the optimizer.
struct Number {
  const char* attribute;
  float absent;
  const char* name;
};
struct OptimizerRow {
  bool own;  // a function that training_export.cpp writes, not ONNX's operator
  const char* op;
  const char* optimizer;
  std::vector<const char*> states;
  std::vector<Number> numbers;
  int first;          // the number of the first step: T as ONNX's formula has it
  const char* counts; // a number without which it does not matter which step it is; null: it always does
};
const std::vector<OptimizerRow>& rows() {
  static const std::vector<OptimizerRow> list{
      {false, "Adam", "adam", {"adam_m", "adam_v"}, {{"alpha", 0.9F, "beta1"}, {"beta", 0.999F, "beta2"}, {"epsilon", 1e-6F, "epsilon"}}, 1, nullptr},
      {true, "Adam", "adam", {"adam_m", "adam_v"}, {{"alpha", 0.9F, "beta1"}, {"beta", 0.999F, "beta2"}, {"epsilon", 1e-8F, "epsilon"}}, 1, nullptr},
      {true, "AdamW", "adamw", {"adam_m", "adam_v"}, {{"alpha", 0.9F, "beta1"}, {"beta", 0.999F, "beta2"}, {"epsilon", 1e-8F, "epsilon"}}, 1, nullptr},
      {true, "RMSprop", "rmsprop", {"rmsprop_s"}, {{"alpha", 0.9F, "rho"}, {"epsilon", 1e-7F, "epsilon"}}, 0, "none"},
      {false, "Adagrad", "adagrad", {"adagrad_s"}, {{"epsilon", 1e-6F, "epsilon"}, {"decay_factor", 0, "rate_decay"}}, 0, "rate_decay"},
      {false, "Momentum", "sgd", {"momentum"}, {{"alpha", 0, "momentum"}}, 0, "dampening"},
  };
  return list;
}

class Reader {
 public:
  Reader(const onnx::ModelProto& model, const onnx::TrainingInfoProto& info, ExternalData& external) : external_(external) {
    for (const onnx::GraphProto* graph : {&model.graph(), &info.algorithm()}) {
      for (const auto& node : graph->node())
        for (const std::string& out : node.output())
          if (!out.empty()) makers_.emplace(out, &node);
      for (const auto& tensor : graph->initializer()) held_.emplace(tensor.name(), &tensor);
      for (const auto& input : graph->input()) inputs_.insert(input.name());
    }
    for (const auto& node : model.graph().node()) of_model_.insert(node.output().begin(), node.output().end());
    for (const auto& b : info.update_binding()) updates_[b.key()] = b.value();
  }

  TrainingStep read() {
    for (const auto& [variable, value] : updates_) {
      if (!held_.contains(variable)) fail("training_info: update_binding names '", variable, "', which is no initializer");
      update(variable, value);
    }
    if (step_.trained.empty()) fail("training_info: no update_binding moves a weight along its gradient");
    check_counts();
    loss();
    settle();
    return std::move(step_);
  }

 private:
  template <class... Parts>
  [[noreturn]] static void refuse(const onnx::NodeProto& node, const Parts&... parts) {
    fail("training_info: ", name_of(node), ' ', parts..., ": ", option("loss"), " and ", option("optimizer"),
         ", both given, train the model without its algorithm");
  }

  const onnx::NodeProto* maker(std::string value) const {
    for (int hops = 0; hops < 100; ++hops) {
      const auto found = makers_.find(value);
      if (found == makers_.end()) return nullptr;
      if (found->second->op_type() != "Identity") return found->second;
      value = in(found->second, 0);
    }
    return nullptr;
  }
  static bool is_training(const onnx::NodeProto& node) {
    return std::ranges::find(training_domains, node.domain()) != std::end(training_domains);
  }
  static bool is(const onnx::NodeProto* node, std::string_view op) {
    return node && (node->domain().empty() || node->domain() == "ai.onnx") && node->op_type() == op;
  }

  std::optional<double> number(const std::string& name) const {
    const onnx::TensorProto* proto = nullptr;
    if (const auto held = held_.find(name); held != held_.end()) proto = held->second;
    if (const onnx::NodeProto* node = maker(name); !proto && is(node, "Constant"))
      for (const auto& a : node->attribute()) {
        if (a.name() == "value") proto = &a.t();
        if (a.name() == "value_float") return static_cast<double>(a.f());
        if (a.name() == "value_int") return static_cast<double>(a.i());
      }
    if (!proto) return std::nullopt;
    const std::optional<Tensor> tensor = tensor_of(*proto, external_);
    if (!tensor || tensor->elements() != 1) return std::nullopt;
    if (tensor->dtype() == DType::float32) return shortest(tensor->values<float>()[0]);
    return tensor->to_doubles()[0];
  }
  bool is_number(const std::string& name, double wanted) const { return number(name) == wanted; }

  // One step's updates.

  void update(const std::string& variable, const std::string& value) {
    const onnx::NodeProto* node = maker(value);
    if (!node) fail("training_info: update_binding gives '", variable, "' the value '", value, "', which no node computes");
    if (is_training(*node) && !is_gradient(*node)) return step_of(variable, value, *node);
    if (is(node, "Sub") && plain_step(variable, *node)) return;
    if (is_count(variable, *node)) {
      counted_.insert(variable);
      return step_.counters.push_back(variable);
    }
    if (is(node, "BatchNormalization") && node->output(0) != value) return;  // running statistics, which tandem moves by the same rule
    refuse(*node, "computes what '", variable, "' becomes, which is none of Adam, Adagrad, Momentum and w - r*g");
  }

  bool is_count(const std::string& variable, const onnx::NodeProto& node) const {
    return is(&node, "Add") &&
           ((in(node, 0) == variable && is_number(in(node, 1), 1)) || (in(node, 1) == variable && is_number(in(node, 0), 1)));
  }

  // The Gradient that gives this variable's, whose y is the loss.
  bool is_gradient_of(const std::string& value, const std::string& variable) {
    const onnx::NodeProto* node = maker(value);
    if (!node || !is_gradient(*node)) return false;
    const auto out = std::ranges::find(node->output(), value) - node->output().begin();
    const std::vector<std::string> xs = strings(*node, "xs"), zs = strings(*node, "zs");
    if (static_cast<std::size_t>(out) >= xs.size() || xs[static_cast<std::size_t>(out)] != variable) return false;
    std::vector<std::string> named = xs;
    named.insert(named.end(), zs.begin(), zs.end());
    if (!std::ranges::equal(named, node->input())) refuse(*node, "is taken at other values than those that it names");
    const std::string y = text(*node, "y", "");
    if (!y_.empty() && y != y_) refuse(*node, "differentiates '", y, "', another '", y_, "': tandem follows one loss");
    y_ = y;
    return true;
  }

  void rate(const onnx::NodeProto& node, const std::string& name, double& factor) {
    const std::optional<double> r = number(name);
    if (!r || updates_.contains(name))
      refuse(node, "has the learning rate '", name, "', which is computed: tandem takes a number, and schedules of its own");
    if (rates_++ == 0) step_.learning_rate = *r;
    if (*r == step_.learning_rate) return;
    if (step_.learning_rate == 0) refuse(node, "has a rate, others have none");
    factor = *r / step_.learning_rate;
  }

  void same(const onnx::NodeProto& node, const std::string& optimizer, const std::map<std::string, double>& numbers) {
    if (step_.trained.empty()) {
      step_.optimizer = optimizer;
      step_.numbers = numbers;
    }
    if (step_.optimizer != optimizer || step_.numbers != numbers)
      refuse(node, "steps otherwise than the operators of other weights: tandem has one optimizer");
  }

  // w - r·g, g perhaps with decay·w
  bool plain_step(const std::string& variable, const onnx::NodeProto& node) {
    const onnx::NodeProto* product = maker(in(node, 1));
    if (in(node, 0) != variable || !is(product, "Mul")) return false;
    for (const int i : {0, 1}) {
      const std::string &r = in(product, i), &g = in(product, 1 - i);
      TrainingStep::Trained trained{.weight = variable};
      const onnx::NodeProto* sum = maker(g);
      bool gradient = is_gradient_of(g, variable);
      for (const int k : {0, 1}) {
        if (gradient || !is(sum, "Add") || !is_gradient_of(in(sum, k), variable)) continue;
        const onnx::NodeProto* decay = maker(in(sum, 1 - k));
        if (!is(decay, "Mul")) continue;
        for (const int d : {0, 1})
          if (in(decay, d) == variable)
            if (const auto wd = number(in(decay, 1 - d))) {
              trained.weight_decay = *wd;
              gradient = true;
            }
      }
      if (!gradient) continue;
      same(node, "sgd", {});
      rate(node, r, trained.rate);
      step_.trained.push_back(std::move(trained));
      return true;
    }
    return false;
  }

  // An operator's: R, T, tensors, gradients, states.
  void step_of(const std::string& variable, const std::string& value, const onnx::NodeProto& node) {
    const auto row = std::ranges::find_if(
        rows(), [&](const OptimizerRow& r) { return node.op_type() == r.op && r.own == (node.domain() == own_training); });
    if (row == rows().end()) refuse(node, "is no optimizer that tandem follows");
    const int states = static_cast<int>(row->states.size()), n = (node.input_size() - 2) / (2 + states);
    const auto at = static_cast<int>(std::ranges::find(node.output(), value) - node.output().begin());
    if (n < 1 || node.input_size() != 2 + n * (2 + states) || at >= n * (1 + states))
      refuse(node, "has ", node.input_size(), " inputs and ", node.output_size(), " outputs, which do not go together");
    const int tensor = at % n, kind = at / n;
    const std::string& taken = in(node, 2 + (kind == 0 ? 0 : 1 + kind) * n + tensor);
    if (taken != variable) refuse(node, "gives '", variable, "' a new value, but reads '", taken, "' in its place");
    const std::string& weight = in(node, 2 + tensor);
    if (kind > 0) return state(row->states[static_cast<std::size_t>(kind - 1)], weight, variable);
    if (!is_gradient_of(in(node, 2 + n + tensor), weight))
      refuse(node, "takes '", in(node, 2 + n + tensor), "' for the gradient of '", weight, "', which is none of a Gradient's");
    for (int k = 0; k < states; ++k)
      if (!updates_.contains(in(node, 2 + (2 + k) * n + tensor)))
        refuse(node, "keeps '", in(node, 2 + (2 + k) * n + tensor), "' from step to step, which no update_binding updates");
    std::map<std::string, double> numbers;
    for (const Number& number : row->numbers) numbers[number.name] = real(node, number.attribute, number.absent);
    if (row->optimizer == std::string("sgd")) momentum(node, numbers);
    if (row->optimizer == std::string("adam") && !row->own) {
      numbers["epsilon_hat"] = 1;
      if (real(node, "norm_coefficient_post", 0) != 0) refuse(node, "has norm_coefficient_post, which tandem has not");
    }
    same(node, row->optimizer, numbers);
    TrainingStep::Trained trained{.weight = weight, .weight_decay = real(node, "norm_coefficient", 0)};
    rate(node, in(node, 0), trained.rate);
    step_.trained.push_back(std::move(trained));
    const bool matters = !row->counts || (numbers.contains(row->counts) && numbers.at(row->counts) != 0);
    if (matters) count(node, in(node, 1), row->first);
  }

  static void momentum(const onnx::NodeProto& node, std::map<std::string, double>& numbers) {
    const double beta = real(node, "beta", 1);
    const bool nesterov = text(node, "mode", "standard") == "nesterov" && numbers["momentum"] != 0;
    if (beta != 1 && (nesterov || numbers["momentum"] == 0))
      refuse(node, "has the beta ", beta, nesterov ? " with Nesterov's momentum" : " without a momentum", ", which tandem has not");
    if (nesterov) numbers["nesterov"] = 1;
    if (beta != 1) numbers["dampening"] = 1 - beta;
  }

  void state(const char* kind, const std::string& weight, const std::string& variable) {
    const std::optional<Tensor> tensor = tensor_of(*held_.at(variable), external_);
    if (tensor) step_.states[concat(kind, '/', weight)] = *tensor;
    step_.variables[concat(kind, '/', weight)] = variable;
  }

  void count(const onnx::NodeProto& node, const std::string& t, int first) {
    const std::optional<double> from = number(t);
    if (!from) refuse(node, "has the step's number '", t, "', which is computed");
    if (count_ && *count_ != *from) refuse(node, "is at step ", *from, ", another at step ", *count_);
    count_ = *from;
    counts_[t] = &node;
    step_.steps_before = static_cast<std::int64_t>(*from) - first;
  }

  void check_counts() const {
    for (const auto& [t, node] : counts_)
      if (!counted_.contains(t)) refuse(*node, "has the step's number '", t, "', to which no update_binding adds one");
  }

  // The loss.

  bool is_value(const std::string& name) const { return of_model_.contains(name); }  // that the model computes
  bool is_label(const std::string& name) const { return inputs_.contains(name) && !held_.contains(name); }

  void take(const char* loss, const std::string& on, const std::string& label) {
    step_.loss = loss;
    step_.loss_on = on;
    step_.label = label;
  }

  void loss() {
    const onnx::NodeProto* node = maker(y_);
    if (!node) fail("training_info: the loss '", y_, "' is computed by no node");
    if (of_model_.contains(y_) || !(cross_entropy(*node) || mean(*node))) take("output", y_, "");
    if (step_.loss != "output") return;
    const bool weighted = node->input_size() > 2 && !in(node, 2).empty();
    const bool of_classes = is(node, "SoftmaxCrossEntropyLoss") || is(node, "NegativeLogLikelihoodLoss");
    step_.mean_of_samples =
        (of_classes && !weighted && text(*node, "reduction", "mean") == "mean" && !has(*node, "ignore_index")) || is_mean(*node);
  }

  static bool has(const onnx::NodeProto& node, std::string_view name) {
    return std::ranges::any_of(node.attribute(), [&](const auto& a) { return a.name() == name; });
  }
  static bool is_mean(const onnx::NodeProto& node) {
    return is(&node, "ReduceMean") && !has(node, "axes") && (node.input_size() == 1 || in(node, 1).empty()) &&
           integer(node, "noop_with_empty_axes", 0) == 0;
  }

  bool cross_entropy(const onnx::NodeProto& node) {
    const bool nll = is(&node, "NegativeLogLikelihoodLoss");
    if ((!nll && !is(&node, "SoftmaxCrossEntropyLoss")) || text(node, "reduction", "mean") != "mean" || !is_label(in(node, 1)) ||
        (node.input_size() > 2 && !in(node, 2).empty()))
      return false;
    std::string scores = in(node, 0);
    const onnx::NodeProto* before = maker(scores);
    if (nll) {
      if (!is(before, "LogSoftmax")) return false;
      if (!is_value(scores)) scores = in(before, 0);
    } else if (is(before, "Softmax")) {
      return false;  // a softmax of probabilities, where softmax-cross-entropy would take their logarithms
    }
    if (!is_value(scores)) return false;
    take("softmax-cross-entropy", scores, in(node, 1));
    step_.class_axis = true;
    if (has(node, "ignore_index")) step_.ignore_index = integer(node, "ignore_index", 0);
    return true;
  }

  // x and t of an operator on both, in either order where it has none.
  bool pair(const onnx::NodeProto* node, const char* op, bool turns) {
    if (!is(node, op)) return false;
    for (const int i : {0, 1}) {
      if (i == 1 && !turns) break;
      if (!is_value(in(node, i)) || !is_label(in(node, 1 - i))) continue;
      x_ = in(node, i);
      t_ = in(node, 1 - i);
      return true;
    }
    return false;
  }

  bool mean(const onnx::NodeProto& node) {
    if (!is_mean(node)) return false;
    const onnx::NodeProto* of = maker(in(node, 0));
    if (is(of, "Mul") && in(of, 0) == in(of, 1) && pair(maker(in(of, 0)), "Sub", true)) return take("mse", x_, t_), true;
    if (is(of, "Pow") && is_number(in(of, 1), 2) && pair(maker(in(of, 0)), "Sub", true)) return take("mse", x_, t_), true;
    if (is(of, "Abs") && pair(maker(in(of, 0)), "Sub", true)) return take("l1", x_, t_), true;
    if (!is(of, "Sub") || !is(maker(in(of, 0)), "Softplus") || !pair(maker(in(of, 1)), "Mul", true) || in(maker(in(of, 0)), 0) != x_)
      return false;
    const onnx::NodeProto* before = maker(x_);
    if (is(before, "Sigmoid")) return false;  // the same with probabilities
    return take("binary-cross-entropy", x_, t_), true;
  }

  void settle() {
    if (step_.optimizer == "sgd" && step_.numbers.contains("momentum") && step_.numbers["momentum"] == 0) {
      step_.numbers.erase("momentum");
      step_.states.clear();
      step_.variables.clear();
    }
    std::string numbers;
    for (const auto& [name, value] : step_.numbers) numbers += concat(' ', name, '=', value);
    step_.line =
        concat("the file's training_info: loss ", step_.loss, " on '", step_.loss_on, "', ", step_.optimizer, numbers, " with rate ",
               step_.learning_rate, " on ", step_.trained.size(), step_.trained.size() == 1 ? " weight" : " weights",
               step_.steps_before > 0 ? concat(", which has taken ", step_.steps_before, " steps") : "");
  }

    ExternalData& external_;
  std::map<std::string, const onnx::NodeProto*> makers_;
  std::map<std::string, const onnx::TensorProto*> held_;
  std::set<std::string> inputs_, of_model_;
  std::map<std::string, std::string> updates_;  // variable, its new value
  std::set<std::string> counted_;               // variables to which each step adds 1
  std::map<std::string, const onnx::NodeProto*> counts_;
  std::optional<double> count_;
  std::string y_, x_, t_;
  int rates_ = 0;
  TrainingStep step_;
};

}  // namespace

std::optional<TrainingStep> training_step_of(const onnx::ModelProto& model, ExternalData& external) {
  const onnx::TrainingInfoProto* only = nullptr;
  for (const auto& info : model.training_info()) {
    if (info.update_binding_size() == 0) continue;
    if (only)
      fail("training_info: the file has several algorithms, each of which goes by what the one before it has updated; tandem follows one; ",
           option("loss"), " and ", option("optimizer"), ", both given, train the model without them");
    only = &info;
  }
  if (!only) return std::nullopt;
  return Reader(model, *only, external).read();
}

}  // namespace tandem
