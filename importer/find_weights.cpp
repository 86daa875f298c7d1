// Which of the model's float tensors are weights. In this order: what the user says; what the file says; what the operand is
// that the tensor stands in; its values; and where nothing says otherwise, an initializer that the loss's gradient reaches is
// trained. docs/weights.md tells it in plain words.
#include <algorithm>
#include <cmath>

#include "graph/option.h"
#include "graph/pattern.h"
#include "importer/held_tensors.h"
#include "importer/looked_up.h"
#include "importer/operand_uses.h"
#include "importer/tensor_data.h"
#include "importer/tensor_names.h"
#include "importer/tie_weights.h"
#include "importer/value_tests.h"

namespace tandem {
namespace {

struct Verdict {
  Holding holding = Holding::constant;
  std::string reason;
  bool certain = true;
  bool asked = false;  // an option says so
};
using Answer = std::optional<Verdict>;
constexpr bool by_rule = false;

class WeightFinder {
 public:
  WeightFinder(FlatModel& model, const WeightOptions& options)
      : model_(model), options_(options), uses_(uses_of(model)), producers_(model.symbols.size()), held_(held_tensors(model)) {
    states_kinds_ = std::any_of(model.stated.begin(), model.stated.end(), [](Stated s) { return s != Stated::nothing && s != Stated::updated; });
    for (const FlatNode& node : model.main.nodes)
      for (const Symbol out : node.outputs)
        if (out.present()) producers_[static_cast<std::size_t>(out.index)] = &node;
    if (model.signature.present()) {
      may_be_parameter_.resize(model.symbols.size());
      for (const FlatNode& node : model.main.nodes)
        if (!node.proto || model.signature.may_read_parameter(*node.proto))
          for (const Symbol in : node.inputs)
            if (in.present()) may_be_parameter_[static_cast<std::size_t>(in.index)] = true;
    }
  }

  void run() {
    // Where filters and matrices stand in Constant nodes, and none in an initializer, so do the model's weights.
    bool in_nodes = false, in_initializers = false;
    for (const Held& held : held_) {
      if (!is_large(uses(held).strongest())) continue;
      in_nodes = in_nodes || held.source == Source::node;
      const bool made_anew = !held.data && matches_any(name(held), options_.trainable);  // a new head, which is an initializer in any model
      in_initializers = in_initializers || (held.source == Source::initializer && !made_anew);
    }
    nodes_hold_weights_ = in_nodes && !in_initializers;
    model_.held.assign(model_.symbols.size(), -1);
    for (const Held& held : held_) {
      Verdict v = judge(held);
      if (computed(held) && v.holding == Holding::trained && !matches_any(name(held), options_.trainable)) replacing_.push_back(&held);
      if (uses(held).has(OperandRole::class_weights) && v.holding == Holding::constant)
        model_.warnings.push_back(concat("'", name(held), "' weighs the classes of a loss: it is a constant and not trained",
                                         used_as_weight(held) ? ", although it is used as a weight too" : ""));
      model_.held[static_cast<std::size_t>(held.symbol.index)] = static_cast<int>(model_.tensors.size());
      model_.tensors.push_back({name(held), held.type, v.holding, std::move(v.reason), v.certain, v.asked});
    }
    for (const FlatInitializer& i : model_.unread)
      if (is_float(i.type.dtype)) model_.tensors.push_back({model_.name(i.symbol), i.type, Holding::constant, "no output of the model depends on it"});
    warn_of_absorbed();
  }

