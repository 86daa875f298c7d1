// Devices by description: their peaks, memory and links, so that plans are made for devices that are not here.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "kernels/interconnect.h"
#include "kernels/precision.h"

namespace tandem {

struct DeviceKind {
  std::string name;                    // as --devices takes it: "a100-40"
  std::string product;                 // "NVIDIA A100 SXM 40GB"
  std::vector<std::string> reports;    // names that such a device gives of itself
  int capability = 0;                  // CUDA's, 90 is 9.0; 0: none
  double memory = 0;                   // bytes
  double bandwidth = 0;                // of memory, bytes/s, peak
  std::map<Precision, double> flops;   // of products, FLOP/s, peak; a format that is absent the device does not have. fp32 is always there
  // Shares of the peaks that kernels reach; `plain`: of products and convolutions in float32, which need no tensor cores.
  double products = 0, convolutions = 0, attention = 0, plain = 0, copies = 0;
  int multiprocessors = 0;
  Interconnect links;
  std::string source;                  // where the figures are from
};

// What `tandem devices --known --json` prints and --cluster reads: {"devices": [{"name": ..., "links": [...]}, ...]}. Fails (usage) where a
// member is missing or unknown, a rate is not above zero, or a level of links joins fewer devices than the one before; `where` begins the
// message.
std::vector<DeviceKind> read_device_kinds(const Json& json, std::string_view where);
Json to_json(const DeviceKind& kind);

// Those that the program knows: kernels/described/devices.json.
const std::vector<DeviceKind>& known_device_kinds();
// Null where there is none of that name.
const DeviceKind* find_device_kind(const std::vector<DeviceKind>& kinds, std::string_view name);
// The known kind of a device that gives this name of itself; null where there is none.
const DeviceKind* device_kind_of(std::string_view reported);

}  // namespace tandem
