// The instruction set that the vector kernels use: the best one of the machine, or less where TANDEM_ISA
// (baseline, avx2, avx512) says so. The vector code is compiled once for each (native/vector/).
#pragma once
#include <string_view>

#include "kernels/cpu/native/vector/vector.h"

namespace tandem {

enum class Isa { baseline, avx2, avx512 };
std::string_view name_of(Isa isa);
Isa machine_isa();
const vector::Table& vector_table();  // of machine_isa()

}  // namespace tandem
