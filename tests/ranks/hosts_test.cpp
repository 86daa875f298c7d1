// Ranks on several hosts: where each finds the one before it, whatever address it came by.
#include "tests/ranks/hosts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "ranks/world.h"

namespace tandem {
namespace {

using test::Hosts;

std::string at(const std::string& host) {
  return host.find(':') == std::string::npos ? host + ":29500" : concat('[', host, "]:29500");
}
std::string first_by_ipv4(int, int) {
  return at(Hosts::ipv4(0));
}

struct Row {
  const char* name;
  std::vector<int> host_of;                                                // by rank
  std::function<std::string(int rank, int host)> address = first_by_ipv4;  // as the rank is given it
  std::string failure = "";                                                // what all say; empty: they meet
  int networks = 1;
  const char* note = "";   // rank 0 says it
  std::string names = "";  // /etc/hosts of host 0; on the others node1 is its address
  double timeout = 60;
  test::Cable cable = {};
};
std::ostream& operator<<(std::ostream& out, const Row& row) {
  return out << row.name;
}

// One address on rank 0, another on the others.
auto first_and_others(const std::string& first, const std::string& others) {
  return [=](int rank, int) { return at(rank == 0 ? first : others); };
}

const std::string all_ipv4 = "0.0.0.0", all_ipv6 = "::";
const Row rows[] = {
    {"two", {0, 1}},
    {"three", {0, 1, 2}},
    {"four", {0, 1, 2, 3}},
    {"two_of_two", {0, 0, 1, 1}},
    {"two_of_two_by_turns", {0, 1, 0, 1}},
    {"the_first_host_again", {0, 1, 2, 0}},
    {"the_last_alone", {0, 0, 0, 1}},
    {"by_ipv6", {0, 0, 1, 2, 1}, [](int, int) { return at(Hosts::ipv6(0)); }},
    // fe80::77:1%net3 is where host 3 finds host 1, which calls that network net1.
    {"by_ipv6_of_one_network",
     {0, 1, 2, 0, 1},
     [](int, int host) { return at(Hosts::link_local(0).substr(0, 10) + "%net" + std::to_string(host + 1)); }},
    {"the_first_listens_at_all_of_ipv4", {0, 1, 0, 2}, first_and_others(all_ipv4, Hosts::ipv4(0))},
    {"the_first_listens_at_all_of_ipv6", {0, 1, 0, 2}, first_and_others(all_ipv6, Hosts::ipv6(0))},
    {"some_by_ipv4_where_it_listens_at_ipv6", {0, 1, 0, 2}, first_and_others(all_ipv6, Hosts::ipv4(0))},
    {"its_own_host_is_told_all", {0, 0, 1, 0, 1}, [](int, int host) { return at(host == 0 ? all_ipv4 : Hosts::ipv4(0)); }},
    {"its_own_host_is_told_loopback",
     {0, 1, 0},
     [](int rank, int host) {
       return at(rank == 0 ? all_ipv4 : host == 0 ? "127.0.0.1" : Hosts::ipv4(0));
     }},
    {"loopback_before_another_host",
     {0, 0, 1},
     [](int rank, int host) {
       return at(rank == 0 ? all_ipv4 : host == 0 ? "127.0.0.1" : Hosts::ipv4(0));
     },
     "rank 1 came to rank 0 by 127.0.0.1, where rank 2, which came from 10.77.0.2, cannot reach it: give both an address of their network"},
    {"by_two_networks", {0, 1, 2, 1}, [](int rank, int) { return at(rank == 0 ? all_ipv4 : Hosts::ipv4(0, rank % 2)); }, "", 2},
    {"by_satellite", {0, 1, 2}, first_by_ipv4, "", 1, "", "", 60, {.rate = 1e7, .delay = 0.3}},
    {"a_name", {0, 1, 2, 0}, [](int, int) { return at("node1"); }, "", 1, "", "10.77.0.1 node1\n"},
    {"a_name_that_is_loopback_on_one_machine",
     {0, 0, 0, 0},
     [](int, int) { return at("node1"); },
     "",
     1,
     "'node1' is 127.0.1.1 on this machine",
     "127.0.1.1 node1\n"},
    {"a_name_that_is_loopback",
     {0, 1},
     [](int, int) { return at("node1"); },
     "waited 1 s for rank 1",
     1,
     "'node1' is 127.0.1.1 on this machine",
     "127.0.1.1 node1\n",
     1},
};

// Runs body(world) for every rank on its host; returns what each failed with, empty where it did not.
std::vector<std::string> on_hosts(
    const Hosts& hosts, const std::vector<int>& host_of, const std::function<WorldOptions(int rank)>& options,
    const std::function<void(World&)>& body, const std::function<std::string(int host)>& names = [](int) { return ""; }) {
  std::vector<std::string> failures(host_of.size());
  std::vector<std::thread> threads;
  const auto run = [&](int r) {
    try {
      World world(options(r));
      body(world);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::communication);
      failures[static_cast<std::size_t>(r)] = e.what();
    }
  };
  for (int r = 0; r < std::ssize(host_of); ++r)
    threads.emplace_back([&, r] {
      const int host = host_of[static_cast<std::size_t>(r)];
      hosts.on(
          host, [&] { run(r); }, names(host));
    });
  for (std::thread& t : threads) t.join();
  return failures;
}

void sum(World& world) {
  std::vector<float> values(10001, static_cast<float>(world.rank() + 1));
  std::byte* const buffer = reinterpret_cast<std::byte*>(values.data());
  world.all_reduce({&buffer, 1}, std::ssize(values), DType::float32, 0);
  EXPECT_EQ(values, std::vector<float>(values.size(), static_cast<float>(world.ranks() * (world.ranks() + 1) / 2)));
}

class RankHosts : public testing::TestWithParam<Row> {
 protected:
  void SetUp() override {
    if (const std::string why = Hosts::missing(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_P(RankHosts, Meet) {
  const Row& row = GetParam();
  const Hosts hosts(1 + *std::max_element(row.host_of.begin(), row.host_of.end()), row.cable, row.networks);
  const std::string files = testing::TempDir() + "names-" + row.name + std::to_string(::getpid());
  std::ofstream(files + "-0") << row.names;
  std::ofstream(files + "-1") << Hosts::ipv4(0) << " node1\n";
  const auto ranks = static_cast<int>(row.host_of.size());
  std::string notes;
  const auto options = [&](int r) {
    return WorldOptions{.rank = r,
                        .ranks = ranks,
                        .address = row.address(r, row.host_of[static_cast<std::size_t>(r)]),
                        .timeout_seconds = row.timeout,
                        .note = [&](const std::string& note) { notes += note; }};
  };
  const auto meet = [](World& world) {
    sum(world);
    std::vector<DeviceLine> lines;  // each finds each
    for (int low = 0; low < world.ranks(); ++low)
      for (int high = low + 1; high < world.ranks(); ++high) lines.push_back({{low}, {high}, low, high});
    world.open_lines(std::move(lines));
    world.leave();
  };
  const auto failures =
      on_hosts(hosts, row.host_of, options, meet, [&](int host) { return row.names.empty() ? "" : files + (host == 0 ? "-0" : "-1"); });
  for (const char* end : {"-0", "-1"}) std::filesystem::remove(files + end);
  for (int r = 0; r < ranks; ++r) {
    const std::string& said = failures[static_cast<std::size_t>(r)];
    if (row.timeout > 1)
      EXPECT_EQ(said, row.failure) << "rank " << r;
    else  // those who never came to rank 0 speak of it
      EXPECT_EQ(said, r == 0 ? row.failure : concat("rank 0 does not answer at ", row.address(r, 1), " within 1 s"));
  }
  EXPECT_NE(notes.find(row.note), std::string::npos) << notes;
}
INSTANTIATE_TEST_SUITE_P(Rows, RankHosts, testing::ValuesIn(rows), [](const auto& info) { return std::string(info.param.name); });

// Cables that are cut between two sums: nobody is told, nothing comes any more.
struct Cut {
  const char* name;
  std::vector<int> host_of;
  int host, other;                // -1: all others
  std::vector<std::string> said;  // by rank
};
std::ostream& operator<<(std::ostream& out, const Cut& cut) {
  return out << cut.name;
}

class RankHostsCut : public testing::TestWithParam<Cut> {};

TEST_P(RankHostsCut, NameWhoCannotBeReached) {
  if (const std::string why = Hosts::missing(); !why.empty()) GTEST_SKIP() << why;
  const Cut& cut = GetParam();
  Hosts hosts(1 + *std::max_element(cut.host_of.begin(), cut.host_of.end()));
  const auto ranks = static_cast<int>(cut.host_of.size());
  std::barrier summed(ranks, [&]() noexcept {
    if (cut.other < 0)
      hosts.cut(cut.host);
    else
      hosts.cut(cut.host, cut.other);
  });
  const auto failures = on_hosts(
      hosts, cut.host_of,
      [&](int r) { return WorldOptions{.rank = r, .ranks = ranks, .address = first_by_ipv4(r, 0), .timeout_seconds = 1}; },
      [&](World& world) {
        sum(world);
        summed.arrive_and_wait();
        sum(world);
      });
  EXPECT_EQ(failures, cut.said);
}
const std::string alone = "waited 1 s and rank 0 does not answer",
                  of_1_and_2 = "waited 1 s: all ranks are there, but the line of rank 1 and rank 2 carries nothing";
INSTANTIATE_TEST_SUITE_P(
    Rows, RankHostsCut,
    testing::Values(
        Cut{"of_the_last_host", {0, 1, 2}, 2, -1, {"waited 1 s for rank 2", "waited 1 s for rank 2", alone}},
        Cut{"of_the_middle_one", {0, 1, 2}, 1, -1, {"waited 1 s for rank 1", alone, "waited 1 s for rank 1"}},
        Cut{"of_two_ranks", {0, 0, 1, 1}, 1, -1, {"waited 1 s for rank 2, rank 3", "waited 1 s for rank 2, rank 3", alone, alone}},
        Cut{"of_the_first_host", {0, 1, 2}, 0, -1, {"waited 1 s for rank 1, rank 2", alone, alone}},
        Cut{"between_two", {0, 1, 2}, 1, 2, std::vector(3, of_1_and_2)},
        Cut{"between_two_of_four", {0, 1, 2, 3}, 1, 2, std::vector(4, of_1_and_2)}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem
