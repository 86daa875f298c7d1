// From programs to a plan: slices of the batch, all-reduces, concats, memory.
#pragma once
#include <string>
#include <vector>

#include "planner/lower/lowered_graph.h"
#include "planner/options.h"

namespace tandem {

struct Replica {
  DeviceSpec spec;
  DeviceModel model;
  std::int64_t slice_begin = 0;
  std::int64_t slice_size = 0;
  const LoweredGraph* program = nullptr;       // shared by the devices with equal slices
  const Graph* graph = nullptr;           // what it was made from
  bool stages_inputs = false;             // the backend's
};

// The buckets in which values are summed: in the order in which they become ready, each as large as asked. Behind them
// stand the sums that are steps of the graph itself (AllReduce), one bucket each, in memory of their own.
struct BucketPlan {
  std::vector<Bucket> buckets;
  std::vector<int> sequence;               // in which order all of them are issued, on every device
  struct Place {
    int bucket;
    std::int64_t offset;  // bytes from the bucket's start
  };
  std::map<std::string, Place> places;     // of reduced values
  std::vector<std::int64_t> offsets;       // of the value buckets: bytes from the gradient arena's start
  std::int64_t bytes = 0;                  // of the arena
};
BucketPlan plan_buckets(const LoweredGraph& leader, const CompileOptions& options, const DeviceModel& device, int devices);

// Fills plan.inputs, outputs, parameters, devices and buckets. `rows`: how many rows of each output are one sample's; 0: it
// is each device's own.
void assemble(Plan& plan, const std::vector<Replica>& replicas, const std::vector<std::string>& output_names, std::span<const std::int64_t> rows, const CompileOptions& options, const Plan* parameters_of);

}  // namespace tandem
