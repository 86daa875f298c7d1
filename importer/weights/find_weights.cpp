// Which of the model's float tensors are weights. In this order: what the user says; what the file says; what the operand is
// that the tensor stands in; its values; and where nothing says otherwise, an initializer that the loss's gradient reaches is
// trained. docs/weights.md tells it in plain words.
#include <algorithm>
#include <cmath>

#include "base/option.h"
#include "base/pattern.h"
#include "importer/flat/held_tensors.h"
#include "importer/flat/operand_uses.h"
#include "importer/message/tensor_data.h"
#include "importer/message/tensor_names.h"
#include "importer/message/value_tests.h"
#include "importer/weights/data_preparation.h"
#include "importer/weights/find_weights.h"
#include "importer/weights/formula_places.h"
#include "importer/weights/tie_weights.h"

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
constexpr const char* without_value =
    "has no value of its own in the function or subgraph in which it stands: it is filled, or given by a call";

class WeightFinder {
 public:
  WeightFinder(FlatModel& model, const WeightOptions& options)
      : model_(model), options_(options), uses_(uses_of(model)), places_(model, uses_), held_(held_tensors(model)) {
    states_kinds_ = model.signature.tells_kinds() || std::any_of(model.stated.begin(), model.stated.end(),
                                                                 [](Stated s) { return s != Stated::nothing && s != Stated::updated; });
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
    std::vector<Answer> decided;
    for (const Held& held : held_) {
      decided.push_back(before_structure(held));
      if (held.data) held.data->release();
    }
    const std::vector<Prepares> prepares = prepared(decided);
    for (std::size_t i = 0; i < held_.size(); ++i) {
      const Held& held = held_[i];
      Verdict v = judge(held, std::move(decided[i]), prepares[static_cast<std::size_t>(held.symbol.index)]);
      if (held.data) held.data->release();
      if (computed(held) && v.holding == Holding::trained && !matches_any(name(held), options_.trainable))
        model_.computed.push_back(held.symbol);
      if (uses(held).has(OperandRole::class_weights) && v.holding == Holding::constant)
        model_.warnings.push_back(concat("'", name(held), "' weighs the classes of a loss: it is a constant and not trained",
                                         used_as_weight(held) ? ", although it is used as a weight too" : ""));
      model_.held[static_cast<std::size_t>(held.symbol.index)] = static_cast<int>(model_.tensors.size());
      model_.tensors.push_back({name(held), held.type, v.holding, std::move(v.reason), v.certain, v.asked});
    }
    for (const FlatInitializer& i : model_.unread)
      if (is_float(i.type.dtype))
        model_.tensors.push_back({model_.name(i.symbol), i.type, Holding::constant, "no output of the model depends on it"});
    warn_of_listed();
  }

 private:
  const std::string& name(const Held& held) const { return model_.name(held.symbol); }
  const Uses& uses(const Held& held) const { return uses_[static_cast<std::size_t>(held.symbol.index)]; }
  Stated stated(const Held& held) const { return model_.stated[static_cast<std::size_t>(held.symbol.index)]; }
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
  static double rounding(const Held& held) {
    return held.type.dtype == DType::float16 ? 0x1p-11 : held.type.dtype == DType::bfloat16 ? 0x1p-8 : 0;
  }
  // The exporter made it: a file that names its parameters does not name this one.
  bool unnamed(const Held& held) const { return states_kinds_ && stated(held) == Stated::nothing; }

