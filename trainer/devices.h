// Devices as users write them: cpu, cpu:0-3, cuda:0, cuda:0*4 (four logical devices on one), separated by commas, and as TensorFlow writes
// them: /GPU:0, /job:worker/replica:0/task:1/device:GPU:2.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/backends.h"
#include "planner/compile.h"
#include "ranks/world.h"

namespace tandem {

// `slice_weights`: "2,1,1", one a device; empty: equal shares. TensorFlow's tasks are ranks: devices stand in their order, as many of each.
// Fails (usage).
std::vector<DeviceSpec> parse_devices(std::string_view devices, std::string_view slice_weights = "");
// Those of this process, of several ranks (null: of the only one). Fails (usage) where one is there twice: other ranks may
// have devices of the same numbers on other machines.
std::vector<DeviceSpec> own_devices(const std::vector<DeviceSpec>& all, const World* world);
// The index of a device in the list. One that is not there is appended and has no samples. Fails (usage) where the text is not one device;
// `asked`: the option that says it.
int add_device(std::vector<DeviceSpec>& devices, std::string_view text, std::string_view asked = "weights_on");
// Trained weights and optimizer states live on the device, which is added where it is not there. Who gives a number of replicas means the
// devices that have samples. Fails (usage) where the text is not one device.
void keep_weights_on(CompileOptions& plan, std::string_view device);
// The device, which is added as above, gets what the replicas give and computes the loss of the whole batch. Fails (usage) as above.
void merge_on(CompileOptions& plan, std::string_view device);
// The same in host memory, on the first CPU device; of several `ranks` on one more of each, which share the parameters out. Fails (usage)
// where no GPU is among the devices, and where something else says where they live.
void offload_optimizer(CompileOptions& plan, int ranks = 1);
// Activations of each GPU are kept by a CPU device of its own between the passes: by that on which the weights live, else by one that is
// added behind the devices of its rank. CPU devices' are where somebody said where weights live. Fails (usage) where there is nobody to
// send any, and where ranks have more and fewer of those.
void offload_activations(CompileOptions& plan, int ranks = 1);
std::string to_string(const std::vector<DeviceSpec>& devices);  // "cpu:0, cpu:1"

// The accelerators that are here.
struct Gpus {
  int count = 0;
  std::string backend = "cuda";
  std::string reason;  // why there is none
};
Gpus gpus_of(Backends backends);

// Devices that somebody left open, as a list that parse_devices takes.
struct DeviceChoice {
  std::string list;
  std::string why;  // empty: it was said
};
// `asked` is empty or "all" (all GPUs; where there is none cpu), a number N (the first N GPUs; where there is none N CPU devices), or a
// list. Several `processes` take one device each where it is open how many there are: with nothing said, or cpu or cuda without a number.
// `named`: lists of devices that are needed, too, where nothing is said: the first GPU, or cpu, and these. Fails (usage) where there are
// too few GPUs.
DeviceChoice chosen_devices(std::string_view asked, int processes, const std::function<Gpus()>& gpus,
                            const std::vector<std::string>& named = {});

// How many processes train on these devices where nobody says it: one for each GPU where all are GPUs, each there once, since the sums
// of one process's GPUs cannot be part of a captured step; else 1.
int usual_processes(const std::vector<DeviceSpec>& devices);

// Rules of a placement: "encoder.*=cpu:0;fc*=cpu:1", by devices of `devices`. Of `ranks` with devices of the same numbers a task tells
// which is meant. Fails (usage) on other text, and on a device that is not there. The function below reads the devices of one rule.
std::vector<Parallelism::Place> parse_place(std::string_view rules, const std::vector<DeviceSpec>& devices, int ranks = 1);
std::vector<int> places_of(std::string_view list, const std::vector<DeviceSpec>& devices, int ranks, const std::string& what);
std::vector<std::string> devices_in(std::string_view rules);  // of each rule, as they stand there

}  // namespace tandem
