// What each level of the vector code needs of the processor.
#include "kernels/cpu/isa.h"

#include <cstdlib>

namespace tandem {
namespace {

struct Row {
  Isa isa;
  std::string_view name;
  CpuFeatures needs;
  const vector::Table& (*table)();
};

constexpr Row rows[] = {
#ifdef TANDEM_X86
    {Isa::avx512,
     "avx512",
     {Feature::avx2, Feature::fma, Feature::avx512f, Feature::avx512bw, Feature::avx512dq, Feature::avx512vl},
     vector::avx512::table},
    {Isa::avx2, "avx2", {Feature::avx2, Feature::fma}, vector::avx2::table},
#endif
    {Isa::baseline, "baseline", {}, vector::baseline::table},
};

// Best first: the first usable row from the one that is wanted on.
const Row& choose(const CpuFeatures& features, std::string_view wanted) {
  bool reached = wanted.empty();
  for (const Row& row : rows) {
    reached = reached || row.name == wanted;
    if (reached && features.has(row.needs)) return row;
  }
  return rows[std::size(rows) - 1];
}

const Row& machine_row() {
  const char* const wanted = std::getenv("TANDEM_ISA");
  return choose(cpu_features(), wanted ? wanted : "");
}

}  // namespace

std::string_view name_of(Isa isa) {
  for (const Row& row : rows)
    if (row.isa == isa) return row.name;
  return "baseline";
}

Isa isa_for(const CpuFeatures& features, std::string_view wanted) { return choose(features, wanted).isa; }
Isa machine_isa() { return machine_row().isa; }
const vector::Table& vector_table() { return machine_row().table(); }

#ifdef TANDEM_X86
const vector::Dots* dot_products() { return cpu_features().has(Feature::avx512_bf16) ? vector_table().dots : nullptr; }
bool dot_products_are_fast() { return __builtin_cpu_is("amd"); }
#else
const vector::Dots* dot_products() { return nullptr; }
bool dot_products_are_fast() { return false; }
#endif

bool rounds_to_bfloat16() { return dot_products() != nullptr; }

}  // namespace tandem