  // The exporter computed it: of the parameters that the file's signature lists it is none, nor one that the call of a node that reads it
  // names.
  bool computed(const Held& held) const {
    if (held.source != Source::initializer || !model_.signature.present() || !unnamed(held) || model_.signature.names(name(held)))
      return false;
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

  // It holds numbers of its parameters as they are.
  bool rearranged(const Held& held) const {
    const FlatNode* reader = uses(held).reader.node;
    return held.source == Source::initializer && model_.signature.rearranged(name(held), reader ? reader->proto : nullptr);
  }

  // The rules.

  template <class... Rules>
  Answer first_of(const Held& held, Rules... rules) const {
    Answer answer;
    static_cast<void>(((answer = (this->*rules)(held)) || ...));
    return answer;
  }

  Answer before_structure(const Held& held) const {
    return first_of(held, &WeightFinder::said_by_user, &WeightFinder::said_by_file, &WeightFinder::said_by_place,
                    &WeightFinder::said_by_note, &WeightFinder::said_by_role, &WeightFinder::said_by_signature);
  }

  // What prepares data, as far as nothing above says what a tensor is.
  std::vector<Prepares> prepared(const std::vector<Answer>& decided) const {
    std::vector<int> place(model_.symbols.size(), -1);
    for (std::size_t i = 0; i < held_.size(); ++i) place[static_cast<std::size_t>(held_[i].symbol.index)] = static_cast<int>(i);
    const auto held_at = [&](Symbol s) {
      return s.present() && place[static_cast<std::size_t>(s.index)] >= 0
                 ? &held_[static_cast<std::size_t>(place[static_cast<std::size_t>(s.index)])]
                 : nullptr;
    };
    return data_preparation({.model = model_, .uses = uses_,
                             .trained = [&](Symbol s) {
                               const Held* held = held_at(s);
                               if (!held || !is_weight(uses(*held).strongest())) return false;
                               const Answer& answer = decided[static_cast<std::size_t>(held - held_.data())];
                               return !answer || answer->holding == Holding::trained || matches_any(name(*held), options_.constant);
                             },
                             .free = [&](Symbol s) {
                               const Held* held = held_at(s);
                               return held && !said_by_user(*held) && stated(*held) == Stated::nothing &&
                                      !(noted(*held) && (!alike(*held) || rearranged(*held)));
                             },
                             .held = held_at});
  }

  Verdict judge(const Held& held, Answer decided, Prepares prepares) {
    if (prepares == Prepares::components) decided.reset();
    if (decided) return std::move(*decided);
    Answer soft =
        prepares == Prepares::components ? Answer() : first_of(held, &WeightFinder::said_by_values, &WeightFinder::said_of_number);
    if (prepares != Prepares::nothing && (!soft || soft->holding == Holding::trained)) {
      prepares_.push_back(name(held));
      constexpr const char* reasons[] = {"", "it stands between an input and the first weight, and prepares data",
                                         "a centered input is multiplied by it, and its columns are at right angles: principal components",
                                         "it scales or shifts results behind the last weight"};
      return {Holding::constant, reasons[static_cast<std::size_t>(prepares)], by_rule};
    }
    if (soft) return std::move(*soft);
    if (noted(held) && (!alike(held) || rearranged(held))) {
      const std::vector<std::string>& from = *computed_from(held);
      return {Holding::trained, concat("the file: computed from '", from.front(), from.size() > 1 ? "' and others" : "'")};
    }
    const bool expected = is_weights_name(name(held)) || places_.bias_of_product(held);
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
    if (held.source == Source::inner) refuse(without_value);
    if (is_statistic(uses(held).strongest())) refuse("is ", text_of(uses(held).reader), ", a running statistic");
    if (uses(held).has(OperandRole::constant) || uses(held).has(OperandRole::class_weights))
      refuse("is ", text_of(uses(held).reader), ", which must be known when the plan is made");
    return Verdict{Holding::trained, concat(option("trainable"), " ", *trainable), true, true};
  }

  Answer said_by_file(const Held& held) const {
    if (stated(held) == Stated::nothing) return std::nullopt;
    if (stated(held) == Stated::updated && (held.source == Source::inner || statistic(held) || uses(held).has(OperandRole::constant)))
      return std::nullopt;
    if (stated(held) == Stated::updated) return Verdict{Holding::trained, "the file: training_info updates it"};
    if (stated(held) == Stated::parameter && uses(held).has(OperandRole::constant))
      return Verdict{Holding::constant, concat(text_of(uses(held).reader), " must be known when the plan is made"), by_rule};
    // What is frozen is a PARAMETER, too; a table of sines to which training has done nothing is.
    if (stated(held) == Stated::parameter && uses(held).strongest() == OperandRole::embedding && held.data &&
        is_table(comparable(*held.data), rounding(held)))
      return Verdict{Holding::constant, "the file: PARAMETER, but what is looked up is a table of sines or a progression: frozen", by_rule};
    if (stated(held) == Stated::parameter && places_.bank_of(held) == Bank::exact) {
      near_banks_.push_back(name(held));
      return Verdict{Holding::trained, "the file: PARAMETER, but its values are those of a fixed filter bank: is it frozen?", by_rule};
    }
    if (stated(held) == Stated::parameter) return Verdict{Holding::trained, "the file: PARAMETER"};
    if (statistic(held)) return Verdict{Holding::statistic, "the file: BUFFER"};
    return Verdict{Holding::constant, stated(held) == Stated::buffer ? "the file: BUFFER" : "the file: CONSTANT_TENSOR"};
  }

  void warn_of_listed() {
    const auto warn = [&](const std::vector<std::string>& names, const char* what, const char* field) {
      constexpr std::size_t most = 32;
      std::string list;
      for (std::size_t i = 0; i < std::min(most, names.size()); ++i) list += concat(i ? ", '" : "'", names[i], '\'');
      if (names.size() > most) list += concat(" and ", names.size() - most, " more");
      if (!names.empty()) model_.warnings.push_back(concat(list, what, "; ", option(field), " overrules"));
    };
    warn(prepares_, ": not trained, since by their place in the graph they prepare data or undo that", "trainable");
    warn(banks_, ": not trained, since their values are those of a fixed filter bank (sines, triangles)", "trainable");
    warn(near_banks_, ": trained, although their values are those of a filter bank (sines, triangles), or nearly so", "constant");
  }

  Answer said_by_place(const Held& held) const {
    if (held.source == Source::inner) return Verdict{Holding::constant, without_value, lone(held)};
    if (statistic(held))
      return Verdict{Holding::statistic, is_statistic(uses(held).strongest()) && uses(held).direct ? text_of(uses(held).reader)
                                                                                                  : "of a normalization written out"};
    if (uses(held).has(OperandRole::class_weights) || uses(held).has(OperandRole::constant))
      return Verdict{Holding::constant, text_of(uses(held).reader)};
    const bool bound = uses(held).has(OperandRole::bound);
    if (uses(held).gradient() || (bound && noted(held))) return std::nullopt;
    return Verdict{Holding::constant, bound ? text_of(uses(held).reader) : "the gradient does not reach it"};
  }

  // The note may stand beside a parameter with the same values, which the exporter keeps once.
  Answer said_by_note(const Held& held) const {
    const std::vector<std::string>* from = computed_from(held);
    if (noted(held) && model_.signature.detached(name(held)))
      return Verdict{Holding::constant, concat("the file: '", from->front(), "', detached")};
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
    const bool as_node = held.source == Source::node && !nodes_hold_weights_;
    if (as_node && (!held.in_function || lone(held)))
      return Verdict{Holding::constant, "a Constant node, and the model's weights are initializers", lone(held)};
    // What a recurrence starts from is often written where it is nothing; the bias beside its two matrices never is.
    const Uses::Reader& reader = uses(held).reader;
    const bool recurrent = role == OperandRole::bias && role_of(*reader.node, 2) == OperandRole::matrix,
               state = recurrent && reader.input > 3;
    if (state && alike(held)) return Verdict{Holding::constant, "the first state of a recurrence, and all its values are alike", by_rule};
    const bool of_normalization = role == OperandRole::scale || (role == OperandRole::bias && !recurrent);
    if (held.source == Source::initializer && unnamed(held) && of_normalization && uses(held).direct && alike(held))
      return Verdict{Holding::constant, "the file names its parameters and not this one, and all its values are alike", by_rule};
    if (role == OperandRole::embedding && held.data && is_table(comparable(*held.data), rounding(held)))
      return Verdict{Holding::constant, "its values are a table of sines or a progression", by_rule};
    if (role == OperandRole::matrix && !noted(held) && is_transform(held)) {
      banks_.push_back(name(held));
      return Verdict{Holding::constant, "its values are a table of sines or a progression", by_rule};
    }
    if (const Bank bank = noted(held) ? Bank::none : places_.bank_of(held); bank == Bank::exact) {
      banks_.push_back(name(held));
      return Verdict{Holding::constant, "its values are a bank of windowed sines or of triangles", by_rule};
    } else if (bank == Bank::near) {
      near_banks_.push_back(name(held));
      return Verdict{Holding::trained,
                     concat(text_of(uses(held).reader), ", although its values are nearly a bank of windowed sines or of triangles"),
                     by_rule};
    }
    const bool vector_of_product = role == OperandRole::matrix && held.type.shape.rank() < 2;
    return Verdict{Holding::trained, text_of(uses(held).reader), !vector_of_product && !as_node};
  }

  // From here on the tensor is part of a formula.
  Answer said_by_values(const Held& held) const {
    if (held.source == Source::node) {
      const bool bias = places_.bias_of_product(held), weight = nodes_hold_weights_ ? bias || !lone(held) : bias && held.in_function;
      if (!weight) return Verdict{Holding::constant, "a Constant node", lone(held)};
    }
    if (!held.data) return std::nullopt;
    const Tensor values = comparable(*held.data);
    if (!all_finite(values)) return Verdict{Holding::constant, "it holds values that are not finite"};
    if (places_.first_state_of_loop(held) && all_alike(values))
      return Verdict{Holding::constant, "the first state of a loop, and all its values are alike", by_rule};
    if (places_.imaginary(held) && all_alike(values))
      return Verdict{Holding::constant, "the imaginary part of what is transformed, and all its values are alike", by_rule};
    if (is_mask(values)) return Verdict{Holding::constant, "its values are a mask", by_rule};
    if (is_table(values, rounding(held))) return Verdict{Holding::constant, "its values are a table of sines or a progression", by_rule};
    if (is_decay(values, rounding(held)))
      return Verdict{Holding::constant, "its values are a progression by the distance from a diagonal", by_rule};
    if (unnamed(held) && places_.interpolates(held, values))
      return Verdict{Holding::constant, "the file names its parameters and not this one, and it interpolates between what was picked",
                     by_rule};
    if ((unnamed(held) || held.source == Source::node) && (is_grid(values) || is_lattice(values)))
      return Verdict{Holding::constant,
                     concat(unnamed(held) ? "the file names its parameters and not this one, and " : "a Constant node, and ",
                            "its values are whole numbers or a grid of places"),
                     by_rule};
    if (!lone(held) && unnamed(held) && is_creations_name(name(held)) && all_alike(values))
      return Verdict{Holding::constant, "the file names its parameters and not this one, and all its values are alike", by_rule};
    return std::nullopt;
  }

  Answer said_of_number(const Held& held) const {
    if (!lone(held) || places_.bias_of_product(held) || (noted(held) && !alike(held))) return std::nullopt;
    if (unnamed(held) && is_exporters_number(name(held)))
      return Verdict{Holding::constant, "the file names its parameters, and this number is none"};
    if (!unnamed(held) && is_made_up(name(held))) return Verdict{Holding::constant, "a number of a formula, by its name", by_rule};
    const double value = held.data ? held.data->to_doubles()[0] : 0;
    constexpr double largest_epsilon = 1e-3;
    const bool named = held.source == Source::initializer && is_path(name(held)) && !unnamed(held);  // a module's own, which may be learnt
    if (!named && (uses(held).epsilon || (uses(held).strongest() == OperandRole::addend && value > 0 && value <= largest_epsilon)))
      return Verdict{Holding::constant, "an epsilon"};
    const bool usual = value == std::round(value) || std::abs(value) == 0.5;
    if (uses(held).has(OperandRole::exponent) && usual && !is_path(name(held))) return Verdict{Holding::constant, "an exponent", by_rule};
    return std::nullopt;
  }

  // A matrix with sines in its columns or its rows, as a Fourier transform and its inverse are.
  bool is_transform(const Held& held) const {
    if (!held.data || held.type.shape.rank() != 2 || held.type.shape.elements() == 0) return false;
    const bool columns = may_be_sines(columns_of(*held.data, held.type.shape[1])),
               rows = may_be_sines(rows_of(*held.data, held.type.shape[0]));
    return (columns && is_table(comparable(*held.data), rounding(held))) ||
           (rows && is_table(transposed(comparable(*held.data)), rounding(held)));
  }

  FlatModel& model_;
  const WeightOptions& options_;
  std::vector<Uses> uses_;
  FormulaPlaces places_;
  std::vector<Held> held_;
  std::vector<bool> may_be_parameter_;  // by symbol, of a file with a signature
  std::vector<std::string> prepares_;                   // names that are listed in warnings
  mutable std::vector<std::string> banks_, near_banks_;
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
    return concat(tensors[which], tensors[which] == 1 ? " tensor (" : " tensors (", values[which],
                  values[which] == 1 ? " value) " : " values) ", what);
  };
  model.warnings.push_back(concat("a guess, as the file does not say it: ", tensors[1] ? part(1, "trained") : "",
                                  tensors[1] && tensors[0] ? ", " : "", tensors[0] ? part(0, "constant") : "", ": ",
                                  function("ModelFile::tensors()"), " lists them; ", option("trainable"), " and ", option("constant"),
                                  " overrule"));
}

}  // namespace tandem
