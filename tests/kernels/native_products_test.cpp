// Blocks of products and their packing, of every size that a tile has, on every instruction set of this machine: each element is its
// sum, in order, wherever the operands lie. Nothing outside of them is read or written.
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <limits>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/native/paired_product.h"
#include "kernels/cpu/native/products.h"
#include "tests/kernels/native_harness.h"

namespace tandem::native_tests {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// `n` numbers, and NaN behind them.
std::vector<float> numbers(std::int64_t n, unsigned seed) {
  std::vector<float> all;
  for (const double v : random_values(n, seed)) all.push_back(static_cast<float>(v));
  all.resize(all.size() + 64, nan);
  return all;
}

float summed(const std::vector<float>& a, const std::vector<float>& b, std::int64_t i, std::int64_t j, std::int64_t inner,
             std::int64_t columns, float start) {
  for (std::int64_t p = 0; p < inner; ++p)
    start = std::fma(a[static_cast<std::size_t>(i * inner + p)], b[static_cast<std::size_t>(p * columns + j)], start);
  return start;
}

// With multiply-adds the sums are exactly these; without, they are rounded once more a number.
void expect_products(const std::vector<float>& c, const std::vector<float>& a, const std::vector<float>& b, std::int64_t rows,
                     std::int64_t columns, std::int64_t inner, const std::string& what) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      const float wanted = summed(a, b, i, j, inner, columns, 0);
      ASSERT_NEAR(c[static_cast<std::size_t>(i * columns + j)], wanted, machine_isa() == Isa::baseline ? 1e-4 : 0)
          << what << " at " << i << ", " << j;
    }
  for (std::size_t i = static_cast<std::size_t>(rows * columns); i < c.size(); ++i)
    ASSERT_TRUE(std::isnan(c[i])) << what << " wrote behind its end";
}

TEST(NativeProducts, BlocksOfEverySizeAreTheirSums) {
  for (const char* isa : isas) {
    const WithIsa with(isa);
    const vector::Products& loops = *vector_table().products;
    for (const std::int64_t rows : {1, 2, 3, 4, 5, 6, 7, 11, 13, 14, 64, 86})
      for (const std::int64_t columns : {1, 4, 7, 8, 15, 16, 17, 31, 32, 33, 48, 64, 72})
        for (const std::int64_t inner : {1, 3, 16, 24}) {
          const std::string what = concat(isa, ": ", rows, " by ", columns, " by ", inner);
          const std::vector<float> a = numbers(rows * inner, 1), b = numbers(inner * columns, 2);
          const std::vector<float> empty(static_cast<std::size_t>(rows * columns) + 64, nan);
          std::vector<float> c = empty;
          loops.block({a.data(), b.data(), c.data(), rows, columns, inner, inner, 1, columns, columns, nullptr, false, false, false, {}});
          expect_products(c, a, b, rows, columns, inner, what + ", as it lies");
          if (rows > loops.panel_rows || columns > loops.panel_columns) continue;
          std::vector<float> pa(static_cast<std::size_t>(loops.panel_rows * inner)),
              pb(static_cast<std::size_t>(loops.panel_columns * inner));
          loops.pack({a.data(), false, inner, 1, rows, inner, loops.panel_rows, pa.data()});
          loops.pack({b.data(), false, 1, columns, columns, inner, loops.panel_columns, pb.data()});
          c = empty;
          loops.panels(
              {pa.data(), pb.data(), c.data(), rows, columns, inner, 0, 0, 0, columns, nullptr, false, false, false, {a.data(), a.data()}});
          expect_products(c, a, b, rows, columns, inner, what + ", packed");
          c = empty;
          loops.panels({a.data(),
                        pb.data(),
                        c.data(),
                        rows,
                        columns,
                        inner,
                        inner,
                        1,
                        0,
                        columns,
                        nullptr,
                        false,
                        false,
                        false,
                        {a.data(), a.data()}});
          expect_products(c, a, b, rows, columns, inner, what + ", a as it lies");
        }
  }
}

