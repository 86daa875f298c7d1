// What this machine can do at most, measured: multiply-adds in registers for each number format, and a stream from memory. For
// people: plans are made by DeviceModel, whose constants are the same at every start.
#pragma once
#include <string_view>
#include <vector>

namespace tandem {

// Instruction sets that kernels for training are written for, and that this CPU and its system let programs use: "AVX2",
// "AVX-512", "AVX512_BF16", "AVX512_FP16", "AMX-TILE", "AMX-BF16", "AMX-INT8".
std::vector<std::string_view> instruction_sets();

// The most of these that oneDNN uses here, as ONEDNN_MAX_CPU_ISA names it: "AVX512_CORE_BF16".
std::string_view onednn_isa();

struct Peak {
  std::string_view format;        // "fp32", "bf16"
  std::string_view instructions;  // by which: "AVX-512"
  double flops = 0;               // of all usable cores at once, FLOP/s
};

// Some milliseconds for each way that this CPU has to compute in a format, in threads of its own. The time is what a thread had
// of its core: other programs' does not count.
std::vector<Peak> measure_peaks();

// Bytes per second of a[i] = b[i] + s·c[i] over all usable cores, three bytes moved for each of a's: the best of a few
// runs. The arrays are larger than the caches, as far as memory allows.
double measure_bandwidth();

}  // namespace tandem
