// An operation graph of cuDNN's: tensors and the operations between them. Tensors are given and named by small numbers;
// those with a role are bound to memory, the others are virtual (they exist only inside the fused kernel).
#pragma once
#include <optional>
#include <vector>

#include "graph/shape.h"
#include "kernels/cuda/cudnn/descriptor.h"

namespace tandem::cuda {

using Dims = std::vector<std::int64_t>;

cudnnDataType_t cudnn_type(DType dtype);  // fails (device) for types that cuDNN does not have
Dims channels_last_strides(const Dims& dims);

struct Window {
  Dims kernel, strides, pads_begin, pads_end, dilations;
};

class CudnnGraph {
 public:
  struct TensorId {
    std::size_t index;
  };

  // Channels last in memory. A tensor with a role: the operand's number that its user binds it by.
  TensorId tensor(DType dtype, Dims dims, int role);
  TensorId virtual_tensor(DType dtype, Dims dims);
  TensorId number(int role);  // one float32 given by value

  TensorId strided(DType dtype, Dims dims, Dims strides, std::optional<int> role);  // without a role virtual
  // One matrix, row by row or, transposed, column by column; without a role virtual.
  TensorId matrix(DType dtype, std::int64_t rows, std::int64_t columns, std::optional<int> role, bool transposed = false);

  void matmul(TensorId a, TensorId b, TensorId c);
  void convolution(TensorId x, TensorId w, TensorId y, const Window& window, DType compute);
  void convolution_backward_data(TensorId dy, TensorId w, TensorId dx, const Window& window, DType compute);
  void convolution_backward_weights(TensorId x, TensorId dy, TensorId dw, const Window& window, DType compute);
  void channel_sums(TensorId y, TensorId sum, TensorId squares);  // Σ y and Σ y² by channel
  void pointwise(cudnnPointwiseMode_t mode, TensorId x, std::optional<TensorId> b, TensorId y);
  // The same in another type than float32, with a third operand, which chooses, or along an axis.
  struct Function {
    cudnnPointwiseMode_t mode;
    DType compute = DType::float32;
    std::optional<TensorId> chooses = {};
    std::optional<std::int64_t> axis = {};
  };
  void pointwise(const Function& f, TensorId x, std::optional<TensorId> b, TensorId y);
  void reduce(cudnnReduceTensorOp_t by, TensorId x, TensorId y);  // along the axes where y has ones
  void reshape(TensorId x, TensorId y);
  void pointwise_backward(cudnnPointwiseMode_t mode, TensorId x, TensorId dy, TensorId dx);
  // The largest of each window; `index`: its place there.
  void pool(TensorId x, TensorId y, TensorId index, const Window& window);
  void pool_backward(TensorId dy, TensorId dx, TensorId index, const Window& window);
  // By rows there may be no bias, and of a mean square no mean.
  struct Norm {
    TensorId x, scale;
    std::optional<TensorId> bias;
    TensorId epsilon, y;
    std::optional<TensorId> mean;
    TensorId inverse_deviation;
    cudnnBackendNormMode_t mode = CUDNN_BATCH_NORM;
  };
  void norm_training(const Norm& n);
  struct NormBackward {
    TensorId x, dy, scale;
    std::optional<TensorId> mean;
    TensorId inverse_deviation, dscale;
    std::optional<TensorId> dbias;
    TensorId dx;
    cudnnBackendNormMode_t mode = CUDNN_BATCH_NORM;
  };
  void norm_backward(const NormBackward& n);

  // Roles and tensors' numbers, for binding: role(i) is bound to unique id uid(i).
  struct Binding {
    int role;
    std::int64_t uid;
  };
  const std::vector<Binding>& bindings() const { return bindings_; }
  // All that a plan for it depends on: tensors, operations and what they are called with.
  const std::string& text() const { return text_; }
  // With a handle for running on its device; without for planning.
  Descriptor finalized(cudnnHandle_t handle) const;

 private:
  const Descriptor& operator[](TensorId id) const { return tensors_[id.index]; }
  TensorId add(DType dtype, const Dims& dims, const Dims& strides, bool is_virtual, bool by_value);
  TensorId bound(TensorId id, int role);
  std::vector<Descriptor> tensors_;
  std::vector<Descriptor> operations_;
  std::vector<Binding> bindings_;
  std::string text_;
  template <class... Parts>
  void say(const Parts&... parts) {
    text_ += concat(parts...);
    text_ += '\n';
  }
};

}  // namespace tandem::cuda