 private:
  const std::string& name(const Held& held) const { return model_.name(held.symbol); }
  const Uses& uses(const Held& held) const { return uses_[static_cast<std::size_t>(held.symbol.index)]; }
  Stated stated(const Held& held) const { return model_.stated[static_cast<std::size_t>(held.symbol.index)]; }
  static bool is_large(OperandRole role) {
    return role == OperandRole::filter || role == OperandRole::transposed_filter || role == OperandRole::matrix || role == OperandRole::embedding;
  }
  static bool lone(const Held& held) { return held.type.shape.elements() == 1; }
  bool used_as_weight(const Held& held) const {
    for (int r = 0; r <= static_cast<int>(OperandRole::index); ++r)
      if (uses(held).has(static_cast<OperandRole>(r)) && is_weight(static_cast<OperandRole>(r))) return true;
    return false;
  }
  bool statistic(const Held& held) const {
    return is_statistic(uses(held).strongest()) || (!lone(held) && (uses(held).written_out || is_statistics_name(name(held))));
  }
  // What was computed from parameters may have only their shapes: zeros, ones, a number. Of a single value that is 0 or 1 alone.
  bool alike(const Held& held) const {
    if (!held.data || !all_alike(comparable(*held.data))) return false;
    return !lone(held) || !noted(held) || held.data->to_doubles()[0] == 0 || held.data->to_doubles()[0] == 1;
  }
  static Tensor comparable(const Tensor& t) { return is_half(t.dtype()) ? t.cast(DType::float32) : t; }
  static double rounding(const Held& held) { return held.type.dtype == DType::float16 ? 0x1p-11 : held.type.dtype == DType::bfloat16 ? 0x1p-8 : 0; }
  // The exporter made it: a file that names its parameters does not name this one.
  bool unnamed(const Held& held) const { return states_kinds_ && stated(held) == Stated::nothing; }

  // The exporter computed it: of the parameters that the file's signature lists it is none, nor one that the call of a node that reads it names.
  bool computed(const Held& held) const {
    if (held.source != Source::initializer || !model_.signature.present() || !unnamed(held) || model_.signature.names(name(held))) return false;
    const Uses::Reader& reader = uses(held).reader;
    return noted(held) || (!may_be_parameter_[static_cast<std::size_t>(held.symbol.index)] && reader.node && reader.node->proto &&
                           !model_.signature.may_read_parameter(*reader.node->proto));
  }

  // The exporter notes that parameters went into it.
  bool noted(const Held& held) const {
    const std::vector<std::string>* from = computed_from(held);
    return from && !from->empty();
  }

  const std::vector<std::string>* computed_from(const Held& held) const {
    return held.source == Source::initializer ? model_.signature.computed_from(name(held)) : nullptr;
  }

  // A matrix or filter that a product reads turned: it trains as its parameter would.
  bool rearranged(const Held& held) const {
    const Uses::Reader& reader = uses(held).reader;
    return is_large(uses(held).strongest()) && reader.node && reader.node->proto && model_.signature.rearranged(name(held), *reader.node->proto);
  }

  // What the exporter computed from parameters, by its notes of what went in; else what may have come of those that are missing.
  void warn_of_absorbed() {
    const auto list = [](const std::vector<std::string>& names) {
      std::string text;
      for (std::size_t i = 0; i < std::min<std::size_t>(names.size(), 4); ++i) text += concat(i ? ", " : "", names[i]);
      return names.size() > 4 ? concat(text, " and ", names.size() - 4, " more") : text;
    };
    const auto quoted = [](std::vector<std::string> names) {
      for (std::string& n : names) n = concat('\'', n, '\'');
      return names;
    };
    std::vector<std::string> known, unknown;
    for (const Held* held : replacing_) {
      const std::vector<std::string>* from = computed_from(*held);
      if (from && (copy_of_parameter(model_, held->symbol) || looked_up(model_, held->symbol) || rearranged(*held))) continue;
      if (from && !from->empty()) known.push_back(concat('\'', name(*held), "' from ", list(quoted(*from))));
      else unknown.push_back(name(*held));
    }
    if (!known.empty()) model_.warnings.push_back(concat("the exporter computed ", list(known), ": what it computed is trained as it stands", Signature::way_out));
    const std::vector<std::string>& absorbed = model_.signature.absorbed();
    if (absorbed.empty() || unknown.empty()) return;
    model_.warnings.push_back(concat("the model's parameters ", list(quoted(absorbed)), " stand nowhere in the file: it does not use them, or its exporter computed with them, and ",
                                     list(quoted(unknown)), ", what may have come of it, is trained as it stands", Signature::way_out));
  }

