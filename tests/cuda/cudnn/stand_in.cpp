#include "tests/cuda/cudnn/stand_in.h"

#include <cublasLt.h>
#include <cudnn.h>

#include <algorithm>
#include <cstring>
#include <map>

namespace tandem::test::cudnn {
namespace {

struct Descriptor {
  cudnnBackendDescriptorType_t type;
  std::map<cudnnBackendAttributeName_t, std::vector<std::int64_t>> integers;
  std::string text;  // that it is to be made of
};
Descriptor& at(cudnnBackendDescriptor_t d) { return *static_cast<Descriptor*>(d); }

}  // namespace

Library& library() {
  static Library one;
  return one;
}

}  // namespace tandem::test::cudnn

using namespace tandem::test::cudnn;

extern "C" {

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* made) {
  *made = new Descriptor{type, {}, {}};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d) { return delete &at(d), CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                       int64_t count, const void* values) {
  std::vector<std::int64_t>& kept = at(d).integers[name];
  kept.assign(static_cast<std::size_t>(count), 0);
  if (name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION)
    at(d).text.assign(static_cast<const char*>(values), static_cast<std::size_t>(count));
  if (type == CUDNN_TYPE_INT64) std::memcpy(kept.data(), values, static_cast<std::size_t>(count) * 8);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t d) {
  Library& l = library();
  if (at(d).type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) return CUDNN_STATUS_SUCCESS;
  if (!at(d).text.empty() && at(d).text != l.text) return CUDNN_STATUS_BAD_PARAM;
  ++(at(d).text.empty() ? l.built : l.read);
  return CUDNN_STATUS_SUCCESS;
}
size_t cudnnGetVersion() { return library().version; }
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                       int64_t room, int64_t* count, void* values) {
  Library& l = library();
  *count = 0;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    *count = room == 0 ? std::ssize(l.notes) : std::min<std::int64_t>(room, std::ssize(l.notes));
    for (std::int64_t i = 0; i < std::min(room, *count); ++i)
      at(static_cast<cudnnBackendDescriptor_t*>(values)[i]).integers[CUDNN_ATTR_ENGINE_GLOBAL_INDEX] = {l.first + i};
  } else if (name == CUDNN_ATTR_ENGINECFG_ENGINE && room > 0) {  // as it is asked: a descriptor to fill in
    *count = 1;
    at(static_cast<cudnnBackendDescriptor_t*>(values)[0]).integers = at(d).integers;
  } else if (name == CUDNN_ATTR_ENGINECFG_ENGINE) {
    *count = 1;
  } else if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) {
    const std::int64_t engine = at(d).integers[CUDNN_ATTR_ENGINE_GLOBAL_INDEX][0] - l.first;
    for (const cudnnBackendNumericalNote_t note : l.notes[static_cast<std::size_t>(engine)])
      static_cast<cudnnBackendNumericalNote_t*>(values)[(*count)++] = note;
  } else if (name == CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE && l.compiles) {
    *count = 1;
    *static_cast<cudnnBackendBehaviorNote_t*>(values) = CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
  } else if (name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION) {
    if (l.text.empty()) return CUDNN_STATUS_NOT_SUPPORTED;
    *count = std::ssize(l.text);
    if (values) std::memcpy(values, l.text.data(), static_cast<std::size_t>(std::min<std::int64_t>(room, *count)));
  } else if (type == CUDNN_TYPE_INT64) {
    *count = 1;
    const bool runs = at(d).integers.contains(CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
    *static_cast<std::int64_t*>(values) = name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX ? at(d).integers[name][0]
                                          : runs                                 ? l.workspace_on_device
                                                                                 : l.planned_workspace;
  }
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t) { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t stream) { return library().stream = stream, CUDNN_STATUS_SUCCESS; }
const char* cudnnGetErrorString(cudnnStatus_t) { return "stand-in status"; }
void cudnnGetLastErrorString(char* message, size_t size) { std::strncpy(message, "nothing more", size); }
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  return *handle = reinterpret_cast<cudnnHandle_t>(std::uintptr_t{64}), CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t) { return CUDNN_STATUS_SUCCESS; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t*) { return CUBLAS_STATUS_NOT_INITIALIZED; }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "stand-in status"; }

cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "stand-in error"; }
const char* cudaGetErrorName(cudaError_t) { return "stand-in error"; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp*, int) { return cudaErrorNoDevice; }
cudaError_t cudaDeviceGetAttribute(int*, cudaDeviceAttr, int) { return cudaErrorNoDevice; }

}  // extern "C"
