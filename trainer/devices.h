// Devices as users write them: cpu, cpu:0-3, cuda:0, cuda:0*4 (four logical devices on one), /GPU:0, separated by commas.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "planner/compile.h"
#include "ranks/world.h"

namespace tandem {

// `slice_weights`: "2,1,1", one a device; empty: equal shares. Fails (usage).
std::vector<DeviceSpec> parse_devices(std::string_view devices, std::string_view slice_weights = "");
// Those of this process, of several ranks (null: of the only one). Fails (usage) where one is there twice: other ranks may
// have devices of the same numbers on other machines.
std::vector<DeviceSpec> own_devices(const std::vector<DeviceSpec>& all, const World* world);
// The index of a device in the list. One that is not there is appended and has no samples. Fails (usage) where the text is not one device.
int add_device(std::vector<DeviceSpec>& devices, std::string_view text);
std::string to_string(const std::vector<DeviceSpec>& devices);  // "cpu:0, cpu:1"

}  // namespace tandem