  // The rules.

  Verdict judge(const Held& held) const {
    for (const auto rule : {&WeightFinder::said_by_user, &WeightFinder::said_by_file, &WeightFinder::said_by_place, &WeightFinder::said_by_note, &WeightFinder::said_by_role,
                            &WeightFinder::said_by_signature, &WeightFinder::said_by_values, &WeightFinder::said_of_number})
      if (Answer answer = (this->*rule)(held)) return std::move(*answer);
    if (noted(held) && !alike(held)) {
      const std::vector<std::string>& from = *computed_from(held);
      return {Holding::trained, concat("the file: computed from '", from.front(), from.size() > 1 ? "' and others" : "'")};
    }
    const bool expected = is_weights_name(name(held)) || bias_of_product(held);
    return {Holding::trained, concat("the gradient reaches it: ", text_of(uses(held).reader)), expected};
  }

  Answer said_by_user(const Held& held) const {
    const auto pattern_of = [&](const std::vector<std::string>& patterns) {
      return std::find_if(patterns.begin(), patterns.end(), [&](const std::string& p) { return matches_any(name(held), {p}); });
    };
    const auto trainable = pattern_of(options_.trainable), constant = pattern_of(options_.constant);
    if (trainable == options_.trainable.end()) {
      if (constant == options_.constant.end()) return std::nullopt;
      return Verdict{Holding::constant, concat(option("constant"), " ", *constant), true, true};
    }
    const auto refuse = [&](const auto&... why) {
      fail(ExitCode::usage, option("trainable"), " '", *trainable, "': '", name(held), "' ", why...);
    };
    if (constant != options_.constant.end()) refuse("is named by ", option("constant"), " '", *constant, "' too");
    if (held.source == Source::inner) refuse("stands in a function or a subgraph: only tensors of the model's own graph can be trained");
    if (is_statistic(uses(held).strongest())) refuse("is ", text_of(uses(held).reader), ", a running statistic");
    if (uses(held).has(OperandRole::constant) || uses(held).has(OperandRole::class_weights))
      refuse("is ", text_of(uses(held).reader), ", which must be known when the plan is made");
    return Verdict{Holding::trained, concat(option("trainable"), " ", *trainable), true, true};
  }

  Answer said_by_file(const Held& held) const {
    if (stated(held) == Stated::nothing) return std::nullopt;
    if (stated(held) == Stated::updated && (held.source == Source::inner || statistic(held) || uses(held).has(OperandRole::constant))) return std::nullopt;
    if (stated(held) == Stated::updated) return Verdict{Holding::trained, "the file: training_info updates it"};
    if (stated(held) == Stated::parameter && uses(held).has(OperandRole::constant))
      return Verdict{Holding::constant, concat(text_of(uses(held).reader), " must be known when the plan is made"), by_rule};
    // What is frozen is a PARAMETER, too; a table of sines to which training has done nothing is.
    if (stated(held) == Stated::parameter && uses(held).strongest() == OperandRole::embedding && held.data && is_table(comparable(*held.data), rounding(held)))
      return Verdict{Holding::constant, "the file: PARAMETER, but what is looked up is a table of sines or a progression: frozen", by_rule};
    if (stated(held) == Stated::parameter) return Verdict{Holding::trained, "the file: PARAMETER"};
    if (statistic(held)) return Verdict{Holding::statistic, "the file: BUFFER"};
    return Verdict{Holding::constant, stated(held) == Stated::buffer ? "the file: BUFFER" : "the file: CONSTANT_TENSOR"};
  }

