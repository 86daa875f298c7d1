// Asks the processor what it has, once.
#include "kernels/cpu/isa.h"

#include <cstdlib>

namespace tandem {
namespace {

struct Row {
  Isa isa;
  std::string_view name;
  bool (*usable)();
  const vector::Table& (*table)();
};

constexpr Row rows[] = {
#ifdef TANDEM_X86
    {Isa::avx512, "avx512",
     [] {
       return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
     },
     vector::avx512::table},
    {Isa::avx2, "avx2", [] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }, vector::avx2::table},
#endif
    {Isa::baseline, "baseline", [] { return true; }, vector::baseline::table},
};

// Best first: the first usable row from the one that TANDEM_ISA names on.
const Row& choose() {
  const char* wanted = std::getenv("TANDEM_ISA");
  bool reached = wanted == nullptr;
  for (const Row& row : rows) {
    reached = reached || row.name == wanted;
    if (reached && row.usable()) return row;
  }
  return rows[std::size(rows) - 1];
}

}  // namespace

std::string_view name_of(Isa isa) {
  for (const Row& row : rows)
    if (row.isa == isa) return row.name;
  return "baseline";
}

Isa machine_isa() { return choose().isa; }
const vector::Table& vector_table() { return choose().table(); }

#ifdef TANDEM_X86
const vector::Dots* dot_products() { return __builtin_cpu_supports("avx512bf16") ? vector_table().dots : nullptr; }
bool dot_products_are_fast() { return __builtin_cpu_is("amd"); }
#else
const vector::Dots* dot_products() { return nullptr; }
bool dot_products_are_fast() { return false; }
#endif

bool rounds_to_bfloat16() { return dot_products() != nullptr; }

}  // namespace tandem
