// The rows of operators.cpp, by the file that defines them.
#pragma once
#include "graph/operator.h"

namespace tandem {

// activations.cpp
Operator celu();
Operator gelu();
Operator hard_swish();
Operator mish();
Operator prelu();
Operator selu();
Operator softsign();
Operator swish();
Operator thresholded_relu();

// batch_normalization.cpp
Operator batch_normalization();
Operator batch_normalization_training();
Operator batch_normalization_backward();
Operator batch_normalization_factors();
Operator running_statistics();

// cast.cpp
Operator cast_operator();
Operator cast_like();

// clip.cpp
Operator clip();

// comparisons.cpp
Operator equal();
Operator greater();
Operator greater_or_equal();
Operator less();
Operator less_or_equal();
Operator logical_and();
Operator logical_not();
Operator logical_or();
Operator logical_xor();
Operator where();

// concat.cpp
Operator concat();

// constants.cpp
Operator constant();
Operator constant_of_shape();
Operator range();
Operator shape_operator();
Operator size_operator();

// conv.cpp
Operator conv();
Operator convolution_backward_data();
Operator convolution_backward_weights();

// conv_transpose.cpp
Operator conv_transpose();

// dropout.cpp
Operator dropout();
Operator dropout_training();
Operator dropout_backward();

// elementwise_backward.cpp
Operator clip_backward();
Operator elu_backward();
Operator hard_sigmoid_backward();
Operator leaky_relu_backward();
Operator relu_backward();
Operator sigmoid_backward();
Operator tanh_backward();

// elementwise_binary.cpp
Operator add();
Operator sub();
Operator mul();
Operator div();
Operator max();
Operator min();
Operator mean();
Operator sum();
Operator mod();
Operator pow();

// elementwise_unary.cpp
Operator abs();
Operator ceil();
Operator cos();
Operator elu();
Operator erf();
Operator exp();
Operator floor();
Operator hard_sigmoid();
Operator leaky_relu();
Operator log();
Operator neg();
Operator reciprocal();
Operator relu();
Operator round();
Operator sigmoid();
Operator sign();
Operator sin();
Operator softplus();
Operator sqrt();
Operator tanh();

// expand.cpp
Operator expand();
Operator tile();

// gather.cpp
Operator gather();
Operator gather_backward();

// gemm.cpp
Operator gemm();

// global_pooling.cpp
Operator global_average_pool();
Operator global_max_pool();

// inner_product.cpp
Operator inner_product();
Operator inner_product_backward_data();
Operator inner_product_backward_weights();

// internal.cpp
Operator all_reduce();
Operator reorder();
Operator fill();
Operator elementwise();

// loss_scale.cpp
Operator all_finite();
Operator loss_scale();
Operator loss_scale_update();
Operator scaled_scalars();

// losses.cpp
Operator negative_log_likelihood_loss();
Operator negative_log_likelihood_loss_backward();
Operator softmax_cross_entropy_loss();
Operator softmax_cross_entropy_training();
Operator count_correct();

// lrn.cpp
Operator lrn();
Operator lrn_training();
Operator lrn_backward();

// matmul.cpp
Operator matmul();

// normalization.cpp
Operator instance_normalization();
Operator group_normalization();
Operator layer_normalization();
Operator rms_normalization();
Operator mean_variance_normalization();

// pad.cpp
Operator pad();
Operator pad_backward();

// pooling.cpp
Operator max_pool();
Operator max_pool_training();
Operator max_pool_backward();
Operator average_pool();
Operator average_pool_backward();

// reductions.cpp
Operator reduce_sum();
Operator reduce_mean();
Operator reduce_max();
Operator reduce_min();
Operator reduce_prod();
Operator reduce_l1();
Operator reduce_l2();
Operator reduce_log_sum();
Operator reduce_log_sum_exp();
Operator reduce_sum_square();
Operator arg_max();
Operator arg_min();

// reshape.cpp
Operator reshape();
Operator flatten();
Operator squeeze();
Operator unsqueeze();
Operator identity();

// slice.cpp
Operator slice();
Operator slice_backward();
Operator split();

// softmax.cpp
Operator softmax();
Operator log_softmax();
Operator hardmax();

// transpose.cpp
Operator transpose();
Operator depth_to_space();
Operator space_to_depth();

// updates.cpp
Operator sgd_update();
Operator adam_update();
Operator rmsprop_update();

}  // namespace tandem
