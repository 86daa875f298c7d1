// Builds cuDNN's operation graphs, an operation a function.
#include "kernels/cuda/cudnn/graph.h"

namespace tandem::cuda {
namespace {

Descriptor convolution_descriptor(const Window& w, DType compute) {
  Descriptor d(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  d.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, cudnn_type(compute))
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, static_cast<std::int64_t>(w.strides.size()))
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, w.pads_begin)
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, w.pads_end)
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, w.strides)
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, w.dilations)
      .finalize("convolution");
  return d;
}

Descriptor pointwise_descriptor(cudnnPointwiseMode_t mode) {
  Descriptor d(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  d.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode)
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT)
      .finalize("pointwise function");
  return d;
}

Descriptor pooling_descriptor(const Window& w) {
  Descriptor d(CUDNN_BACKEND_RESAMPLE_DESCRIPTOR);
  const cudnnResampleMode_t mode = CUDNN_RESAMPLE_MAXPOOL;
  const cudnnNanPropagation_t nan = CUDNN_PROPAGATE_NAN;
  const cudnnPaddingMode_t padding = CUDNN_NEG_INF_PAD;
  d.set(CUDNN_ATTR_RESAMPLE_MODE, CUDNN_TYPE_RESAMPLE_MODE, 1, &mode)
      .set(CUDNN_ATTR_RESAMPLE_COMP_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_RESAMPLE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, 1, &nan)
      .set(CUDNN_ATTR_RESAMPLE_PADDING_MODE, CUDNN_TYPE_PADDING_MODE, 1, &padding)
      .set(CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, static_cast<std::int64_t>(w.kernel.size()))
      .set(CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, w.kernel)
      .set(CUDNN_ATTR_RESAMPLE_STRIDES, w.strides)
      .set(CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, w.pads_begin)
      .set(CUDNN_ATTR_RESAMPLE_POST_PADDINGS, w.pads_end)
      .finalize("pooling");
  return d;
}

std::string text_of(const Dims& dims) { return to_string(Shape(dims)); }
std::string text_of(const Window& w) {
  return concat(text_of(w.kernel), text_of(w.strides), text_of(w.pads_begin), text_of(w.pads_end), text_of(w.dilations));
}
template <class... Ids>
std::string text_of(const Ids&... ids) {
  std::string text;
  ((text += concat(' ', ids.index)), ...);
  return text;
}

}  // namespace

cudnnDataType_t cudnn_type(DType dtype) {
  switch (dtype) {
    case DType::float32: return CUDNN_DATA_FLOAT;
    case DType::float64: return CUDNN_DATA_DOUBLE;
    case DType::float16: return CUDNN_DATA_HALF;
    case DType::bfloat16: return CUDNN_DATA_BFLOAT16;
    case DType::int8: return CUDNN_DATA_INT8;
    case DType::int32: return CUDNN_DATA_INT32;
    case DType::boolean: return CUDNN_DATA_BOOLEAN;
    default: fail(ExitCode::device, "cuDNN has no type for ", dtype);
  }
}

Dims channels_last_strides(const Dims& dims) {
  Dims strides(dims.size());
  strides[1] = 1;
  std::int64_t stride = dims[1];
  for (std::size_t i = dims.size(); i-- > 2;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  strides[0] = stride;
  return strides;
}

CudnnGraph::TensorId CudnnGraph::add(DType dtype, const Dims& dims, const Dims& strides, bool is_virtual, bool by_value) {
  say(dtype, text_of(dims), text_of(strides), is_virtual, by_value);
  Descriptor& d = tensors_.emplace_back(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  d.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, static_cast<std::int64_t>(tensors_.size()))
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, cudnn_type(dtype))
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, dims)
      .set(CUDNN_ATTR_TENSOR_STRIDES, strides)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16})
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_virtual)
      .set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, by_value)
      .finalize("tensor");
  return {tensors_.size() - 1};
}
CudnnGraph::TensorId CudnnGraph::bound(TensorId id, int role) {
  bindings_.push_back({role, static_cast<std::int64_t>(tensors_.size())});
  return id;
}
CudnnGraph::TensorId CudnnGraph::tensor(DType dtype, Dims dims, int role) {
  return bound(add(dtype, dims, channels_last_strides(dims), false, false), role);
}
CudnnGraph::TensorId CudnnGraph::virtual_tensor(DType dtype, Dims dims) {
  return add(dtype, dims, channels_last_strides(dims), true, false);
}
CudnnGraph::TensorId CudnnGraph::number(int role) {
  const Dims one{1, 1, 1, 1};
  return bound(add(DType::float32, one, one, false, true), role);
}
CudnnGraph::TensorId CudnnGraph::strided(DType dtype, Dims dims, Dims strides, std::optional<int> role) {
  const TensorId id = add(dtype, dims, strides, !role, false);
  return role ? bound(id, *role) : id;
}
CudnnGraph::TensorId CudnnGraph::matrix(DType dtype, std::int64_t rows, std::int64_t columns, std::optional<int> role, bool transposed) {
  return strided(dtype, {1, rows, columns}, transposed ? Dims{rows * columns, 1, rows} : Dims{rows * columns, columns, 1}, role);
}

