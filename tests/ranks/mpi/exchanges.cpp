// A rank of an mpirun: every kind of exchange by MPI's messages has the bits of the group of one process. Its words: openmpi or mpich, and
// how many devices each rank has.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <numeric>

#include "base/error.h"
#include "kernels/host_group.h"
#include "ranks/mpi.h"
#include "ranks/socket.h"
#include "tests/ranks/exchange_rows.h"

namespace tandem {
namespace {

constexpr double timeout_seconds = 120;

// All of them, every second, the last and the first, all in another order.
Groups groups_of(int devices) {
  std::vector<int> all(static_cast<std::size_t>(devices)), even, odd;
  std::iota(all.begin(), all.end(), 0);
  for (const int d : all) (d % 2 ? odd : even).push_back(d);
  return {all, even, odd, {devices - 1, 0}, std::vector<int>(all.rbegin(), all.rend())};
}

// How many devices differ.
int exchange(Mpi& mpi, int each) {
  const auto share = [&](const std::string& own) {
    std::array<char, 256> text{};
    own.copy(text.data(), text.size() - 1);
    if (!mpi.broadcast(std::as_writable_bytes(std::span(text)), timeout_seconds)) fail("rank 0's address does not come");
    return std::string(text.data());
  };
  World world({.rank = mpi.rank(),
               .ranks = mpi.ranks(),
               .address = mpi.rank() == 0 ? "127.0.0.1:0" : "",
               .timeout_seconds = timeout_seconds,
               .share = share,
               .mpi = &mpi});
  const int devices = each * mpi.ranks(), first = each * mpi.rank();
  const std::vector<ExchangeSpec> specs = all_specs(groups_of(devices));
  std::vector<Bytes> want(static_cast<std::size_t>(devices)), got = want;
  run_devices(*in_process_group(devices, timeout_seconds), specs, 0, devices, want);
  const auto group = host_group(group_of(world, each));
  group->connect(specs);
  run_devices(*group, specs, first, each, got);
  int different = 0;
  for (int d = first; d < first + each; ++d)
    if (got[static_cast<std::size_t>(d)] != want[static_cast<std::size_t>(d)]) {
      std::cerr << "device " << d << " has other bits than in one process\n";
      ++different;
    }
  world.leave();
  return different;
}

}  // namespace
}  // namespace tandem

int main(int count, char** words) {
  if (count != 3) return 2;
  try {
    std::string reason;
    tandem::Mpi* const mpi = tandem::open_mpi(words[1], reason);
    if (!mpi) tandem::fail(reason);
    const int different = tandem::exchange(*mpi, std::atoi(words[2]));
    mpi->leave(true);
    return different == 0 ? 0 : 1;
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
