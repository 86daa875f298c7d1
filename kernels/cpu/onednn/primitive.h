// One oneDNN primitive as a kernel: a description is made from a primitive descriptor and the memory descriptors of
// its arguments; the kernel compiles the primitive, and after bind() a run is one call into the library.
#pragma once
#include <omp.h>

#include <functional>

#include "kernels/cpu/machine.h"
#include "kernels/cpu/onednn/layouts.h"
#include "kernels/kernel.h"
#include "kernels/precision.h"

namespace tandem::onednn {

const dnnl::engine& cpu_engine();
dnnl::primitive_attr attributes(bool relu = false);  // scratch memory is the caller's; optionally Relu afterwards

// oneDNN plans for the number of OpenMP threads in effect: set it to the device's while describing and compiling.
class ThreadScope {
 public:
  explicit ThreadScope(int threads) : saved_(omp_get_max_threads()) { omp_set_num_threads(team_size(threads)); }
  ~ThreadScope() { omp_set_num_threads(saved_); }
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int saved_;
};

// The bits of dnnl::cpu_isa that the library may use here: its own answer, once it is held to what it asks for too carelessly
// (features.h). Primitives are made behind the first call, which cpu_engine() makes.
unsigned library_isa();
bool has_bf16();  // the instructions for bfloat16 are there and the library may use them

// True where all operands that are present are float32 (or bfloat16, where the CPU has it) and hold elements; opaque ones
// are not asked.
bool float_operands(const KernelRequest& request);

// The library's kernels count in 32 bits what lies behind axis 0 of an operand: asked for more, it divides by zero or never ends.
bool countable(const KernelRequest& request);

bool has_16_bit(const KernelRequest& request);   // any operand: reference loops are declined then, fp32 is faster
bool is_replay(const KernelRequest& request);    // a plan's step: one kernel, by name, and all layouts given
double speed_of(const KernelRequest& request);   // the peak of these operands' type by float32's

// Where nothing else decides: channels last, or in the blocks that the library's kernels for this CPU like.
Layout preferred_layout(int rank, const KernelOptions& options);

// How good an implementation is: share of the device's peak by the library's name for it.
inline constexpr double reference_efficiency = 0.01;
double efficiency_of(const dnnl::primitive_desc_base& pd);
bool is_reference(const dnnl::primitive_desc_base& pd);
bool is_fallback(const dnnl::primitive_desc_base& pd);  // a reference loop, or a GEMM where a compiled kernel may exist

using Repair = std::function<void(const std::byte* x, std::byte* y)>;

// A description in the making. Arguments whose descriptor has no Layout make it empty.
class Candidate {
 public:
  Candidate(const KernelRequest& request, std::string kernel, dnnl::primitive_desc_base pd);
  // The library's Relu makes 0 of NaN, as its maximum gives the other operand. Where it has met one, this descriptor, the same without
  // Relu, computes output 0 anew, and a loop that keeps NaN makes Relu of it. Before any joined operands.
  void unrectified(dnnl::primitive_desc_base pd);
  // What is to be done behind a run that has met a NaN: of input 0 and output 0.
  void repaired_by(Repair repair) { repair_ = std::move(repair); }
  void input(int index, int argument, const Desc& desc) { input(index, argument, desc, to_layout(desc)); }
  void input(int index, int argument, const Desc& desc, std::optional<Layout> layout);
  void output(int index, int argument, const Desc& desc) { output(index, argument, desc, to_layout(desc)); }
  void output(int index, int argument, const Desc& desc, std::optional<Layout> layout);
  // Two operands of one dimension that the primitive takes as the rows of one argument: they meet in the workspace.
  void joined_inputs(int first, int second, int argument) { join(first, second, argument, false); }
  void joined_outputs(int first, int second, int argument) { join(first, second, argument, true); }
  // A buffer only this family reads: bytes under the layout "opaque:onednn.TAG", TAG being the data's layout.
  void opaque_output(int index, int argument, const Desc& desc, const Layout& data);
  KernelDescription& description() { return description_; }
  explicit operator bool() const { return valid_; }
  // Appends the description unless it is empty or already there.
  void add_to(std::vector<KernelDescription>& descriptions) &&;

 private:
  struct Argument {
    int argument;
    Desc desc;
    bool is_output;
    int index;
    int second = -1;  // of joined operands; then `offset` tells where in the workspace they meet
    std::int64_t offset = 0;
  };
  void join(int first, int second, int argument, bool is_output);
  friend class PrimitiveKernel;
  dnnl::primitive_desc_base pd_, unrectified_;
  Repair repair_;
  int threads_;
  std::vector<Argument> arguments_;
  KernelDescription description_;
  bool valid_;
};

Layout opaque_layout(const Layout& data);  // "opaque:onednn.aBcd16b"
std::optional<Layout> data_layout(const Layout& opaque);  // the data's layout, where it is one of ours

}  // namespace tandem::onednn
