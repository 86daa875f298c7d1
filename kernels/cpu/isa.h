// The instruction set that the vector kernels use: the best one of the machine, or less where TANDEM_ISA
// (baseline, avx2, avx512) says so. The vector code is compiled once for each (native/vector/).
#pragma once
#include <string_view>

#include "kernels/cpu/features.h"
#include "kernels/cpu/native/vector/vector.h"

namespace tandem {

enum class Isa { baseline, avx2, avx512 };
std::string_view name_of(Isa isa);
// The best that these features allow, from `wanted` on where that names one.
Isa isa_for(const CpuFeatures& features, std::string_view wanted = {});
Isa machine_isa();
const vector::Table& vector_table();  // of machine_isa()

// Products of bfloat16 numbers in pairs, by AVX512_BF16; null where the processor has none, or TANDEM_ISA is less than avx512.
const vector::Dots* dot_products();
bool rounds_to_bfloat16();  // by the same AVX512_BF16
// Whether they are known to be faster than products of float32: on AMD's processors by two, while Intel's may take twice as long.
bool dot_products_are_fast();

}  // namespace tandem
