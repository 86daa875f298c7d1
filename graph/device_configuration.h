// A multi-device configuration of an ONNX file (IR 11): which devices nodes are for, and how tensors lie over them. Devices are numbers
// from 0.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tandem {

// How a tensor lies: shard i is on devices[i], in row-major order of the parts along `dims`. Without `dims` devices[0] have the whole.
struct TensorSharding {
  struct Dim {
    int axis = 0;
    std::int64_t shards = 1;
    bool operator==(const Dim&) const = default;
  };
  std::vector<std::vector<int>> devices;  // a device may have several shards, as many as each other one: runs of an axis, each in parts
  std::vector<Dim> dims;
  bool operator==(const TensorSharding&) const = default;
};

struct DeviceConfiguration {
  struct Node {
    std::vector<int> devices;  // that hold its results, or as little is said its operands, ascending; none: not said
    std::optional<int> stage;
    bool operator==(const Node&) const = default;
  };
  std::string name;
  int devices = 0;
  std::vector<std::string> device_names;        // by device, or none
  std::map<std::string, Node> nodes;            // by name
  std::map<std::string, TensorSharding> tensors;  // by name: weights, inputs and results
};

// What the metadata of a file's node says of it.
struct NodeNotes {
  std::vector<std::string> modules;  // that it belongs to, the outermost first, as PyTorch's exporter calls them ("encoder.layer.1")
  std::string device;                // where it is put: tandem.device
};

}  // namespace tandem
