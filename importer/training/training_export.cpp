#include "importer/training/training_export.h"

#include <algorithm>
#include <functional>
#include <set>

#include "base/error.h"
#include "base/option.h"
#include "importer/message/limits.h"
#include "importer/message/tensor_data.h"
#include "tandem_onnx.pb.h"

namespace tandem {
namespace {

constexpr const char* onnx_training = "ai.onnx.preview.training";
constexpr const char* own_training = "tandem.training";  // a caller may find its functions here, whatever evaluates them
constexpr int float_type = onnx::TensorProto::FLOAT, double_type = onnx::TensorProto::DOUBLE, int64_type = onnx::TensorProto::INT64;
constexpr std::int64_t oldest_loss_opset = 12;  // SoftmaxCrossEntropyLoss
constexpr int functions_ir = 8, training_ir = 7;

using Names = std::vector<std::string>;

void set(onnx::NodeProto& node, const char* name, float value) {
  auto& a = *node.add_attribute();
  a.set_name(name);
  a.set_type(onnx::AttributeProto::FLOAT);
  a.set_f(value);
}
void set(onnx::NodeProto& node, const char* name, std::int64_t value) {
  auto& a = *node.add_attribute();
  a.set_name(name);
  a.set_type(onnx::AttributeProto::INT);
  a.set_i(value);
}
void set(onnx::NodeProto& node, const char* name, const std::string& value) {
  auto& a = *node.add_attribute();
  a.set_name(name);
  a.set_type(onnx::AttributeProto::STRING);
  a.set_s(value);
}
void set(onnx::NodeProto& node, const char* name, const Names& values) {
  auto& a = *node.add_attribute();
  a.set_name(name);
  a.set_type(onnx::AttributeProto::STRINGS);
  for (const std::string& v : values) a.add_strings(v);
}

// Nodes of a graph or a function, one for each operation; each gives the name of its result.
template <class Owner>
class Emitter {
 public:
  Emitter(Owner& owner, std::string prefix) : owner_(owner), prefix_(std::move(prefix)) {}
  onnx::NodeProto& node(const char* op, const Names& inputs, const Names& outputs, const char* domain = "") {
    onnx::NodeProto& n = *owner_.add_node();
    n.set_op_type(op);
    n.set_domain(domain);
    n.set_name(concat(prefix_, op, '_', owner_.node_size()));
    for (const std::string& in : inputs) n.add_input(in);
    for (const std::string& out : outputs) n.add_output(out);
    return n;
  }
  std::string operator()(const char* op, const Names& inputs, std::string result = {}) {
    if (result.empty()) result = concat(prefix_, "value_", owner_.node_size());
    node(op, inputs, {result});
    return result;
  }
  std::string cast(const std::string& x, int type) {
    const std::string result = (*this)("Cast", {x});
    set(*owner_.mutable_node(owner_.node_size() - 1), "to", std::int64_t{type});
    return result;
  }
  std::string number(float value) {
    const std::string result = concat(prefix_, "value_", owner_.node_size());
    set(node("Constant", {}, {result}), "value_float", value);
    return result;
  }
  // Of a function: the caller's attribute.
  std::string attribute(const char* name) {
    const std::string result = concat(prefix_, name);
    auto& a = *node("Constant", {}, {result}).add_attribute();
    a.set_name("value_float");
    a.set_type(onnx::AttributeProto::FLOAT);
    a.set_ref_attr_name(name);
    return result;
  }