TEST(NativeProducts, DoNotDependOnTheThreads) {
  // Few rows and many, few columns and many, a sum in parts, columns in parts.
  for (const auto& [rows, columns, inner] :
       {std::array<std::int64_t, 3>{5, 300, 40}, {200, 20, 40}, {130, 130, 2100}, {60, 300, 1024}, {1, 1, 1}, {40, 3, 1030}}) {
    const std::vector<float> a = numbers(rows * inner, 3), b = numbers(columns * inner, 4);
    std::vector<float> first(static_cast<std::size_t>(rows * columns + rows));
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t p = 0; p < inner; ++p) {
        const float one = a[static_cast<std::size_t>(i * inner + p)];
        first[static_cast<std::size_t>(rows * columns + i)] += one;
        for (std::int64_t j = 0; j < columns; ++j)
          first[static_cast<std::size_t>(i * columns + j)] += one * b[static_cast<std::size_t>(j * inner + p)];
      }
    bool plain = true;  // sums of rounded products, at first
    for (const int threads : {1, 2, 3, 7}) {
      const native::MatrixProduct p{rows, columns, inner, {false, inner, 1}, {false, inner, 1}, columns, false, false, true, threads};
      std::vector<float> c(static_cast<std::size_t>(rows * columns + rows), nan);
      std::vector<std::byte> workspace(static_cast<std::size_t>(p.workspace()) + 64);
      const auto at = reinterpret_cast<std::uintptr_t>(workspace.data());
      p.run(a.data(), b.data(), c.data(), nullptr, c.data() + rows * columns, workspace.data() + (64 - at % 64) % 64);
      if (plain) {
        for (std::size_t i = 0; i < c.size(); ++i)
          ASSERT_NEAR(c[i], first[i], 2e-3) << rows << " by " << columns << " by " << inner << " at " << i;
      }
      if (std::exchange(plain, false)) first = c;
      EXPECT_EQ(c, first) << rows << " by " << columns << " by " << inner << ", " << threads << " threads";
    }
  }
}

// libgomp ends the threads of a team that the next one does not need.
TEST(NativeThreads, AreKeptFromKernelsOfFewPartsToThoseOfMany) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "parts have threads of their own there";
#endif
  const int before = omp_get_max_threads();
  omp_set_num_threads(6);
  std::mutex lock;
  std::set<pid_t> threads;
  for (int i = 0; i < 20; ++i)
    native::parallel(i % 2 == 0 ? 6 : 2, [&](int) {
      const std::lock_guard held(lock);
      threads.insert(gettid());
    });
  EXPECT_EQ(threads.size(), 6U);
  omp_set_num_threads(before);
}

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// bfloat16 numbers as floats, and as they are.
std::vector<float> narrow_numbers(std::int64_t n, unsigned seed) {
  std::vector<float> all = numbers(n, seed);
  for (float& x : all) x = std::isnan(x) ? x : number_as<float>(to_bfloat16(x));
  return all;
}
std::vector<std::uint16_t> as_bfloat16(const std::vector<float>& from) {
  std::vector<std::uint16_t> to;
  for (const float x : from) to.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16));
  return to;
}

// Long sums of few elements, in pieces, and few rows: beside doubles, with bias and relu, in both types, and the same for any number of
// threads.
TEST(NativeProducts, OfLongSumsAndOfFewRowsAreSharedOut) {
  for (const auto& [rows, columns, inner] : {std::array<std::int64_t, 3>{8, 10, 12800}, {1, 1, 20000}, {40, 33, 8200}, {3, 100, 4100},
                                             {1, 500, 2450}, {4, 70, 1030}, {2, 17, 64}})
    for (const bool narrow : {false, true}) {
      SCOPED_TRACE(concat(rows, " by ", columns, " by ", inner, narrow ? " bfloat16" : ""));
      const std::vector<float> a = narrow_numbers(rows * inner, 1), b = narrow_numbers(columns * inner, 2);
      const std::vector<float> bias = narrow_numbers(columns, 3);
      const std::vector<std::uint16_t> na = as_bfloat16(a), nb = as_bfloat16(b), n_bias = as_bfloat16(bias);
      const std::int64_t c_row = columns + 3;
      std::vector<float> first;
      for (const int threads : {1, 2, 5, 64}) {
        const native::MatrixProduct p{rows, columns, inner, {narrow, inner, 1}, {narrow, inner, 1}, c_row, narrow, true, false, threads};
        std::vector<float> c(at(rows * c_row), nan);
        std::vector<std::uint16_t> nc(c.size(), 0x7fc0);
        std::vector<std::byte> workspace(at(p.workspace()) + 64);
        std::byte* const aligned = workspace.data() + (64 - reinterpret_cast<std::uintptr_t>(workspace.data()) % 64) % 64;
        if (narrow) {
          p.run(na.data(), nb.data(), nc.data(), n_bias.data(), nullptr, aligned);
          for (std::size_t i = 0; i < c.size(); ++i) c[i] = std::bit_cast<float>(static_cast<std::uint32_t>(nc[i]) << 16);
        } else {
          p.run(a.data(), b.data(), c.data(), bias.data(), nullptr, aligned);
        }
        for (std::int64_t i = 0; i < rows; ++i) {
          for (std::int64_t j = 0; j < columns; ++j) {
            double wanted = bias[at(j)];
            for (std::int64_t k = 0; k < inner; ++k)
              wanted += static_cast<double>(a[at(i * inner + k)]) * static_cast<double>(b[at(j * inner + k)]);
            wanted = std::max(0.0, wanted);
            ASSERT_NEAR(c[at(i * c_row + j)], wanted, narrow ? wanted / 256 + 1e-3 : 1e-3) << i << ", " << j;
          }
          for (std::int64_t j = columns; j < c_row; ++j) ASSERT_TRUE(std::isnan(c[at(i * c_row + j)])) << "wrote beside the product";
        }
        for (float& x : c) x = std::isnan(x) ? -1 : x;
        if (first.empty()) first = c;
        EXPECT_EQ(c, first) << threads << " threads";
      }
    }
}

