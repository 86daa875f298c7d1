// Every kind of exchange, of several types and sizes, and what each device has after it.
#pragma once
#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/device.h"
#include "ranks/world.h"

namespace tandem {

using Bytes = std::vector<std::byte>;
using Groups = std::vector<std::vector<int>>;

// The numbers of elements of a kind, for so many members.
struct Size {
  std::int64_t elements;
  bool uneven;
};
constexpr Size sizes[] = {{0, false}, {1, true}, {24, false}, {60000, true}, {200000, false}};

inline std::vector<std::int64_t> cut(std::int64_t n, std::size_t members, bool uneven) {
  std::vector<std::int64_t> parts(members, uneven ? 0 : n / static_cast<std::int64_t>(members));
  std::int64_t rest = n;
  for (std::size_t m = 0; m + 1 < members; ++m) rest -= parts[m] = uneven ? rest / 6 * (m == 1 ? 0 : 1) : parts[m];
  parts.back() = rest;
  return parts;
}

inline ExchangeSpec spec_of(ExchangeKind kind, const std::vector<int>& members, const Size& size, DType dtype) {
  ExchangeSpec s{.kind = kind, .members = members, .elements = size.elements, .dtype = dtype, .parts = {}};
  const bool swaps = kind == ExchangeKind::all_to_all;
  if (swaps)
    s.elements =
        size.elements / 36 * 36 * static_cast<std::int64_t>(members.size() * members.size());  // every share of every share is whole
  if (kind == ExchangeKind::all_gather || kind == ExchangeKind::reduce_scatter || swaps)
    s.parts = cut(s.elements, members.size(), size.uneven);
  if (swaps) s.gets = cut(s.elements, members.size(), false);
  return s;
}

// Bytes that member m gives and gets; -1: it has no such buffer.
inline std::pair<std::int64_t, std::int64_t> bytes_of(const ExchangeSpec& s, std::size_t m) {
  const auto size = static_cast<std::int64_t>(size_of(s.dtype));
  const std::int64_t all = s.elements * size, part = s.parts.empty() ? 0 : s.parts[m] * size;
  switch (s.kind) {
    case ExchangeKind::all_reduce:
    case ExchangeKind::all_max: return {-1, all};
    case ExchangeKind::reduce_scatter: return {all, part};
    case ExchangeKind::all_gather: return {part, all};
    case ExchangeKind::broadcast:
    case ExchangeKind::send: return {m == 0 ? all : -1, m == 0 ? -1 : all};
    case ExchangeKind::reduce: return {all, m == 0 ? all : -1};
    case ExchangeKind::all_to_all: return {part, s.gets[m] * size};
  }
  return {};
}

inline Bytes drawn(std::int64_t bytes, const ExchangeSpec& s, int device, int round) {
  Bytes b(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 0)));
  std::minstd_rand random(static_cast<unsigned>(s.elements + 100 * device + round + 1));
  const auto value = [&] { return static_cast<double>(random()) / std::minstd_rand::max() - 0.5; };
  const auto fill = [&]<class T>(T) {
    for (std::size_t i = 0; i + sizeof(T) <= b.size(); i += sizeof(T)) {
      const T v = static_cast<T>(1e3 * value());
      std::memcpy(&b[i], &v, sizeof v);
    }
  };
  if (s.dtype == DType::float32)
    fill(float{});
  else if (s.dtype == DType::float64)
    fill(double{});
  else
    fill(std::int16_t{});
  return b;
}

// What a device has after three rounds of every exchange that it is a member of, one behind the other.
inline Bytes run(CollectiveGroup& group, std::span<const ExchangeSpec> specs, int device) {
  struct Own {
    const ExchangeSpec* spec;
    std::pair<std::int64_t, std::int64_t> bytes;
    std::unique_ptr<Kernel> kernel;
  };
  std::vector<Own> own;
  for (const ExchangeSpec& s : specs)
    if (const auto m = std::find(s.members.begin(), s.members.end(), device); m != s.members.end())
      own.push_back({&s, bytes_of(s, static_cast<std::size_t>(m - s.members.begin())), group.make(s, device)});
  Bytes all;
  for (int round = 0; round < 3; ++round)
    for (const auto& [spec, bytes, kernel] : own) {
      Bytes gives = drawn(bytes.first, *spec, device, round),
            gets(static_cast<std::size_t>(std::max<std::int64_t>(0, bytes.second)), std::byte{7});
      if (is_in_place(spec->kind)) gets = drawn(bytes.second, *spec, device, round);
      gives.resize(gives.size() + 1);  // has an address
      gets.resize(gets.size() + 1, std::byte{42});
      std::byte *const in = gives.data(), *const out = gets.data();
      kernel->bind({&in, bytes.first < 0 ? 0U : 1U}, {&out, bytes.second < 0 ? 0U : 1U}, nullptr);
      kernel->run({});
      all.insert(all.end(), gets.begin(), gets.end());
    }
  return all;
}

inline void run_devices(CollectiveGroup& group, std::span<const ExchangeSpec> specs, int first, int count, std::vector<Bytes>& results) {
  std::vector<std::thread> threads;
  for (int d = first; d < first + count; ++d) threads.emplace_back([&, d] { results[static_cast<std::size_t>(d)] = run(group, specs, d); });
  for (std::thread& t : threads) t.join();
}

inline GroupSpec group_of(World& world, int devices) {
  GroupSpec spec;
  spec.devices.resize(static_cast<std::size_t>(devices));
  spec.first_rank = world.rank() * devices;
  spec.ranks = world.ranks() * devices;
  spec.world = &world;
  return spec;
}

constexpr ExchangeKind kinds[] = {ExchangeKind::all_reduce, ExchangeKind::all_max, ExchangeKind::reduce_scatter, ExchangeKind::all_gather,
                                  ExchangeKind::broadcast,  ExchangeKind::send,    ExchangeKind::reduce,         ExchangeKind::all_to_all};
inline bool folds(ExchangeKind k) {
  return is_in_place(k) || k == ExchangeKind::reduce_scatter || k == ExchangeKind::reduce;
}

// Of each group of devices.
inline std::vector<ExchangeSpec> all_specs(const Groups& groups) {
  std::vector<ExchangeSpec> specs;
  for (const ExchangeKind kind : kinds)
    for (const DType dtype :
         folds(kind) ? std::vector{DType::float32, DType::float64} : std::vector{DType::float32, DType::bfloat16, DType::int64})
      for (const Size& size : sizes)
        for (const std::vector<int>& members : groups) {
          if (kind == ExchangeKind::send && members.size() != 2) continue;
          specs.push_back(spec_of(kind, members, size, dtype));
          specs.back().channel = static_cast<int>(specs.size());
        }
  return specs;
}

}  // namespace tandem
