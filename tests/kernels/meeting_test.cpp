#include "kernels/meeting.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"

namespace tandem {
namespace {

TEST(Meeting, KeepsMembersInStep) {
  constexpr int members = 4, rounds = 200;
  Meeting meeting(members, 0, 60);
  std::vector<int> counts(members);
  std::vector<std::thread> threads;
  for (int m = 0; m < members; ++m)
    threads.emplace_back([&, m] {
      for (int i = 0; i < rounds; ++i) {
        ++counts[static_cast<std::size_t>(m)];
        meeting.meet(m);
        for (const int c : counts) EXPECT_EQ(c, i + 1);
        meeting.meet(m);
      }
    });
  for (std::thread& t : threads) t.join();
}

TEST(Meeting, NamesThoseThatDoNotCome) {
  Meeting meeting(3, 6, 0.1);
  const auto meet = [&](int member) -> std::string {
    try {
      meeting.meet(member);
      return {};
    } catch (const Error& e) {
      return e.what();
    }
  };
  std::string other;
  std::thread thread([&] { other = meet(2); });
  EXPECT_EQ(meet(0), "all-reduce: waited 0.1 s for rank 7");
  thread.join();
  EXPECT_EQ(other, "all-reduce: waited 0.1 s for rank 7");
}

}  // namespace
}  // namespace tandem
