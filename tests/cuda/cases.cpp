// Puts the families together.
#include "tests/cuda/cases/rows.h"

namespace tandem::cuda {

const std::vector<CaseFamily>& case_families() {
  using namespace cases;
  static const std::vector<CaseFamily> families = {
      {"Elementwise", elementwise()}, {"Reductions", reductions()}, {"Movement", movement()}, {"Pad", pads()}, {"Resample", resampling()},
      {"Sampling", sampling()}, {"Choices", choices()}, {"Losses", losses()}, {"Windows", windows()}, {"Products", products(), false}};
  return families;
}

std::vector<NamedCase> all_cases(bool own_kernels_only) {
  std::vector<NamedCase> all;
  for (const CaseFamily& family : case_families()) {
    if (own_kernels_only && !family.own_kernels) continue;
    for (const CaseRow& row : family.rows) {
      std::string name = concat(family.name, '_');
      for (const char c : std::string_view(row.name)) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
      all.push_back({name, row});
    }
  }
  return all;
}

}  // namespace tandem::cuda