  Answer said_by_place(const Held& held) const {
    if (held.source == Source::inner) return Verdict{Holding::constant, "it stands in a function or a subgraph", lone(held)};
    if (statistic(held))
      return Verdict{Holding::statistic, is_statistic(uses(held).strongest()) && uses(held).direct ? text_of(uses(held).reader)
                                                                                                  : "of a normalization written out"};
    if (uses(held).has(OperandRole::class_weights) || uses(held).has(OperandRole::constant))
      return Verdict{Holding::constant, text_of(uses(held).reader)};
    if (!uses(held).gradient()) return Verdict{Holding::constant, "the gradient does not reach it"};
    return std::nullopt;
  }

  // The note may stand beside a parameter with the same values, which the exporter keeps once.
  Answer said_by_note(const Held& held) const {
    const std::vector<std::string>* from = computed_from(held);
    if (!from || !from->empty() || may_be_parameter_[static_cast<std::size_t>(held.symbol.index)]) return std::nullopt;
    return Verdict{Holding::constant, "the file: computed from no parameter"};
  }

  Answer said_by_signature(const Held& held) const {
    if (!model_.signature.absorbed().empty() || !computed(held) || noted(held)) return std::nullopt;
    return Verdict{Holding::constant, "the file lists all of the model's parameters, and it is none of them", by_rule};
  }

  Answer said_by_role(const Held& held) const {
    const OperandRole role = uses(held).strongest();
    if (!is_weight(role)) return std::nullopt;
    if (unnamed(held) && held.type.shape.rank() == 0)  // zeros or ones that are expanded to a state
      return Verdict{Holding::constant, "the file names its parameters, and this number is none"};
    if (held.source == Source::node && !nodes_hold_weights_)
      return Verdict{Holding::constant, "a Constant node, and the model's weights are initializers", lone(held)};
    // What a recurrence starts from is often written where it is nothing; the bias beside its two matrices never is.
    const Uses::Reader& reader = uses(held).reader;
    const bool recurrent = role == OperandRole::bias && role_of(*reader.node, 2) == OperandRole::matrix, state = recurrent && reader.input > 3;
    if (state && alike(held)) return Verdict{Holding::constant, "the first state of a recurrence, and all its values are alike", by_rule};
    const bool of_normalization = role == OperandRole::scale || (role == OperandRole::bias && !recurrent);
    if (held.source == Source::initializer && unnamed(held) && of_normalization && uses(held).direct && alike(held))
      return Verdict{Holding::constant, "the file names its parameters and not this one, and all its values are alike", by_rule};
    if (role == OperandRole::embedding && held.data && is_table(comparable(*held.data), rounding(held)))
      return Verdict{Holding::constant, "its values are a table of sines or a progression", by_rule};
    if (role == OperandRole::matrix && unnamed(held) && is_transform(held))
      return Verdict{Holding::constant, "the file names its parameters and not this one, and its values are a table of sines or a progression", by_rule};
    const bool vector_of_product = role == OperandRole::matrix && held.type.shape.rank() < 2;
    return Verdict{Holding::trained, text_of(uses(held).reader), !vector_of_product};
  }

  // From here on the tensor is part of a formula.
  Answer said_by_values(const Held& held) const {
    if (held.source == Source::node) {
      const bool weight = nodes_hold_weights_ && !lone(held) && (held.fill || bias_of_product(held));
      if (!weight) return Verdict{Holding::constant, "a Constant node", lone(held)};
    }
    if (!held.data) return std::nullopt;
    const Tensor values = comparable(*held.data);
    if (!all_finite(values)) return Verdict{Holding::constant, "it holds values that are not finite"};
    if (first_state_of_loop(held) && all_alike(values)) return Verdict{Holding::constant, "the first state of a loop, and all its values are alike", by_rule};
    if (imaginary(held) && all_alike(values)) return Verdict{Holding::constant, "the imaginary part of what is transformed, and all its values are alike", by_rule};
    if (is_mask(values)) return Verdict{Holding::constant, "its values are a mask", by_rule};
    if (is_table(values, rounding(held))) return Verdict{Holding::constant, "its values are a table of sines or a progression", by_rule};
    if (is_decay(values, rounding(held))) return Verdict{Holding::constant, "its values are a progression by the distance from a diagonal", by_rule};
    if (unnamed(held) && interpolates(held, values)) return Verdict{Holding::constant, "the file names its parameters and not this one, and it interpolates between what was picked", by_rule};
    if (unnamed(held) && (is_grid(values) || is_lattice(values)))
      return Verdict{Holding::constant, "the file names its parameters and not this one, and its values are whole numbers or a grid of places", by_rule};
    if (!lone(held) && unnamed(held) && is_creations_name(name(held)) && all_alike(values))
      return Verdict{Holding::constant, "the file names its parameters and not this one, and all its values are alike", by_rule};
    return std::nullopt;
  }

