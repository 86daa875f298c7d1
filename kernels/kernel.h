// The interface between plans and backends. A backend describes how it would run an operator (kernel, layouts,
// workspace); a plan keeps that description; a kernel made from it is bound to memory once and then run blind.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/attributes.h"
#include "graph/layout.h"

namespace tandem {

// One operand of a kernel. An absent optional input has dtype undefined.
struct Operand {
  DType dtype = DType::undefined;
  Shape shape;
  Layout layout;  // any: in a request "you choose"; never in a description
  bool present() const { return dtype != DType::undefined; }
  std::int64_t bytes() const;  // padding included; 0 where absent
  bool operator==(const Operand&) const = default;
};
std::string to_string(const Operand& operand);  // "float32[8,64,56,56]:aBcd16b"

enum class LayoutPreference { blocked, channels_last };

struct KernelOptions {
  int threads = 1;                 // CPU: cores of the device
  bool deterministic = false;      // same result in every run
  bool winograd = true;            // may use Winograd's algorithm
  bool tf32 = false;               // CUDA: float32 products may be rounded to TF32
  LayoutPreference preference = LayoutPreference::blocked;
  int multiprocessors = 0;         // CUDA: of the device that it runs on; 0: not known. In plans with the device
  int device = 0;                  // index of the one that runs it, where a backend has several. Not kept in plans
};

struct KernelRequest {
  std::string_view op;             // operator name: ONNX's or internal
  const Attributes* attributes;
  std::vector<Operand> inputs;     // layouts as they are; any for parameters and constants not laid out yet
  std::vector<Operand> outputs;    // layout any, or the one that is wanted
  KernelOptions options;
  std::string_view kernel;         // describe only the kernel of this name, as a plan stored it; empty: all
  bool timed = false;              // the descriptions will be timed: a library's second choices are wanted, too
};

// Where a kernel runs. `native` is null on the CPU (the calling thread) and a cudaStream_t on CUDA.
struct StreamHandle {
  void* native = nullptr;
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  // Called once, before the first run; addresses stay valid for the kernel's life. Absent operands are null.
  virtual void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte* workspace) = 0;
  // Never allocates, validates or chooses.
  virtual void run(StreamHandle stream) = 0;
};

struct KernelDescription {
  std::string kernel;              // its name: "onednn.convolution.direct". Stored in the plan and found again by it
  std::vector<Operand> inputs;     // layouts it wants: the planner reorders where they differ from the request's
  std::vector<Operand> outputs;    // layouts it writes; for opaque outputs also dtype and shape
  std::int64_t workspace = 0;      // bytes
  double efficiency = 0.5;         // share of the device's peak it reaches, a hint until it is timed
  double passes = 1;               // how many times its operands' bytes move: more where it reads what no cache holds again
  // Output first may use the memory of input second (same bytes), which is then overwritten.
  std::vector<std::pair<int, int>> in_place;
  std::function<std::unique_ptr<Kernel>()> make;
};

}  // namespace tandem