 private:
  Owner& owner_;
  std::string prefix_;
};

// Adam as PyTorch steps: x - R/(1-αᵀ) · v'/(√(h'/(1-βᵀ)) + ε); AdamW's decay is x·(1 - R·norm_coefficient) in place of the gradient's.
void adam_body(onnx::FunctionProto& f, bool decoupled) {
  Emitter e(f, "");
  const std::string one = e.cast(e.number(1), double_type);
  const std::string norm = e.attribute("norm_coefficient"), alpha = e.cast(e.attribute("alpha"), double_type),
                    beta = e.cast(e.attribute("beta"), double_type), t = e.cast("T", double_type);
  const auto single = [&](const std::string& x) { return e.cast(x, float_type); };
  const std::string g = decoupled ? "G" : e("Add", {e("Mul", {"X", norm}), "G"});
  const std::string v = e("Add", {e("Mul", {"V", single(alpha)}), e("Mul", {g, single(e("Sub", {one, alpha}))})}, "V_new");
  const std::string h = e("Add", {e("Mul", {"H", single(beta)}), e("Mul", {e("Mul", {g, g}), single(e("Sub", {one, beta}))})}, "H_new");
  const auto correction = [&](const std::string& base) { return e("Sub", {one, e("Pow", {base, t})}); };
  const std::string root = e("Add", {e("Sqrt", {e("Div", {h, single(correction(beta))})}), e.attribute("epsilon")});
  const std::string rate = single(e("Div", {e.cast("R", double_type), correction(alpha)}));
  const std::string x = decoupled ? e("Mul", {"X", single(e("Sub", {one, e.cast(e("Mul", {"R", norm}), double_type)}))}) : "X";
  e("Sub", {x, e("Mul", {rate, e("Div", {v, root})})}, "X_new");
}

void rmsprop_body(onnx::FunctionProto& f) {
  Emitter e(f, "");
  const std::string rho = e.attribute("alpha"), rest = e("Sub", {e.number(1), rho});
  const std::string g = e("Add", {e("Mul", {"X", e.attribute("norm_coefficient")}), "G"});
  const std::string h = e("Add", {e("Mul", {"H", rho}), e("Mul", {e("Mul", {g, g}), rest})}, "H_new");
  e("Sub", {"X", e("Mul", {"R", e("Div", {g, e("Add", {e("Sqrt", {h}), e.attribute("epsilon")})})})}, "X_new");
}

struct Attribute {
  const char* name;
  const char* number;  // of TrainingStep::numbers
};
struct Row {
  const char* optimizer;
  bool hat;  // with epsilon_hat
  const char* op;
  void (*body)(onnx::FunctionProto&);  // null: ONNX's own operator
  Names operands;                      // states, by the names that the function's body has them by
  std::vector<Attribute> attributes;   // beside norm_coefficient
  int first;                           // T of the first step
};
const std::vector<Row>& rows() {
  static const std::vector<Row> list{
      {"sgd", false, "Momentum", nullptr, {"V"}, {{"alpha", "momentum"}}, 0},
      {"adagrad", false, "Adagrad", nullptr, {"H"}, {{"epsilon", "epsilon"}, {"decay_factor", "rate_decay"}}, 0},
      {"adam", true, "Adam", nullptr, {"V", "H"}, {{"alpha", "beta1"}, {"beta", "beta2"}, {"epsilon", "epsilon"}}, 1},
      {"adam", false, "Adam", [](onnx::FunctionProto& f) { adam_body(f, false); }, {"V", "H"}, {{"alpha", "beta1"}, {"beta", "beta2"}, {"epsilon", "epsilon"}}, 1},
      {"adamw", false, "AdamW", [](onnx::FunctionProto& f) { adam_body(f, true); }, {"V", "H"}, {{"alpha", "beta1"}, {"beta", "beta2"}, {"epsilon", "epsilon"}}, 1},
      {"rmsprop", false, "RMSprop", rmsprop_body, {"H"}, {{"alpha", "rho"}, {"epsilon", "epsilon"}}, 0},
  };
  return list;
}

class Writer {
 public:
  Writer(onnx::ModelProto& model, const TrainingStep& step)
      : model_(model),
        step_(step),
        algorithm_(*info_.mutable_algorithm()),
        initialization_(*info_.mutable_initialization()),
        e_(algorithm_, prefix) {
    for (const auto& tensor : model.graph().initializer()) held_[tensor.name()] = &tensor;
    for (const auto& input : model.graph().input()) values_.insert(input.name());
    for (const auto& node : model.graph().node()) values_.insert(node.output().begin(), node.output().end());
  }

  void run() {
    const auto taken = std::ranges::find_if(values_, [](const std::string& name) { return name.starts_with(prefix); });
    if (taken != values_.end()) refuse("the model has a value '", *taken, "', which would be taken for the step's");
    algorithm_.set_name("training_step");
    initialization_.set_name("training_start");
    row_ = find_row();
    import(onnx_training, 1);
    if (row_ && row_->body) function();
    loss();
    gradients();
    for (const TrainingStep::Trained& t : step_.trained) update(t);
    if (row_) count();
    model_.set_ir_version(std::max<std::int64_t>(model_.ir_version(), row_ && row_->body ? functions_ir : training_ir));
    model_.clear_training_info();
    *model_.add_training_info() = std::move(info_);
  }

 private:
  static constexpr const char* prefix = "training/";

  template <class... Parts>
  [[noreturn]] static void refuse(const Parts&... parts) {
    fail(ExitCode::usage, option("export_training_info"), ": ", parts...);
  }

  double number(const char* name) const {
    const auto it = step_.numbers.find(name);
    return it == step_.numbers.end() ? 0 : it->second;
  }

  // Null: plain arithmetic.
  const Row* find_row() const {
    if (step_.optimizer == "sgd" && number("momentum") == 0) return nullptr;
    for (const Row& row : rows())
      if (row.optimizer == step_.optimizer && row.hat == (number("epsilon_hat") != 0)) return &row;
    refuse("optimizer ", step_.optimizer, number("epsilon_hat") != 0 ? " with epsilon_hat" : "",
           " is not written; sgd, momentum, nesterov, adagrad, adam, adamw and rmsprop are");
  }

  void import(const char* domain, std::int64_t version) {
    for (const auto& known : model_.opset_import())
      if (known.domain() == domain) return;
    auto& made = *model_.add_opset_import();
    made.set_domain(domain);
    made.set_version(version);
  }
  std::int64_t opset() const {
    for (const auto& known : model_.opset_import())
      if (known.domain().empty() || known.domain() == "ai.onnx") return known.version();
    return 0;
  }

  void function() {
    import(own_training, 1);
    auto& functions = *model_.mutable_functions();
    for (int i = functions.size(); i-- > 0;)
      if (functions[i].domain() == own_training && functions[i].name() == row_->op) functions.DeleteSubrange(i, 1);
    onnx::FunctionProto& f = *model_.add_functions();
    f.set_domain(own_training);
    f.set_name(row_->op);
    for (const char* in : {"R", "T", "X", "G"}) f.add_input(in);
    f.add_output("X_new");
    for (const std::string& state : row_->operands) {
      f.add_input(state);
      f.add_output(state + "_new");
    }
    f.add_attribute("norm_coefficient");
    for (const Attribute& a : row_->attributes) f.add_attribute(a.name);
    auto& made = *f.add_opset_import();
    made.set_domain("");
    made.set_version(opset());
    row_->body(f);
  }

  static void type(onnx::ValueInfoProto& info, const std::string& name, int element, const std::vector<std::int64_t>* dims) {
    info.set_name(name);
    auto& tensor = *info.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(element);
    if (!dims) return;
    tensor.mutable_shape();
    for (const std::int64_t d : *dims) {
      auto& dim = *tensor.mutable_shape()->add_dim();
      if (d < 0) dim.set_dim_param("batch");
      else dim.set_dim_value(d);
    }
  }

  void loss() {
    if (!values_.contains(step_.loss_on))
      refuse("the loss is computed on '", step_.loss_on, "', which no node of the model's own graph gives");
    const std::string label = concat(prefix, "labels"), value = concat(prefix, "loss"), &x = step_.loss_on;
    std::vector<std::int64_t> dims{-1};
    for (const std::int64_t d : step_.label_sample->shape) dims.push_back(d);
    type(*algorithm_.add_input(), label, static_cast<int>(step_.label_sample->dtype), &dims);
    const auto mean = [&](const std::string& of) { set(e_.node("ReduceMean", {of}, {value}), "keepdims", std::int64_t{0}); };
    if (step_.loss == "softmax-cross-entropy") {
      if (opset() < oldest_loss_opset) refuse("SoftmaxCrossEntropyLoss came with opset ", oldest_loss_opset, ", the model has ", opset());
      onnx::NodeProto& node = e_.node("SoftmaxCrossEntropyLoss", {x, label}, {value});
      if (step_.ignore_index) set(node, "ignore_index", *step_.ignore_index);
    } else if (step_.loss == "mse") {
      const std::string d = e_("Sub", {x, label});
      mean(e_("Mul", {d, d}));
    } else if (step_.loss == "l1") {
      mean(e_("Abs", {e_("Sub", {x, label})}));
    } else if (step_.loss == "binary-cross-entropy") {
      mean(e_("Sub", {e_("Softplus", {x}), e_("Mul", {x, label})}));
    } else {
      refuse("loss ", step_.loss, " is not written; softmax-cross-entropy, mse, l1 and binary-cross-entropy are");
    }
    const std::vector<std::int64_t> scalar;
    type(*algorithm_.add_output(), value, float_type, &scalar);
    label_ = label;
    loss_ = value;
  }

  void gradients() {
    Names xs, zs = step_.inputs, outputs;
    for (const TrainingStep::Trained& t : step_.trained) {
      const auto held = held_.find(t.weight);
      if (held == held_.end()) refuse("the weight '", t.weight, "' is no initializer of the model's own graph");
      if (held->second->data_type() != float_type) refuse("the weight '", t.weight, "' is not float32");
      xs.push_back(t.weight);
      outputs.push_back(concat(prefix, "gradient/", t.weight));
    }
    zs.push_back(label_);
    Names inputs = xs;
    inputs.insert(inputs.end(), zs.begin(), zs.end());
    onnx::NodeProto& node = e_.node("Gradient", inputs, outputs, onnx_training);
    set(node, "xs", xs);
    set(node, "zs", zs);
    set(node, "y", loss_);
  }

  std::string rate(double factor) {
    const std::string name = factor == 1 ? concat(prefix, "rate") : concat(prefix, "rate_times_", factor);
    if (rates_.insert(name).second) initializer(name, Tensor::scalar(static_cast<float>(step_.learning_rate * factor)));
    return name;
  }
  void initializer(const std::string& name, const Tensor& value) {
    onnx::TensorProto& proto = *algorithm_.add_initializer();
    proto.set_name(name);
    proto.set_data_type(static_cast<int>(value.dtype()));
    for (const std::int64_t d : value.shape()) proto.add_dims(d);
    store(value, DataForm::raw, proto);
  }
  void bind(const std::string& variable, const std::string& value, int element, const std::vector<std::int64_t>& dims) {
    auto& b = *info_.add_update_binding();
    b.set_key(variable);
    b.set_value(value);
    type(*algorithm_.add_output(), value, element, &dims);
  }
  // What the initialization makes of a variable: zero, or the first step's number.
  void start(const std::string& variable, const Tensor& value) {
    onnx::NodeProto& node = *initialization_.add_node();
    const std::string name = concat("start/", variable);
    node.set_op_type(value.elements() == 1 ? "Constant" : "ConstantOfShape");
    node.set_name(name);
    node.add_output(name);
    if (value.elements() == 1) {
      auto& a = *node.add_attribute();
      a.set_name("value");
      a.set_type(onnx::AttributeProto::TENSOR);
      a.mutable_t()->set_data_type(static_cast<int>(value.dtype()));
      for (const std::int64_t d : value.shape()) a.mutable_t()->add_dims(d);
      store(value, DataForm::raw, *a.mutable_t());
    } else {
      node.add_input(name + "/shape");
      onnx::TensorProto& shape = *initialization_.add_initializer();
      shape.set_name(name + "/shape");
      shape.set_data_type(int64_type);
      shape.add_dims(value.shape().rank());
      store(Tensor::of<std::int64_t>(Shape{value.shape().rank()}, value.shape().dims), DataForm::raw, shape);
    }
    const std::vector<std::int64_t> dims(value.shape().begin(), value.shape().end());
    type(*initialization_.add_output(), name, static_cast<int>(value.dtype()), &dims);
    auto& b = *info_.add_initialization_binding();
    b.set_key(variable);
    b.set_value(name);
  }

  void update(const TrainingStep::Trained& t) {
    const std::string &w = t.weight, g = concat(prefix, "gradient/", w), now = concat(prefix, "new/", w);
    const auto& proto = *held_.at(w);
    const std::vector<std::int64_t> dims(proto.dims().begin(), proto.dims().end());
    bind(w, now, float_type, dims);
    if (!row_) {
      const std::string slope = t.weight_decay == 0 ? g : e_("Add", {g, e_("Mul", {w, e_.number(static_cast<float>(t.weight_decay))})});
      e_("Sub", {w, e_("Mul", {rate(t.rate), slope})}, now);
      return;
    }
    Names inputs{rate(t.rate), concat(prefix, "step"), w, g}, outputs{now};
    std::size_t given = 0;
    for (const auto& [name, tensor] : step_.states) {
      if (!name.ends_with(concat('/', w)) || name.size() != name.find('/') + 1 + w.size()) continue;
      const std::string variable = concat(prefix, name);
      initializer(variable, tensor);
      start(variable, Tensor(tensor.type()));
      inputs.push_back(variable);
      outputs.push_back(concat(prefix, "updated/", name));  // a weight may go by the state's name
      bind(variable, outputs.back(), float_type, dims);
      ++given;
    }
    if (given != row_->operands.size()) refuse("the weight '", w, "' has ", given, " states, expected ", row_->operands.size());
    onnx::NodeProto& node = e_.node(row_->op, inputs, outputs, row_->body ? own_training : onnx_training);
    set(node, "norm_coefficient", static_cast<float>(t.weight_decay));
    for (const Attribute& a : row_->attributes) set(node, a.name, static_cast<float>(number(a.number)));
    if (step_.optimizer != "sgd") return;
    set(node, "beta", static_cast<float>(1 - number("dampening")));
    set(node, "mode", std::string(number("nesterov") != 0 ? "nesterov" : "standard"));
  }

  void count() {
    const std::string t = concat(prefix, "step"), one = concat(prefix, "one"), now = concat(prefix, "next_step");
    initializer(t, Tensor::scalar(step_.steps_before + row_->first));
    initializer(one, Tensor::scalar(std::int64_t{1}));
    e_("Add", {t, one}, now);
    bind(t, now, int64_type, {});
    start(t, Tensor::scalar(std::int64_t{row_->first}));
  }

  onnx::ModelProto& model_;
  const TrainingStep& step_;
  onnx::TrainingInfoProto info_;
  onnx::GraphProto &algorithm_, &initialization_;
  Emitter<onnx::GraphProto> e_;
  const Row* row_ = nullptr;
  std::map<std::string, const onnx::TensorProto*> held_;
  std::set<std::string> values_, rates_;
  std::string label_, loss_;
};

}  // namespace

void write_training_info(onnx::ModelProto& model, const TrainingStep& step) { Writer(model, step).run(); }

}  // namespace tandem
