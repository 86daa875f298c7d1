// What planning needs of a GPU: its DeviceModel, and the JSON description from which cuDNN builds plans. Both are
// known for an H200 with no device at hand; a device at hand describes itself.
#pragma once
#include <string>

#include "kernels/device.h"

namespace tandem::cuda {

struct DeviceDescription {
  DeviceModel model;
  std::string cudnn_json;  // empty: cuDNN asks device `index`
  int index = 0;
  bool at_hand() const { return cudnn_json.empty(); }
  int capability = 0;      // compute capability: 90 is 9.0
};

DeviceDescription describe_h200();
DeviceDescription describe_device(int index);  // fails (device) where there is none of that index

}  // namespace tandem::cuda
