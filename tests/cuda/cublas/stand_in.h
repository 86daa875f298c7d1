// cuBLASLt as far as products call it, for tests without a GPU: a library of algorithms that a test writes down.
#pragma once
#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <vector>

namespace tandem::test::cublas {

struct Algorithm {
  std::array<std::int32_t, 9> attributes{};  // by cublasLtMatmulAlgoConfigAttributes_t: the first is its number
  bool epilogues = true;                     // takes products with one
  std::uint32_t alignment = 16;              // bytes, of matrices and bias
  std::size_t workspace = 0;
  bool untold = false;                       // has more to it than its attributes
};
Algorithm algorithm(std::int32_t number, std::int32_t tile, std::int32_t splits = 1, std::int32_t cluster = 0);

struct Library {
  std::vector<Algorithm> algorithms;  // in the order in which the heuristics name them
  int asked = 0;                      // for heuristics
  int live = 0;                       // descriptors
  int misaligned = 0;                 // products run with matrices that their algorithm does not take
  std::int32_t ran = -1;              // number of the algorithm that ran last
  std::array<std::uint64_t, 2> scales{};  // addresses, of a and b, in the product that ran last
  bool fast = false;                  // its sums might have been taken in fewer bits
};
Library& library();

}  // namespace tandem::test::cublas
