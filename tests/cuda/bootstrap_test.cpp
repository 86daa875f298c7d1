// How the processes of a group find each other, with threads as processes, on the loopback address.
#include <gtest/gtest.h>

#include <future>
#include <unistd.h>

#include "graph/error.h"
#include "kernels/cuda/rendezvous/bootstrap.h"
#include "kernels/cuda/rendezvous/meeting.h"

namespace tandem::cuda {
namespace {

// A port of this process's own: tests may run side by side.
std::string address(int test) { return concat("127.0.0.1:", 20000 + (static_cast<int>(getpid()) * 8 + test) % 40000); }

struct Joined {
  std::unique_ptr<Bootstrap> group;
  SharedSecret secret{};
  std::string error;
};
Joined join(const std::string& where, Member self, int ranks, const std::string& plan, double timeout) {
  Joined j;
  if (self.first_rank == 0) j.secret.fill('s');
  try {
    j.group = std::make_unique<Bootstrap>(Bootstrap::Options{where, self, ranks, plan, timeout}, j.secret);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::communication);
    j.error = e.what();
  }
  return j;
}
std::future<Joined> start(const std::string& where, Member self, int ranks, const std::string& plan, double timeout) {
  return std::async(std::launch::async, join, where, self, ranks, plan, timeout);
}
bool says(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(Bootstrap, EveryProcessGetsTheSecret) {
  auto a = start(address(0), {0, 2}, 4, "plan", 20), b = start(address(0), {2, 1}, 4, "plan", 20), c = start(address(0), {3, 1}, 4, "plan", 20);
  for (auto* f : {&a, &b, &c}) {
    const Joined j = f->get();
    EXPECT_EQ(j.error, "");
    EXPECT_EQ(j.secret[0], 's');
    EXPECT_EQ(j.secret[127], 's');
  }
}

TEST(Bootstrap, AnotherPlanIsRefusedEverywhereByName) {
  auto a = start(address(1), {0, 1}, 2, "aaaa", 20), b = start(address(1), {1, 1}, 2, "bbbb", 20);
  for (auto* f : {&a, &b}) {
    const std::string error = f->get().error;
    EXPECT_TRUE(says(error, "rank 1 has plan bbbb, rank 0 has aaaa")) << error;
  }
}

TEST(Bootstrap, AMissingRankIsNamed) {
  auto a = start(address(2), {0, 1}, 3, "plan", 1), b = start(address(2), {1, 1}, 3, "plan", 1);
  for (auto* f : {&a, &b}) {
    const std::string error = f->get().error;
    EXPECT_TRUE(says(error, "still waiting for rank 2")) << error;
  }
}

TEST(Bootstrap, RankZeroMissing) {
  const std::string error = join(address(3), {1, 1}, 2, "plan", 0.5).error;
  EXPECT_TRUE(says(error, "rank 1: rank 0 does not answer")) << error;
}

TEST(Bootstrap, TheOthersLearnWhoEnded) {
  auto a = start(address(4), {0, 1}, 3, "plan", 20), b = start(address(4), {1, 1}, 3, "plan", 20), c = start(address(4), {2, 1}, 3, "plan", 20);
  Joined zero = a.get(), one = b.get(), two = c.get();
  std::promise<std::string> heard_by_zero, heard_by_one;
  zero.group->watch([&](const std::string& reason) { heard_by_zero.set_value(reason); });
  one.group->watch([&](const std::string& reason) { heard_by_one.set_value(reason); });
  two.group.reset();
  EXPECT_EQ(heard_by_zero.get_future().get(), "rank 2 has ended");
  EXPECT_EQ(heard_by_one.get_future().get(), "rank 2 has ended");
}

TEST(Meeting, NamesTheRankThatDoesNotCome) {
  Meeting meeting(3, 0.3);
  const auto wait = [&](int rank) -> std::string {
    try {
      meeting.wait(rank);
      return {};
    } catch (const Error& e) {
      return e.what();
    }
  };
  auto other = std::async(std::launch::async, wait, 2);
  const std::string own = wait(0);
  EXPECT_TRUE(says(own, "rank 1")) << own;
  EXPECT_TRUE(says(other.get(), "rank 1"));
}

TEST(Meeting, ManyRounds) {
  constexpr int ranks = 4, rounds = 200;
  Meeting meeting(ranks, 20);
  std::vector<int> counts(ranks);
  std::vector<std::future<void>> all;
  for (int r = 0; r < ranks; ++r)
    all.push_back(std::async(std::launch::async, [&, r] {
      for (int i = 0; i < rounds; ++i) {
        ++counts[static_cast<std::size_t>(r)];
        meeting.wait(r);
        for (const int c : counts) EXPECT_EQ(c, i + 1);
        meeting.wait(r);
      }
    }));
  for (auto& f : all) f.get();
}

}  // namespace
}  // namespace tandem::cuda