void CudnnGraph::matmul(TensorId a, TensorId b, TensorId c) {
  say("matmul", text_of(a, b, c));
  Descriptor product(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  product.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT).finalize("product");
  operations_.emplace_back(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, (*this)[a])
      .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, (*this)[b])
      .set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, (*this)[c])
      .set(CUDNN_ATTR_OPERATION_MATMUL_DESC, product)
      .finalize("matrix product");
}

void CudnnGraph::convolution(TensorId x, TensorId w, TensorId y, const Window& window, DType compute) {
  say("convolution", text_of(x, w, y), text_of(window), compute);
  const Descriptor conv = convolution_descriptor(window, compute);
  operations_.emplace_back(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, (*this)[x])
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, (*this)[w])
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, (*this)[y])
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, conv)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.0F)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0.0F)
      .finalize("convolution forward");
}

void CudnnGraph::convolution_backward_data(TensorId dy, TensorId w, TensorId dx, const Window& window, DType compute) {
  say("convolution backward data", text_of(dy, w, dx), text_of(window), compute);
  const Descriptor conv = convolution_descriptor(window, compute);
  operations_.emplace_back(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, (*this)[dy])
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, (*this)[w])
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, (*this)[dx])
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, conv)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 1.0F)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 0.0F)
      .finalize("convolution backward data");
}

void CudnnGraph::convolution_backward_weights(TensorId x, TensorId dy, TensorId dw, const Window& window, DType compute) {
  say("convolution backward weights", text_of(x, dy, dw), text_of(window), compute);
  const Descriptor conv = convolution_descriptor(window, compute);
  operations_.emplace_back(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, (*this)[x])
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, (*this)[dy])
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, (*this)[dw])
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, conv)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 1.0F)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 0.0F)
      .finalize("convolution backward weights");
}

void CudnnGraph::channel_sums(TensorId y, TensorId sum, TensorId squares) {
  say("sums by channel", text_of(y, sum, squares));
  const cudnnGenStatsMode_t mode = CUDNN_GENSTATS_SUM_SQSUM;
  operations_.emplace_back(CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE, 1, &mode)
      .set(CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_OPERATION_GENSTATS_XDESC, (*this)[y])
      .set(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, (*this)[sum])
      .set(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, (*this)[squares])
      .finalize("sums by channel");
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, TensorId x, std::optional<TensorId> b, TensorId y) {
  pointwise(Function{mode}, x, b, y);
}

void CudnnGraph::pointwise(const Function& f, TensorId x, std::optional<TensorId> b, TensorId y) {
  say("pointwise ", static_cast<int>(f.mode), ' ', f.compute, text_of(x, y), b ? text_of(*b) : "",
      f.chooses ? concat(" by", text_of(*f.chooses)) : "", f.axis ? concat(" along ", *f.axis) : "");
  Descriptor function(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  function.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &f.mode).set(CUDNN_ATTR_POINTWISE_MATH_PREC, cudnn_type(f.compute));
  if (f.axis) function.set(CUDNN_ATTR_POINTWISE_AXIS, *f.axis);
  function.finalize("pointwise function");
  Descriptor d(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  d.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function).set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, (*this)[x]);
  if (b) d.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, (*this)[*b]);
  if (f.chooses) d.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, (*this)[*f.chooses]);
  d.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, (*this)[y]).finalize("pointwise");
  operations_.push_back(std::move(d));
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t by, TensorId x, TensorId y) {
  say("reduce ", static_cast<int>(by), text_of(x, y));
  Descriptor reduction(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  reduction.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &by)
      .set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .finalize("reduction");
  operations_.emplace_back(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, (*this)[x])
      .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, (*this)[y])
      .set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction)
      .finalize("reduction");
}