TEST(NativeProducts, OfFewRowsAreTheirSums) {
  for (const char* isa : isas) {
    const WithIsa with(isa);
    const vector::RowProducts& loops = *vector_table().row_products;
    for (std::int64_t rows = 1; rows <= loops.most_rows; ++rows)
      for (const std::int64_t columns : {1, 3, 4, 7, 8, 15, 16, 17, 50})
        for (const std::int64_t inner : {0, 1, 7, 8, 15, 16, 17, 100}) {
          const std::vector<float> a = narrow_numbers(rows * (inner + 1), 1), b = narrow_numbers(columns * (inner + 2), 2);
          const std::vector<std::uint16_t> na = as_bfloat16(a), nb = as_bfloat16(b);
          const std::int64_t c_row = columns + 3;
          for (const bool narrow_a : {false, true})
            for (const bool narrow_b : {false, true}) {
              std::vector<float> c(at(rows * c_row), nan);
              const void *const rows_of_a = narrow_a ? static_cast<const void*>(na.data()) : a.data(),
                               *const columns_of_b = narrow_b ? static_cast<const void*>(nb.data()) : b.data();
              loops.run({rows_of_a, columns_of_b, c.data(), nullptr, rows, columns, inner, inner + 1, inner + 2, c_row, narrow_a, narrow_b,
                         false, false});
              for (std::int64_t i = 0; i < rows; ++i)
                for (std::int64_t j = 0; j < c_row; ++j) {
                  double wanted = 0;
                  for (std::int64_t k = 0; j < columns && k < inner; ++k)
                    wanted += static_cast<double>(a[at(i * (inner + 1) + k)]) * static_cast<double>(b[at(j * (inner + 2) + k)]);
                  const float got = c[at(i * c_row + j)];
                  ASSERT_TRUE(j < columns ? std::abs(got - wanted) < 1e-4 : std::isnan(got))
                      << isa << ": " << rows << " by " << columns << " by " << inner << " at " << i << ", " << j << ": " << got;
                }
            }
        }
  }
}

