// How a training step would scale: plans for other numbers of devices, batches, number formats and links, side by side.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/plan/bounds.h"
#include "trainer/template/model_template.h"

namespace tandem {

struct WhatIf {
  std::vector<int> devices;             // empty: those of the options
  std::vector<std::int64_t> batches;    // empty: each device's samples as the options have them
  bool per_device = false;              // batches are each device's samples, not those of all
  std::vector<Precision> precisions;    // empty: the options'
  std::vector<double> links;            // bytes/s of the outermost links; empty: as they are
  double price = 0;                     // of a device's hour; 0: costs are not told
};
// "devices=1..64,batch=256|512,precision=fp32|bf16,link=12|50,price=2.5": values between |; 1..64 are 1, 2, 4, ... and 64; batch=32/device;
// links in GB/s. Fails (usage).
WhatIf parse_what_if(std::string_view text);

struct WhatIfRow {
  int devices = 1;
  std::int64_t batch = 0;               // of all devices
  Precision precision = Precision::fp32;
  double link = 0;                      // bytes/s; 0: as it is
  std::string problem;                  // why there is no plan: all below is 0
  double seconds = 0;                   // a step
  double samples_per_second = 0;
  double efficiency = 0;                // samples/s of a device by those of the first row of this format and link: 1 where it scales
  std::int64_t bytes = 0, memory = 0;   // of the fullest device: what it takes, and what there is
  double cost = 0;                      // of a million samples
  StepBounds bounds;
};

// Plans for each combination, devices innermost. `backends` gives those of a link's rate, 0: as it is. Fails (usage) where devices are of
// several kinds and other numbers of them are asked for. A plan that cannot be made is a row with the reason.
std::vector<WhatIfRow> what_if(const ModelTemplate& model, const ModelOptions& options, const WhatIf& asked,
                               const std::function<Backends(double link)>& backends);

}  // namespace tandem
