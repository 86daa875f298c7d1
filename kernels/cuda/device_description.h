// What planning needs of a GPU: its DeviceModel, and the JSON description from which cuDNN builds plans. Both are
// known for an H200 with no device at hand; a device at hand describes itself.
#pragma once
#include <string>

#include "graph/dtype.h"
#include "kernels/device.h"

namespace tandem::cuda {

struct DeviceDescription {
  DeviceModel model;
  std::string cudnn_json;  // empty: cuDNN asks device `index`
  int index = 0;
  bool at_hand() const { return cudnn_json.empty(); }
  int capability = 0;      // compute capability: 90 is 9.0
  double tensor_speed = 1;  // of products of 16 bits on tensor cores, by the device's float32 peak
};

// The peak of products of these numbers by the device's float32 peak: 16 bits, and float32 rounded to TF32, run on tensor
// cores, the latter at half the rate, 8 bits at twice.
inline double speed_of_products(const DeviceDescription& device, DType dtype, bool tf32) {
  if (is_small(dtype)) return 2 * device.tensor_speed;
  if (size_of(dtype) == 2) return device.tensor_speed;
  return dtype == DType::float32 && tf32 ? device.tensor_speed / 2 : 1;
}

// The efficiency of products of so many FLOPs that reach `efficiency`, and then, or before, move these bytes.
inline double slowed(double efficiency, double flops, std::int64_t bytes, const DeviceModel& device) {
  return 1 / (1 / efficiency + static_cast<double>(bytes) / device.bandwidth * device.flops / flops);
}

DeviceDescription describe_h200();
DeviceDescription describe_device(int index);  // fails (device) where there is none of that index

}  // namespace tandem::cuda
