// Where the classes lie in a value behind a head, as far as the file's message tells without shapes.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "importer/message/onnx_messages.h"

namespace tandem {

struct ClassAxis {
  int axis = -1;  // from the front, or negative from the back
  int rank = -1;  // -1: not known
  bool known() const { return known_; }
  static ClassAxis unknown() {
    ClassAxis a;
    a.known_ = false;
    return a;
  }
  // Whether axis `other` of this value is that of the classes; absent: cannot be told.
  std::optional<bool> is(std::int64_t other) const;

 private:
  bool known_ = true;
};

// The integers that an operand, or in older opsets an attribute, holds; absent: it is not given or not constant.
using IntegersOf = std::function<std::optional<std::vector<std::int64_t>>(int operand, const char* attribute)>;

// In the result of a node whose operand has its classes at `from`. Absent: the result has no classes any more.
std::optional<ClassAxis> classes_behind(const onnx::NodeProto& node, const ClassAxis& from, std::int64_t classes,
                                        const IntegersOf& integers);

// Whether a Slice or Gather takes a part of the classes (absent: cannot be told).
std::optional<bool> takes_part(const onnx::NodeProto& node, const ClassAxis& from, const IntegersOf& integers);

}  // namespace tandem