  Answer said_of_number(const Held& held) const {
    if (!lone(held) || bias_of_product(held)) return std::nullopt;
    if (unnamed(held) && is_exporters_number(name(held))) return Verdict{Holding::constant, "the file names its parameters, and this number is none"};
    if (!unnamed(held) && is_made_up(name(held))) return Verdict{Holding::constant, "a number of a formula, by its name", by_rule};
    const double value = held.data ? held.data->to_doubles()[0] : 0;
    constexpr double largest_epsilon = 1e-3;
    if (uses(held).epsilon || (uses(held).strongest() == OperandRole::addend && value > 0 && value <= largest_epsilon)) return Verdict{Holding::constant, "an epsilon"};
    const bool usual = value == std::round(value) || std::abs(value) == 0.5;
    if (uses(held).has(OperandRole::exponent) && usual && !is_path(name(held))) return Verdict{Holding::constant, "an exponent", by_rule};
    return std::nullopt;
  }

  // A value that a loop begins with and that its body replaces; what the body hands on as it is may be a weight.
  bool first_state_of_loop(const Held& held) const {
    const Uses::Reader& reader = uses(held).reader;
    if (!reader.node || !reader.node->domain.empty() || reader.node->bodies.size() != 1) return false;
    const FlatBody& body = reader.node->bodies[0];
    const bool loop = reader.node->op == "Loop", scan = reader.node->op == "Scan";
    const std::size_t lengths = scan && reader.node->opset < 9 ? 1 : 0;  // an operand that the body does not take
    const auto input = static_cast<std::size_t>(reader.input) - lengths, first = std::size_t{loop ? 2U : 0U}, output = loop ? input - 1 : input;
    const auto states = scan ? body.inputs.size() - static_cast<std::size_t>(std::clamp<std::int64_t>(
                                                       reader.node->attributes.integer("num_scan_inputs", 0), 0, static_cast<std::int64_t>(body.inputs.size())))
                             : body.inputs.size();
    if ((!loop && !scan) || input < first || input >= states || output >= body.outputs.size()) return false;
    Symbol made = body.outputs[output];
    for (auto node = body.nodes.rbegin(); node != body.nodes.rend(); ++node)  // later nodes first
      if (node->op == "Identity" && node->inputs.size() == 1 && node->outputs.size() == 1 && node->outputs[0] == made) made = node->inputs[0];
    return made != body.inputs[input];
  }

  // A matrix with sines in its columns or its rows, as a Fourier transform and its inverse are.
  bool is_transform(const Held& held) const {
    if (!held.data || held.type.shape.rank() != 2) return false;
    const Tensor values = comparable(*held.data);
    return is_table(values, rounding(held)) || is_table(transposed(values), rounding(held));
  }

  // Joined to the real part right before a Fourier transform.
  bool imaginary(const Held& held) const {
    const Uses& u = uses(held);
    return u.reader.node && u.reader.input == 0 && !u.direct && held.type.shape.rank() > 1 && held.type.shape[held.type.shape.rank() - 1] == 1 &&
           u.reader.node->domain.empty() && u.reader.node->op == "DFT";
  }

