// Another number of classes in what a file holds and declares.
#pragma once
#include <string>

#include "importer/edit/message_values.h"

namespace tandem {

struct ClassCount {
  std::int64_t before, now;
};

// The tensor without values, `size` long along that axis; so says what the graph declares of it.
void resize(onnx::GraphProto& graph, onnx::TensorProto& tensor, int axis, std::int64_t size);
// Of what is declared of a value the dimension that is the old number becomes the new one: the last, or with `second` axis 1 where that is
// one.
void declare(onnx::GraphProto& graph, const std::string& value, ClassCount classes, bool second);
// The shape that a Reshape reads: a constant of its own, with the new number in the place of the first old one from `first` on. Returns its
// name in the file.
std::string set_shape(MessageValues& values, onnx::NodeProto& reshape, int first, ClassCount classes);

}  // namespace tandem
