// What calls of PyTorch do to the numbers that they take, by the names that torch.export gives to results ("view_3") and to calls
// ("torch.ops.aten.linear.default"). ONNX Script's optimizer notes the names of results on the way to a tensor that it computed.
#pragma once
#include <string_view>

namespace tandem {

enum class CallKind {
  within,    // no result of a call but a number inside one ("val_3")
  moves,     // hands numbers on as they are: a view, a part, several joined, another order
  picks,     // picks or repeats them
  makes,     // of no operand's numbers: zeros, ranges
  counts,    // arithmetic that indices are computed with, too
  computes,  // all others
};
CallKind kind_of_result(std::string_view value);

bool is_detached(std::string_view value);  // a result of aten.detach: "detach_2"
bool is_joined(std::string_view value);    // of several: "cat"
bool is_shift(std::string_view value);   // a sum or difference: "add_3"

// Whether the operands that are parameters reach the call's operator as they are, moved at most: aten.linear transposes its matrix,
// aten.lstm orders gates, aten.index brings the indexed axes to the front, aten.stack adds an axis; aten.add with an alpha multiplies.
// `call`: the whole note.
bool takes_as_they_are(std::string_view call);

bool is_batch_normalization(std::string_view call);
// Of a computed value that optimizers leave out where the other operand is 0 or 1.
bool may_change_nothing(std::string_view value);

}  // namespace tandem
