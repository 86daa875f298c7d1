// Random cases of every operator with stateless kernels: run on the emulation and, where there is one, on a GPU.
#pragma once
#include "tests/cuda/emulated.h"

namespace tandem::cuda {

struct CaseRow {
  const char* name;
  Comparison (*make)(std::mt19937&);
  std::vector<DType> dtypes = {DType::float32, DType::float64};
  std::vector<std::string> layouts = {"abcd", "acdb"};
};
struct CaseFamily {
  const char* name;
  std::vector<CaseRow> rows;
  bool own_kernels = true;  // else the libraries' alone
};
const std::vector<CaseFamily>& case_families();

struct NamedCase {
  std::string name;
  CaseRow row;
};
std::vector<NamedCase> all_cases(bool own_kernels_only);
inline void PrintTo(const NamedCase& c, std::ostream* out) { *out << c.name; }

}  // namespace tandem::cuda
