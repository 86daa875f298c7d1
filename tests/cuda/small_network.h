// Small networks, one with every family of layers for images and one with two recurrent layers, trained for a few steps by any backend.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "planner/options.h"
#include "runtime/session.h"

namespace tandem::cuda {

struct SmallTraining {
  std::string optimizer = "sgd";
  int devices = 1;        // the first has twice the others' share; on backends other than the CPU they share device 0
  // Of recurrent layers: LSTM, GRU, "linear GRU" or RNN. "layers": dense layers; "residual": dropout, sums and norms; none: the network for
  // images.
  std::string cell = {};
  Parallelism parallel = {};
  bool weight_gradients_beside = false;
  Precision precision = Precision::fp32;
  std::vector<std::string> without_passes = {};
};
// The loss of each step. `before_step` sees the session before every one.
std::vector<float> train_small_network(const Backend& backend, const SmallTraining& training,
                                       const std::function<void(const Session&)>& before_step = {});

}  // namespace tandem::cuda