void CudnnGraph::reshape(TensorId x, TensorId y) {
  say("reshape", text_of(x, y));
  operations_.emplace_back(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, (*this)[x])
      .set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, (*this)[y])
      .finalize("reshape");
}

void CudnnGraph::pointwise_backward(cudnnPointwiseMode_t mode, TensorId x, TensorId dy, TensorId dx) {
  say("pointwise backward ", static_cast<int>(mode), text_of(x, dy, dx));
  const Descriptor function = pointwise_descriptor(mode);
  operations_.emplace_back(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, (*this)[x])
      .set(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, (*this)[dy])
      .set(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, (*this)[dx])
      .finalize("pointwise backward");
}

void CudnnGraph::pool(TensorId x, TensorId y, TensorId index, const Window& window) {
  say("pool ", text_of(x, y, index), text_of(window));
  const Descriptor pooling = pooling_descriptor(window);
  operations_.emplace_back(CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC, (*this)[x])
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, (*this)[y])
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC, pooling)
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_ALPHA, 1.0)
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_BETA, 0.0)
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC, (*this)[index])
      .finalize("pooling forward");
}

// By the forward pass's index: from x and y alone cuDNN crashes.
void CudnnGraph::pool_backward(TensorId dy, TensorId dx, TensorId index, const Window& window) {
  say("pool backward ", text_of(dy, dx, index), text_of(window));
  const Descriptor pooling = pooling_descriptor(window);
  operations_.emplace_back(CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC, (*this)[dy])
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC, (*this)[dx])
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC, pooling)
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_ALPHA, 1.0)
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_BETA, 0.0)
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC, (*this)[index])
      .finalize("pooling backward");
}

void CudnnGraph::norm_training(const Norm& n) {
  say("normalization ", static_cast<int>(n.mode), text_of(n.x, n.scale, n.epsilon, n.y, n.inverse_deviation),
      n.bias ? concat(" bias", text_of(*n.bias)) : "", n.mean ? concat(" mean", text_of(*n.mean)) : "");
  const cudnnBackendNormFwdPhase_t phase = CUDNN_NORM_FWD_TRAINING;
  Descriptor& d = operations_.emplace_back(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR)
                      .set(CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, 1, &n.mode)
                      .set(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE, 1, &phase)
                      .set(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, (*this)[n.x])
                      .set(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, (*this)[n.scale])
                      .set(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, (*this)[n.epsilon])
                      .set(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, (*this)[n.y])
                      .set(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, (*this)[n.inverse_deviation]);
  if (n.bias) d.set(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, (*this)[*n.bias]);
  if (n.mean) d.set(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, (*this)[*n.mean]);
  d.finalize("normalization forward");
}

void CudnnGraph::norm_backward(const NormBackward& n) {
  say("normalization backward ", static_cast<int>(n.mode), text_of(n.x, n.dy, n.scale, n.inverse_deviation, n.dscale, n.dx),
      n.mean ? concat(" mean", text_of(*n.mean)) : "", n.dbias ? concat(" bias", text_of(*n.dbias)) : "");
  Descriptor& d = operations_.emplace_back(CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR)
                      .set(CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE, 1, &n.mode)
                      .set(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, (*this)[n.x])
                      .set(CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, (*this)[n.dy])
                      .set(CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, (*this)[n.scale])
                      .set(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, (*this)[n.inverse_deviation])
                      .set(CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, (*this)[n.dscale])
                      .set(CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, (*this)[n.dx]);
  if (n.mean) d.set(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, (*this)[*n.mean]);
  if (n.dbias) d.set(CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, (*this)[*n.dbias]);
  d.finalize("normalization backward");
}

Descriptor CudnnGraph::finalized(cudnnHandle_t handle) const {
  Descriptor d(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (handle) d.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  d.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, std::span<const Descriptor>(operations_)).finalize("operation graph");
  return d;
}

}  // namespace tandem::cuda
