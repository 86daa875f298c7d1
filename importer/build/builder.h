// Makes a graph of a flat model: build_graph.cpp walks the nodes, control_flow.cpp takes apart those that hold bodies, sequences.cpp those
// that work on lists of tensors. What is left is nodes on tensors alone.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <span>

#include "graph/cast_values.h"
#include "importer/batch/bind_inputs.h"
#include "importer/batch/budget.h"
#include "importer/batch/rebatch.h"
#include "importer/build/build_graph.h"
#include "importer/upgrade/draft.h"

namespace tandem {

class Builder {
 public:
  // As build_graph says.
  Builder(const FlatModel& model, const ImportOptions& options, const BatchReading& reading, std::int64_t batch, const FollowedGraph* own,
          bool shapes_only);
  BuiltGraph run(const std::string& name);

 private:
  // A node that works on lists of tensors (sequences, optional values): no node of the graph, but names for values of it.
  struct ListRow {
    std::string_view op;
    void (Builder::*run)(const FlatNode&);
  };
  using List = std::vector<Symbol>;

  // Symbols that unrolling made, behind the model's: of which they are copies (none: of no other), and in which iteration. Loops may take
  // other iterations for another batch, so these two tell which symbols of two builds are the same.
  struct Made {
    std::string name;
    Symbol original;
    std::string iteration;
  };

  Graph& graph() { return built_.graph; }
  ValueId& value(Symbol s) { return values_[static_cast<std::size_t>(s.index)]; }
  // Names and holdings of the model's symbols, and of those that unrolling made.
  const std::string& name(Symbol s) const;
  Holding holding(Symbol s) const;

  void problem(const FlatNode& node, std::string reason);
  DType wanted(DType dtype) const;
  Tensor wanted(const Tensor& tensor) const { return cast_later(tensor, wanted(tensor.dtype())); }

  void inputs();
  Tensor given_value(const Tensor& tensor, const BoundInput& input, const std::string& name);
  void initializer(const FlatInitializer& i);
  void hold(const FlatInitializer& i);
  bool follows(Symbol s) const;
  void follow(const Tie& tie);
  ValueId looked_up(const LookedUp& l, Tensor rows);
  ValueId single_bias(ValueId whole);
  ValueId parameter(Symbol symbol, TensorType type, std::optional<Tensor> data);

  void run(const FlatBody& body);
  void attempt(const FlatNode& node);
  void run(const FlatNode& node);
  std::vector<ValueId> add(const FlatNode& node, Draft& draft);
  void follow_folded(Draft& draft);
  void check_extent(const TensorType& type) const;
  void bind(const FlatNode& node, const std::vector<ValueId>& outputs);
  ValueId own(Symbol s) const;
  void repeat_copies(Symbol s);
  void count_on(Value& v, const Counted& counted, NodeId node);
  bool will_repeat(ValueId known, const Value& now) const;
  void check_batch(Symbol s, ValueId now);
  void mark_samples();
  bool named_in_file(const std::string& name) const { return options_.constants.contains(name); }
  void rename(ValueId id, Symbol symbol);
  static Symbol only_output(const FlatNode& node);
  void constant(const FlatNode& node);
  void constant_of_shape(const FlatNode& node, const Draft& draft);
  void outputs();
  ValueId output(Symbol out, const std::string& name);