TEST(NativeProducts, BlocksOfPairsAreTheirSums) {
  if (!dot_products()) GTEST_SKIP() << "the processor has no AVX512_BF16";
  const vector::Dots& dots = *dot_products();
  for (const std::int64_t rows : {1, 2, 5, 6, 7, 13, 48})
    for (const std::int64_t columns : {1, 15, 16, 17, 33, 48, 63, 64, 72, 130})
      for (const std::int64_t inner : {1, 2, 3, 24, 65}) {
        SCOPED_TRACE(concat(rows, " by ", columns, " by ", inner));
        const std::vector<float> a = narrow_numbers(inner * rows, 1), b = narrow_numbers(inner * columns, 2);  // a turned
        const std::int64_t pairs = (inner + 1) / 2;
        std::vector<std::uint32_t> pa(static_cast<std::size_t>(pairs * rows)), pb(static_cast<std::size_t>(pairs * columns)),
            same(pb.size());
        dots.pair_lines(pa.data(), rows, as_bfloat16(a).data(), rows, inner, rows);
        dots.pair_lines(pb.data(), columns, as_bfloat16(b).data(), columns, inner, columns);
        dots.pair_narrowed(same.data(), columns, b.data(), columns, inner, columns);
        ASSERT_EQ(pb, same);
        std::vector<float> c(static_cast<std::size_t>(rows * columns) + 64, nan), sums(static_cast<std::size_t>(rows) + 16, nan);
        for (const bool again : {false, true}) {
          dots.block({pa.data(), pb.data(), c.data(), rows, columns, pairs, 1, rows, columns, columns, again});
          for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t j = 0; j < columns; ++j) {
              double wanted = 0;
              for (std::int64_t p = 0; p < inner; ++p)
                wanted += static_cast<double>(a[static_cast<std::size_t>(p * rows + i)]) *
                          static_cast<double>(b[static_cast<std::size_t>(p * columns + j)]);
              ASSERT_NEAR(c[static_cast<std::size_t>(i * columns + j)], (again ? 2 : 1) * wanted, 1e-4) << i << ", " << j;
            }
          for (std::size_t i = static_cast<std::size_t>(rows * columns); i < c.size(); ++i)
            ASSERT_TRUE(std::isnan(c[i])) << "wrote behind its end";
        }
        // Line by line the same bits.
        std::vector<std::uint32_t> lines(static_cast<std::size_t>(rows * pairs)), ones(static_cast<std::size_t>(rows * pairs), 0x3f803f80);
        for (std::int64_t i = 0; i < rows; ++i)
          for (std::int64_t p = 0; p < pairs; ++p)
            lines[static_cast<std::size_t>(i * pairs + p)] = pa[static_cast<std::size_t>(p * rows + i)];
        dots.inner_products(lines.data(), ones.data(), pairs, rows, pairs, sums.data());
        dots.block({lines.data(), ones.data(), c.data(), rows, 1, pairs, pairs, 1, 1, 1, false});
        for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i) ASSERT_EQ(sums[i], c[i]);
        ASSERT_TRUE(std::isnan(sums[static_cast<std::size_t>(rows)]));
      }
}

TEST(NativeProducts, OfPairsDoNotDependOnTheThreads) {
  if (!dot_products()) GTEST_SKIP() << "the processor has no AVX512_BF16";
  for (const auto& [rows, columns, inner] :
       {std::array<std::int64_t, 3>{1, 1, 1}, {5, 300, 40}, {200, 20, 41}, {130, 130, 700}, {60, 257, 1024}, {97, 3, 513}}) {
    const std::vector<float> a = narrow_numbers(inner * rows, 3), b = narrow_numbers(inner * columns, 4);
    std::vector<float> first;
    for (const int threads : {1, 2, 3, 7}) {
      SCOPED_TRACE(concat(rows, " by ", columns, " by ", inner, ", ", threads, " threads"));
      const native::PairedProduct p{rows, columns, inner, rows, columns, columns, true, threads};
      std::vector<float> c(static_cast<std::size_t>(rows * columns + rows));
      std::vector<std::byte> workspace(static_cast<std::size_t>(p.workspace()) + 128, std::byte{0xff});
      const std::size_t start = (64 - reinterpret_cast<std::uintptr_t>(workspace.data()) % 64) % 64;
      p.run(a.data(), b.data(), c.data(), c.data() + rows * columns, workspace.data() + start);
      for (std::size_t i = start + static_cast<std::size_t>(p.workspace()); i < workspace.size(); ++i)
        ASSERT_EQ(workspace[i], std::byte{0xff}) << "wrote outside its workspace";
      if (threads > 1) {
        EXPECT_EQ(c, first);
        continue;
      }
      first = c;
      for (std::int64_t i = 0; i < rows; ++i) {
        double sum = 0;
        for (std::int64_t k = 0; k < inner; ++k) sum += static_cast<double>(a[static_cast<std::size_t>(k * rows + i)]);
        ASSERT_NEAR(static_cast<double>(c[static_cast<std::size_t>(rows * columns + i)]), sum, 1e-3);
        for (std::int64_t j = 0; j < columns; ++j) {
          double wanted = 0;
          for (std::int64_t k = 0; k < inner; ++k)
            wanted += static_cast<double>(a[static_cast<std::size_t>(k * rows + i)]) *
                      static_cast<double>(b[static_cast<std::size_t>(k * columns + j)]);
          ASSERT_NEAR(static_cast<double>(c[static_cast<std::size_t>(i * columns + j)]), wanted, 1e-3) << i << ", " << j;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tandem::native_tests
