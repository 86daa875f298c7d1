// Owns a descriptor and sets its attributes; what cuDNN refuses is an error that says what it was.
#include "kernels/cuda/cudnn/descriptor.h"

#include <algorithm>

namespace tandem::cuda {

void check(cudnnStatus_t status, std::string_view what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char message[512] = {};
  cudnnGetLastErrorString(message, sizeof message);
  fail(ExitCode::device, "cuDNN: ", what, ": ", cudnnGetErrorString(status), " (", message, ")");
}

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t made = nullptr;
  check(cudnnBackendCreateDescriptor(type, &made), "create a descriptor");
  descriptor_.reset(made);
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count, const void* values) {
  check(cudnnBackendSetAttribute(native(), name, type, count, values), concat("set attribute ", static_cast<int>(name)));
  return *this;
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, const Descriptor& value) {
  const cudnnBackendDescriptor_t d = value.native();
  return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &d);
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, std::span<const Descriptor> values) {
  std::vector<cudnnBackendDescriptor_t> natives;
  for (const Descriptor& d : values) natives.push_back(d.native());
  return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(natives.size()), natives.data());
}

Descriptor& Descriptor::finalize(std::string_view what) {
  check(cudnnBackendFinalize(native()), what);
  return *this;
}

std::int64_t Descriptor::integer(cudnnBackendAttributeName_t name) const {
  std::int64_t value = 0, count = 0;
  check(cudnnBackendGetAttribute(native(), name, CUDNN_TYPE_INT64, 1, &count, &value), concat("read attribute ", static_cast<int>(name)));
  return value;
}

std::string Descriptor::text(cudnnBackendAttributeName_t name) const {
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(native(), name, CUDNN_TYPE_CHAR, 0, &count, nullptr), "measure a text");
  std::string text(static_cast<std::size_t>(count), '\0');
  check(cudnnBackendGetAttribute(native(), name, CUDNN_TYPE_CHAR, count, &count, text.data()), "read a text");
  text.resize(static_cast<std::size_t>(count));
  return text;
}

std::vector<Descriptor> Descriptor::descriptors(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type,
                                                std::int64_t most) const {
  std::int64_t count = most;
  if (most == 0) check(cudnnBackendGetAttribute(native(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr), "count descriptors");
  std::vector<Descriptor> made;
  std::vector<cudnnBackendDescriptor_t> natives;
  for (std::int64_t i = 0; i < count; ++i) natives.push_back(made.emplace_back(type).native());
  if (count > 0)
    check(cudnnBackendGetAttribute(native(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, natives.data()), "read descriptors");
  made.erase(made.begin() + std::min(count, static_cast<std::int64_t>(made.size())), made.end());
  return made;
}

}  // namespace tandem::cuda
