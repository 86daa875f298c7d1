// Where the values of a graph lie while kernels are chosen: each in one or more forms, which are buffers with a layout,
// and the steps that make one form of another.
#pragma once
#include "planner/lower/lowered_graph.h"

namespace tandem {

class ValueForms {
 public:
  // Buffers and steps go into `program`.
  ValueForms(const Graph& graph, const Backend& backend, const SelectOptions& options, Tuner& tuner, LoweredGraph& program);

  // What conversions that are added from now on come from; it must outlive them.
  void set_origin(const std::vector<std::string>& origin) { origin_ = &origin; }

  std::vector<BufferId>& of(ValueId v) { return facts_[v].forms; }  // requests name the first one
  const Operand& operand(BufferId b) const { return program_.buffers[b].operand; }
  Operand row_major(ValueId v) const {
    return {graph_[v].type.dtype, graph_[v].type.shape, Layout::row_major(graph_[v].type.shape.rank())};
  }
  ValueId follows(ValueId v) const { return facts(v).follows; }    // the parameter whose layout it takes
  ValueId cast_of(ValueId v) const { return facts(v).cast_of; }    // the parameter that it is a Cast of
  // In training, the parameter in parts that this value has gathered: it is read in the layout that the parameter would have if it were
  // kept whole, so that kernels and bits are those of replicas.
  ValueId gathered(ValueId v) const { return facts(v).gathered; }
  // The parameter in parts whose gradient this is, before it is summed into parts. It is turned once, as the exchange has it.
  ValueId scattered(ValueId v) const { return facts(v).scattered; }
  const Layout& whole_layout(ValueId parameter) const { return facts(parameter).whole; }  // any: no reader has decided it yet
  bool summed(ValueId v) const { return facts(v).summed; }  // made in the bucket where it is summed over devices

  // What a request says of a value: the layout it has, or any where nothing has decided it yet.
  Operand requested(ValueId v);
  // A buffer that holds the value in this layout: one there is, another name for the same memory, or a Reorder's.
  BufferId form(ValueId v, const Layout& layout);
  // Whether a request for the value may take it in this layout as it is.
  bool lies(ValueId v, const Layout& layout) const;
  BufferId first(ValueId v);  // the form that requests name; of what has none yet row by row
  // A new form, of its own memory or of `alias`'s.
  BufferId add(ValueId v, Operand operand, MemoryClass memory, BufferId alias = {});
  void add_unused_parameter(ValueId v);
  // Memory for one step's use of the value, which is none of its forms.
  BufferId unnamed(ValueId v, const Operand& operand);
  BufferId reorder(ValueId v, BufferId from, const Operand& to);
  // A step that writes the elements of one buffer into another: a Reorder into another layout, or a Cast into another type.
  void convert(std::string_view op, BufferId from, BufferId to);
  double reorder_seconds(const Operand& from, const Operand& to) const;  // estimated
  double cast_seconds(const Operand& from, DType to);  // of elements that lie as they are
  // One buffer in which these lie, one behind the other, as gradients or activations; sets the bucket's number of elements.
  BufferId gather(Exchange& bucket, std::span<const BufferId> parts, MemoryClass memory);
  // Adds a step to the program, with its workspace.
  void launch(Step step, const KernelDescription& description, Cost cost, double flops);

 private:
  // The cheapest kernel that converts.
  struct Conversion {
    std::optional<KernelDescription> kernel;
    Attributes attributes;
    Cost cost;
  };
  Conversion conversion(std::string_view op, const Operand& from, const Operand& to);
  struct Facts {
    std::vector<BufferId> forms;
    ValueId follows, cast_of;
    ValueId copy;  // of a parameter: its copy in 16 bits
    ValueId gathered, scattered;
    Layout whole;  // of a parameter in parts
    bool summed = false;
  };
  Facts& facts(ValueId v) { return facts_[v]; }
  const Facts& facts(ValueId v) const { return facts_[v]; }
  void note_update(const Node& node);
  void note_accumulation(const Node& node);
  void note_cast(const Node& node);
  void note_parts(const Node& node);
  void note_sum(const Node& node, const IdVector<ValueId, int>& uses);
  const Operand* fixed_operand(ValueId v) const;
  BufferId add_constant(ValueId v, const Layout& layout);
  BufferId add_parameter(ValueId v, const Layout& layout);

  const Graph& graph_;
  const SelectOptions& options_;
  Tuner& tuner_;
  const Backend& backend_;
  LoweredGraph& program_;
  IdVector<ValueId, Facts> facts_;
  const std::vector<std::string>* origin_ = nullptr;
};

}  // namespace tandem
