// Another number of classes: the layer that makes a model's scores, with new weights.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tandem_onnx.pb.h"

namespace tandem {

struct NewHead {
  std::string line;                // node, old and new number of classes, names
  std::vector<std::string> names;  // of weight and bias
};

// The last Gemm, MatMul (with the Add behind it) or Conv from which the scores come, through nothing but nodes that do not
// know how many classes there are, gets a weight and a bias for `classes` of them: initializers of the old names without
// values, which the first values' rule therefore draws, and they alone. Declared shapes follow; all else stays. A bias that
// others read too stays theirs: the head gets one of its own, "NAME@head". `node`: which is meant, by name or output; empty: the only one. Fails (usage) where there is no such node, or
// several and none was named, with the chain of nodes that was followed; where another node reads the weight; where a
// constant behind the head holds the old number.
NewHead replace_head(onnx::ModelProto& model, std::int64_t classes, const std::string& node);

}  // namespace tandem
