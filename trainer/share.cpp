#include "trainer/share.h"

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

}  // namespace tandem
