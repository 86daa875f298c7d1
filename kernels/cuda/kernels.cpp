// CUDA's list of kernels: the libraries' first, then our own (native/kernels.cpp), which need none.
#include "kernels/cuda/kernels.h"

#include "kernels/cuda/cublas/families.h"
#include "kernels/cuda/cudnn/families.h"
#include "kernels/cuda/fused/elementwise.h"
#include "kernels/cuda/native/families.h"

namespace tandem::cuda {
namespace {

constexpr Row libraries_rows[] = {
    {"Conv", "cudnn.convolution", describe_cudnn_convolution},
    {"ConvTranspose", "cudnn.convolution_transpose", describe_cudnn_convolution_transpose},
    {"ConvolutionBackwardData", "cudnn.convolution_backward_data", describe_cudnn_convolution_backward_data},
    {"ConvolutionBackwardWeights", "cudnn.convolution_backward_weights", describe_cudnn_convolution_backward_weights},
    {"InnerProduct", "cublaslt.inner_product", describe_inner_product},
    {"InnerProductBackwardData", "cublaslt.inner_product_backward_data", describe_inner_product_backward_data},
    {"InnerProductBackwardWeights", "cublaslt.inner_product_backward_weights", describe_inner_product_backward_weights},
    {"MatMul", "cublaslt.matmul", describe_matmul},
    {"AveragePool", "cudnn.average_pool", describe_cudnn_pooling},
    {"AveragePoolBackward", "cudnn.average_pool_backward", describe_cudnn_pooling},
    {"BatchNormalizationBackward", "cudnn.batch_norm_backward", describe_cudnn_batch_norm_backward},
    {"BatchNormalizationTraining", "cudnn.batch_norm", describe_cudnn_batch_norm},
    {"MaxPoolBackward", "cudnn.max_pool_backward", describe_cudnn_pooling},
    {"MaxPoolTraining", "cudnn.max_pool", describe_cudnn_pooling},
};

}  // namespace

std::span<const Row> kernels() {
  static const std::vector<Row> all = [] {
    std::vector<Row> rows(std::begin(libraries_rows), std::end(libraries_rows));
    for (Row row : native_kernels()) {
      if (row.describe == describe_elementwise) row.describe = describe_fused_elementwise;  // the same, compiled where NVRTC is there
      rows.push_back(row);
    }
    return rows;
  }();
  return all;
}

}  // namespace tandem::cuda