  // The shares w, from 0 to 1, of a + (b - a)·w, where a and b were picked from one value by places that are known: an interpolation written out.
  bool interpolates(const Held& held, const Tensor& values) const {
    const Uses::Reader& reader = uses(held).reader;
    if (!reader.node || reader.node->op != "Mul" || !uses(held).direct || reader.node->inputs.size() != 2) return false;
    const FlatNode* difference = producer(reader.node->inputs[static_cast<std::size_t>(1 - reader.input)]);
    if (!difference || difference->op != "Sub" || difference->inputs.size() != 2) return false;
    const Symbol from = picked_from(difference->inputs[0]);
    const std::vector<double> shares = values.to_doubles();
    return from.present() && from == picked_from(difference->inputs[1]) && std::all_of(shares.begin(), shares.end(), [](double s) { return s >= 0 && s <= 1; });
  }

  const FlatNode* producer(Symbol s) const { return s.present() ? producers_[static_cast<std::size_t>(s.index)] : nullptr; }

  // What `s` was picked from by known places; absent where it was not.
  Symbol picked_from(Symbol s) const {
    const FlatNode* node = producer(s);
    while (node && (node->op == "Transpose" || node->op == "Reshape" || node->op == "Unsqueeze" || node->op == "Squeeze") && !node->inputs.empty()) node = producer(node->inputs[0]);
    if (!node || (node->op != "Gather" && node->op != "GatherND") || node->inputs.size() != 2) return {};
    const FlatNode* made = producer(node->inputs[1]);
    const bool known = made ? made->op == "Constant" : std::any_of(model_.main.initializers.begin(), model_.main.initializers.end(),
                                                                   [&](const FlatInitializer& i) { return i.symbol == node->inputs[1]; });
    return known ? node->inputs[0] : Symbol{};
  }

  // A vector added to a product right away.
  bool bias_of_product(const Held& held) const {
    const Uses::Reader& reader = uses(held).reader;
    if (!reader.node || role_of(*reader.node, reader.input) != OperandRole::addend || !uses(held).direct || reader.node->inputs.size() != 2) return false;
    const Symbol other = reader.node->inputs[static_cast<std::size_t>(1 - reader.input)];
    const FlatNode* product = other.present() ? producers_[static_cast<std::size_t>(other.index)] : nullptr;
    const Shape& s = held.type.shape;
    if (!product || s.rank() == 0 || s.elements() != *std::max_element(s.begin(), s.end())) return false;
    const OperandRole right = role_of(*product, 1);
    return right == OperandRole::matrix || right == OperandRole::filter || right == OperandRole::transposed_filter;
  }

  FlatModel& model_;
  const WeightOptions& options_;
  std::vector<Uses> uses_;
  std::vector<const FlatNode*> producers_;
  std::vector<Held> held_;
  std::vector<bool> may_be_parameter_;  // by symbol, of a file with a signature
  std::vector<const Held*> replacing_;  // trained, and computed by the exporter
  bool states_kinds_ = false, nodes_hold_weights_ = false;
};

}  // namespace

void find_weights(FlatModel& model, const WeightOptions& options) {
  WeightFinder(model, options).run();
  std::int64_t tensors[2] = {}, values[2] = {};
  for (const TemplateTensor& t : model.tensors) {
    if (t.certain) continue;
    const bool trained = t.holding == Holding::trained;
    ++tensors[trained];
    values[trained] += t.type.shape.elements();
  }
  if (tensors[0] + tensors[1] == 0) return;
  const auto part = [&](int which, const char* what) {
    return concat(tensors[which], tensors[which] == 1 ? " tensor (" : " tensors (", values[which], values[which] == 1 ? " value) " : " values) ", what);
  };
  model.warnings.push_back(concat("by rule, not by the file: ", tensors[1] ? part(1, "trained") : "", tensors[1] && tensors[0] ? ", " : "",
                                  tensors[0] ? part(0, "constant") : "",
                                  ": ", function("ModelFile::tensors()"), " lists them; ", option("trainable"), " and ", option("constant"), " overrule"));
}

}  // namespace tandem
