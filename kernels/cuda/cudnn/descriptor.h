// One descriptor of cuDNN's graph API ("backend API"), owned. Setters return the descriptor, so that they chain.
#pragma once
#include <cudnn.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace tandem::cuda {

// Fails (device) with cuDNN's own message.
void check(cudnnStatus_t status, std::string_view what);

class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);

  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count, const void* values);
  Descriptor& set(cudnnBackendAttributeName_t name, std::int64_t value) { return set(name, CUDNN_TYPE_INT64, 1, &value); }
  Descriptor& set(cudnnBackendAttributeName_t name, bool value) { return set(name, CUDNN_TYPE_BOOLEAN, 1, &value); }
  Descriptor& set(cudnnBackendAttributeName_t name, float value) { return set(name, CUDNN_TYPE_FLOAT, 1, &value); }
  Descriptor& set(cudnnBackendAttributeName_t name, double value) { return set(name, CUDNN_TYPE_DOUBLE, 1, &value); }
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnDataType_t value) { return set(name, CUDNN_TYPE_DATA_TYPE, 1, &value); }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& value);
  Descriptor& set(cudnnBackendAttributeName_t name, std::span<const std::int64_t> values) {
    return set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
  }
  Descriptor& set(cudnnBackendAttributeName_t name, std::span<const Descriptor> values);
  Descriptor& finalize(std::string_view what);  // `what` for the message

  Descriptor& set_text(cudnnBackendAttributeName_t name, const std::string& value) {
    return set(name, CUDNN_TYPE_CHAR, static_cast<std::int64_t>(value.size()), value.data());
  }

  std::int64_t integer(cudnnBackendAttributeName_t name) const;
  std::string text(cudnnBackendAttributeName_t name) const;
  // As many values as there are, of a type of cuDNN's.
  template <class T>
  std::vector<T> values(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t most) const {
    std::vector<T> v(static_cast<std::size_t>(most));
    std::int64_t count = 0;
    check(cudnnBackendGetAttribute(native(), name, type, most, &count, v.data()), "read an attribute");
    v.resize(static_cast<std::size_t>(std::min(count, most)));
    return v;
  }
  // All of them; `most`: how many there can be, for attributes that do not say.
  std::vector<Descriptor> descriptors(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type, std::int64_t most = 0) const;

  cudnnBackendDescriptor_t native() const { return descriptor_.get(); }

 private:
  struct Destroy {
    void operator()(void* d) const { cudnnBackendDestroyDescriptor(d); }
  };
  std::unique_ptr<void, Destroy> descriptor_;
};

}  // namespace tandem::cuda