  // control_flow.cpp
  struct LoopState;
  struct LoopEnd;
  struct SampleScan;
  const Tensor* known(Symbol s);  // its value, where that is known now; else null
  bool built(Symbol s);           // as a value or as a list
  void choose(const FlatNode& node);
  void both_branches(const FlatNode& node);
  void expect_one(Symbol s, DType dtype, std::string_view what);
  void loop(const FlatNode& node);
  void unroll(const FlatNode& node);
  LoopState loop_state(const FlatNode& node, const FlatBody& body);
  LoopEnd loop_end(const FlatNode& node);
  Symbol scalar(const FlatNode& of, Symbol s, std::int64_t iteration);
  bool goes_on(const FlatNode& node, std::int64_t number, LoopEnd& end, LoopState& state);  // whether that iteration is planned
  void warn_of_open_end(const FlatNode& node, std::int64_t iterations, bool capped);
  void mark_unfinished(const FlatNode& node, LoopState& state);
  void scan(const FlatNode& node);
  // scan_samples.cpp: opset 8
  void scan_samples(const FlatNode& node);
  SampleScan sample_scan(const FlatNode& node, const FlatBody& body);
  Ints sequence_lengths(const FlatNode& node, std::int64_t samples, std::int64_t most);
  bool scan_sample(const FlatNode& node, const FlatBody& body, const SampleScan& scan, std::size_t sample, const List& operands,
                   std::vector<List>& results);  // false: an iteration has problems of its own
  void flex_attention(const FlatNode& node);  // flex_attention.cpp
  bool iteration(const FlatNode& node, const FlatBody& body, LoopState& state);  // false: it has problems of its own
  void finish(const FlatNode& node, LoopState& state, const Ints& axes, const Ints& reversed);
  static const FlatBody& body_of(const FlatNode& node, std::string_view attribute);
  static std::vector<Symbol> made_by(const FlatBody& body);
  FlatBody instantiate(const FlatBody& body, const std::string& iteration);
  FlatBody instantiate(const FlatBody& body, const std::string& iteration, std::map<int, Symbol>& now);
  Symbol new_symbol(std::string name, Symbol original, std::string iteration);
  bool is_made(Symbol s) const { return s.index >= static_cast<int>(model_.symbols.size()); }
  const Made& made(Symbol s) const { return made_[static_cast<std::size_t>(s.index) - model_.symbols.size()]; }
  void count_iteration(const FlatBody& body);
  void hand(Symbol from, Symbol to);  // `to` stands for what `from` does: a value or a list
  void hand_out(Symbol from, Symbol to, std::span<const Symbol> made);  // a value that was made for it takes its name
  // Nodes of our own making, named after `of`.
  Symbol emit(const FlatNode& of, std::string_view op, std::vector<Symbol> operands, Attributes attributes, std::string_view suffix);
  Symbol constant(const FlatNode& of, Tensor tensor, std::string_view suffix);
  Symbol stacked(const FlatNode& of, const List& iterations, std::int64_t axis, std::string_view suffix);
  // join_iterations.cpp: the iterations' results side by side, computed at once; no symbol: they are not of that kind.
  Symbol joined(const FlatNode& of, const List& iterations, bool new_axis, const std::string& suffix);
  List split(const FlatNode& of, Symbol in, std::int64_t axis, const Ints& sizes, bool keep, const std::string& suffix);

  // sequences.cpp
  static const ListRow* list_row(const FlatNode& node);
  void run_list(const FlatNode& node, const ListRow& row);
  const List& list(const FlatNode& node, std::size_t input);
  std::size_t position(const FlatNode& node, std::size_t input, std::int64_t size, std::int64_t last);
  void count_list(std::int64_t size);
  void sequence_construct(const FlatNode& node);
  void sequence_insert(const FlatNode& node);
  void sequence_erase(const FlatNode& node);
  void sequence_at(const FlatNode& node);
  void sequence_length(const FlatNode& node);
  void sequence_map(const FlatNode& node);
  void split_to_sequence(const FlatNode& node);
  void concat_from_sequence(const FlatNode& node);
  void optional(const FlatNode& node);
  void optional_has_element(const FlatNode& node);

  // masked.cpp
  struct Masked {
    // NonZero's columns, turned into rows of coordinates, how many there are, what they pick
    enum Kind { places, tuples, count, rows } kind;
    ValueId mask, full;   // of rows: what stands for them, of all elements
    bool broadcasts;      // `full` is one number, as often as the mask has ones
    std::string node;     // NonZero's name
    std::int64_t opset;
  };
  bool run_masked(const FlatNode& node);  // false: the node reads none of it
  bool write_masked(const FlatNode& node);
  const Masked* masked(const FlatNode& node, std::size_t input) const;
  void refuse_masked(const Masked& m);
  ValueId mask_for(const FlatNode& node, ValueId mask, const Shape& x);
  std::optional<Masked> masked_result(const FlatNode& node, const Masked& any);
  std::optional<Masked> picked(const FlatNode& node);
  std::optional<Masked> computed_of_rows(const FlatNode& node, const Operator& op);

  const FlatModel& model_;
  const ImportOptions& options_;
  const BatchReading& reading_;
  std::int64_t batch_;
  const FollowedGraph* own_;
  std::optional<Rebatch> rebatch_;  // where `own_` is
  bool shapes_only_;
  BuiltGraph built_;
  Budget budget_;
  std::int64_t widest_ = 0;      // elements of the largest input or tensor of the file
  std::vector<ValueId> values_;  // by symbol; absent: not built
  std::map<int, List> lists_;    // by symbol: those that stand for a list of tensors
  std::map<int, Masked> masked_;       // by symbol: those that are as long as a mask has ones
  std::set<std::string> refused_masks_;
  std::set<int> hollow_;         // by symbol: optional values that hold nothing
  std::vector<Made> made_;
  std::int64_t unrolled_ = 0, copied_ = 0, list_elements_ = 0;  // nodes and iterations; nodes with those of branches; tensors of all lists
};

}  // namespace tandem
