// Another number of classes: the layer that makes a model's scores, with new weights.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "importer/message/onnx_messages.h"

namespace tandem {

struct NewHead {
  std::string line;                // node, old and new number of classes, names, and what else of the file is another
  std::vector<std::string> names;  // of weight and bias
};

// The last Gemm, MatMul (with the Add behind it) or Conv from which the scores come, through nothing but nodes that do not
// know how many classes there are, gets a weight and a bias for `classes` of them: initializers of the old names without
// values, which the first values' rule therefore draws, and they alone. Weights that Constant or ConstantOfShape nodes made
// become initializers, calls of local functions on the way are written out (write_out_call.h), a Reshape's constant gets the new
// number. Declared shapes follow; all else stays. A bias that others read too stays theirs: the head gets one of its own, "NAME@head".
// `node`: which is meant, by its name or module, its weight's, the name of a value it makes, or of the model's output that it makes; empty:
// the only one. Fails (usage) where there is no such node, or several and none was named, with the chain of nodes that was followed; where
// another node reads the weight; where a constant behind the head holds the old number; where a part of the classes is taken there.
NewHead replace_head(onnx::ModelProto& model, std::int64_t classes, const std::string& node);

}  // namespace tandem
