#include "trainer/share.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include "base/spec.h"
#include "data/npy.h"

namespace tandem {

namespace {

std::size_t share_count(World* world, const std::vector<NamedTensor>& values) {
  return static_cast<std::size_t>(parse_integer(world->broadcast(std::to_string(values.size())), "the number of tensors"));
}

NamedTensor share_one(World* world, NamedTensor value) {
  value.name = world->broadcast(value.name);  // may be of any bytes
  const std::string npy = world->broadcast(world->rank() == 0 ? npy_of(value.tensor) : "");
  if (world->rank() != 0) value.tensor = parse_npy(std::as_bytes(std::span(npy)), value.name);
  return value;
}

}  // namespace

std::vector<NamedTensor> share(World* world, std::vector<NamedTensor> values) {
  if (!world) return values;
  if (world->rank() != 0) values.clear();
  values.resize(share_count(world, values));
  for (NamedTensor& v : values) v = share_one(world, std::move(v));
  return values;
}

void set_shared(Session& session, World* world, std::vector<NamedTensor> values, ValueRole role) {
  if (!world) return session.set_parameters(values, role);
  values.resize(share_count(world, values));
  for (NamedTensor& v : values) {
    const NamedTensor one = share_one(world, std::exchange(v, {}));
    session.set_parameters({&one, 1}, role);
  }
}

std::vector<NamedTensor> share_names(World* world, std::vector<NamedTensor> values) {
  if (!world) return values;
  values.resize(share_count(world, values));
  for (NamedTensor& v : values) v.name = world->broadcast(v.name);
  return values;
}

std::vector<std::string> gather_texts(World& world, const std::string& said) {
  const auto rank = static_cast<std::size_t>(world.rank());
  std::vector<std::uint64_t> sizes(static_cast<std::size_t>(world.ranks()));
  sizes[rank] = said.size();
  world.gather(std::as_writable_bytes(std::span(sizes)));
  const auto begin = std::accumulate(sizes.begin(), sizes.begin() + world.rank(), std::size_t{0});
  std::string all(std::accumulate(sizes.begin() + world.rank(), sizes.end(), begin), '\0');
  std::ranges::copy(said, all.begin() + static_cast<std::ptrdiff_t>(begin));
  world.gather(std::as_writable_bytes(std::span(all)));
  std::vector<std::string> texts;
  std::size_t at = 0;
  for (const std::uint64_t size : sizes) {
    texts.push_back(all.substr(at, size));
    at += size;
  }
  return texts;
}

std::vector<std::string> gather_results(World& world, const std::function<std::string()>& work) {
  constexpr char failed = '!';  // begins what a rank says that has failed, with the code of that
  std::string said;
  try {
    const World::Busy busy(&world);
    said = concat(' ', work());
  } catch (const Error& e) {
    if (e.code() == ExitCode::communication) throw;
    said = concat(failed, static_cast<int>(e.code()), ' ', e.what());
  }
  std::vector<std::string> all = gather_texts(world, said);
  for (std::size_t r = 0; r < all.size(); ++r) {
    const std::string text = std::exchange(all[r], all[r].substr(1));
    if (text[0] != failed) continue;
    int code = 0;
    const char* const end = std::from_chars(text.data() + 1, text.data() + text.size(), code).ptr;
    fail(static_cast<ExitCode>(code), r == 0 ? "" : concat("rank ", r, ": "), end + 1);
  }
  return all;
}

}  // namespace tandem
