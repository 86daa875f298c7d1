// A table of what exporters write that cannot be trained, with the way round it that the exporter has.
#include "importer/build/unsupported.h"

#include <fnmatch.h>

#include <algorithm>

#include "base/suggest.h"
#include "graph/operator.h"
#include "importer/message/standard_operators.h"

namespace tandem {
namespace {

constexpr const char* text = "it works on strings: leave the text's preparation out of the export and feed numbers";
constexpr const char* kernel_machines = "support vectors are not trained by gradients; LinearSVC, LogisticRegression and MLPClassifier are";
constexpr const char* tensors_only = "it makes maps or lists for people: export with options={id(model): {'zipmap': False}}";
constexpr const char* optimizer = "the optimizer is tandem's own: export the model without its training step";

// By domain and operator, patterns of both.
struct Hint {
  const char* domain;
  const char* op;
  const char* what;
};
constexpr Hint hints[] = {
    {"", "String*", text},
    {"", "RegexFullMatch", text},
    {"", "ImageDecoder", "feed decoded images: leave the decoder out of the export"},
    {"", "ATen", "PyTorch's exporter fell back to its own operator: export with operator_export_type=ONNX or dynamo=True"},
    {"org.pytorch.aten", "*", "PyTorch's exporter fell back to its own operator: export with operator_export_type=ONNX or dynamo=True"},
    {"aten", "*", "PyTorch's exporter fell back to its own operator: export with operator_export_type=ONNX or dynamo=True"},
    {"prim", "*", "PyTorch's exporter kept a call of Python's: export in eval mode, or with dynamo=True"},
    {"pkg.*", "*", "a function without a body: export with export_modules_as_functions=False, or with dynamo=True"},
    {"ai.onnx.ml", "SVM*", kernel_machines},
    {"ai.onnx.ml", "Linear*", "of linear models those in the model's own graph are, with post_transform NONE, LOGISTIC or SOFTMAX"},
    {"ai.onnx.ml", "ZipMap", tensors_only},
    {"ai.onnx.ml", "DictVectorizer", "it takes a map: feed the vector of its numbers"},
    {"ai.onnx.ml", "Cast*", text},
    {"ai.onnx.ml", "CategoryMapper", text},
    {"ai.onnx.training", "*", optimizer},
    {"com.microsoft", "*Internal", "it stands in ONNX Runtime Training's own graph: give the model that was written before it"},
    {"com.microsoft", "*Grad", "it is the gradient of ONNX Runtime Training's own graph: give the model that was written before it"},
    {"com.microsoft", "*", "ONNX Runtime's optimizer wrote it for inference: give the model before it was optimised, or save it at ORT_ENABLE_BASIC"},
    {"com.microsoft.*", "*", "ONNX Runtime's optimizer wrote it for one processor: give the model before it was optimised, or save it at ORT_ENABLE_BASIC"},
    {"ai.onnx.contrib", "*", "it is a custom operator of onnxruntime-extensions: leave the preparation of data out of the export"},
    {"mmcv", "*", "it is a custom operator of mmcv: export with the ONNX backend's own operators"},
    {"*?", "Flex*", "tf2onnx found no operator for it: export for a newer opset"},
};

}  // namespace

std::string unsupported(const FlatNode& node) {
  const std::string reason = "the operator is not supported";
  for (const Hint& hint : hints)
    if (fnmatch(hint.domain, node.domain.c_str(), 0) == 0 && fnmatch(hint.op, node.op.c_str(), 0) == 0)
      return concat(reason, ": ", hint.what);
  if (!node.domain.empty() || is_standard_operator(node.op)) return reason;
  std::vector<std::string> names;
  for (const Operator& op : operators())
    if (op.domain.empty()) names.emplace_back(op.name);
  const std::string near = nearest(node.op, names);
  return near.empty() ? concat(reason, "; ONNX has none of this name") : concat(reason, ", did you mean '", near, "'?");
}

}  // namespace tandem
