// What PyTorch's exporter notes of a module beside its graph: every parameter that it has, by name (torch.export's graph signature in
// the graph's metadata), and with each node the call it comes from ("mul(args = (%x, %p_scale), …)" in `fx_node`). A parameter
// that stands nowhere was computed with by the exporter, or the model does not use it. ONNX Script's optimizer notes beside a tensor
// that it computed the names of all values that went into it ("['fc.weight', 'val_3']" in `folded_from`).
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "importer/message/onnx_messages.h"

namespace tandem {

std::string_view call_of(const onnx::NodeProto& node);  // empty: it has no note
std::string_view source_line_of(const onnx::NodeProto& node);  // the innermost of its stack; empty: it has no note
std::vector<std::string> modules_of(const onnx::NodeProto& node);  // around it, the outermost first: "encoder", "encoder.layer.1"
std::string_view device_of(const onnx::NodeProto& node);           // where tandem is to put it; empty: it has no note
// "torch.ops.aten.mul.Tensor"
std::string_view target_of(std::string_view call);
// The values that a call takes, by name, in their order: "x", "p_scale".
std::vector<std::string_view> operands_of(std::string_view call);

class Signature {
 public:
  Signature() = default;
  explicit Signature(const onnx::GraphProto& graph);

  bool present() const { return !names_.empty(); }
  // Parameters that no initializer is called after and that no node's call and no note of a computed tensor names, in the module's order.
  const std::vector<std::string>& absorbed() const { return absorbed_; }
  // Whether what `node` reads may be a parameter in another form: its call names one that the file holds neither as it is nor, by a note,
  // in what was computed from it, or nothing is said of its call.
  bool may_read_parameter(const onnx::NodeProto& node) const;
  // Whether a tensor is called after a parameter: "conv.weight", "conv.weight_bias" (of a normalization that became part of it).
  bool names(std::string_view tensor) const;
  // The parameters that went into a computed tensor (it may have only their shapes); null without a note.
  const std::vector<std::string>* computed_from(std::string_view tensor) const;
  bool from_nothing_else(std::string_view tensor) const;  // than one parameter
  // Whether a computed tensor holds numbers of its parameters as they are, elsewhere: all calls on the way, and what the call of `reader`
  // does to its operands before its operator takes them (aten.linear transposes, aten.lstm orders gates), move numbers or pick and repeat
  // them.
  bool rearranged(std::string_view tensor, const onnx::NodeProto* reader) const;
  // Whether a computed tensor is number + parameter, parameter - number or number - parameter, moved at most. With an alpha the note has
  // the alpha and a product, too: of one number inside calls there is the number that is added alone.
  bool shifted(std::string_view tensor, const onnx::NodeProto* reader) const;
  bool detached(std::string_view tensor) const;  // moved, and detached on the way: no gradient reaches its parameter there
  bool moved(std::string_view tensor) const;  // the same, whatever reads it does
  // Whether a computed tensor is called after a call that picks or repeats (aten.embedding, index, expand, ...), or the note names one.
  bool looked_up(std::string_view tensor) const;

  // Of the parameters and buffers, by the names that calls have for them ("p_fc_weight"):
  bool lists(std::string_view call) const { return targets_.contains(call); }
  bool is_parameter(std::string_view call) const { return lists(call) && names_.contains(target(call)); }
  const std::string& target(std::string_view call) const { return targets_.find(call)->second; }  // "fc.weight"
  // What an initializer stands for by its note, or the parameters that it was computed from.
  const std::vector<std::string>& stands_for(std::string_view tensor) const;
  // Notes of a tensor that stands for the parameter `from` say that it stands for `to`, as calls name them; with no `from` they say
  // nothing.
  void rename(google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto>& notes, const std::string& from,
              const std::string& to) const;
  // an initializer stands for it, or is called after it and no note denies that
  bool holds(std::string_view call) const { return held_.contains(call); }
  // An initializer is called after a parameter and has no note, though others have: the exporter gave it other values.
  bool changed(std::string_view tensor) const;
  // Some tensor is noted as a parameter or buffer, or all that there were were computed with.
  bool tells_kinds() const { return tells_kinds_; }

  static constexpr const char* way_out = "; torch.onnx.export(..., optimize=False) keeps parameters and formulas";

 private:
  // of all; those, as calls name them, that no initializer is noted as, or as computed from
  std::set<std::string, std::less<>> names_, changed_;
  std::vector<std::string> absorbed_;
  struct Computed {
    std::vector<std::string> from;  // parameters
    std::size_t values = 0;         // that went in, parameters or not
    bool picked = false, indexed = false;  // by calls that pick or repeat, by arithmetic that indices are computed with
    bool moved = true;                     // by no other than these and those that move
    bool detached = false;                 // by aten.detach, too
    bool shifted = false;                  // by one sum or difference with a number, and calls that move
    bool within = false;                   // its last steps are within the call of what reads it
  };
  void note(const onnx::GraphProto& graph);
  void compute(const std::string& tensor, std::string_view from);
  const Computed* computed(std::string_view tensor) const;
  std::map<std::string, Computed, std::less<>> computed_;
  std::map<std::string, std::string, std::less<>> called_, targets_;  // of parameters and buffers: what calls name them; and the other way
  std::map<std::string, std::vector<std::string>, std::less<>> stands_for_;
  std::set<std::string, std::less<>> held_;
  bool tells_kinds_ = false;
};

}  // namespace tandem
