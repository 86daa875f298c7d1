// Who comes to the ports of ranks without being one: over real sockets, while the ranks find each other.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <atomic>
#include <barrier>
#include <csignal>
#include <functional>
#include <mutex>
#include <thread>

#include "ranks/chain.h"
#include "ranks/world.h"
#include "tests/ranks/address.h"
#include "tests/ranks/meet.h"

namespace tandem {
namespace {

using test::meet;
using test::RankAddress;
constexpr double long_time = 30;

double seconds_of(const std::function<void()>& job) {
  const auto start = Clock::now();
  job();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Strangers keep their lines until the end.
struct Strangers {
  std::vector<Socket> lines;
  std::vector<std::jthread> talkers;
  Socket& come(const std::string& address) {
    lines.push_back(connect_to(parse_address(address), seconds_from_now(10)));
    EXPECT_TRUE(lines.back().open());
    return lines.back();
  }
  // As a rank does that has this secret.
  Introduction::End say(const std::string& address, const Hello& hello, const std::string& secret = "") {
    return talk(come(address), hello, secret);
  }
  static Introduction::End talk(const Socket& line, const Hello& hello, const std::string& secret = "") {
    Introduction introduction(secret, hello);
    introduction.open(line, seconds_from_now(1));
    return introduction.finish(line, seconds_from_now(5));
  }
  void trickle(const std::string& address, std::string beginning = "") {
    auto line = std::make_shared<Socket>(connect_to(parse_address(address), seconds_from_now(10)));
    talkers.emplace_back([line, beginning](std::stop_token ended) {
      send_all(*line, beginning.data(), beginning.size(), seconds_from_now(1));
      for (const char x = 't'; !ended.stop_requested() && send_all(*line, &x, 1, seconds_from_now(1));)
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    });
  }
};

struct Row {
  const char* name;
  std::function<void(Strangers&, const std::string& address)> come;
  const char* note = "";  // rank 0 says it
};
std::ostream& operator<<(std::ostream& out, const Row& row) { return out << row.name; }

const Row rows[] = {
    {"silent_ones", [](Strangers& s, const std::string& a) { for (int i = 0; i < 100; ++i) s.come(a); }},
    {"a_trickle", [](Strangers& s, const std::string& a) { s.trickle(a); }},
    {"a_trickle_that_began_well",
     [](Strangers& s, const std::string& a) {
       const Opening opening;
       s.trickle(a, {reinterpret_cast<const char*>(&opening), 20});
     }},
    {"another_protocol",
     [](Strangers& s, const std::string& a) {
       const std::string words = "GET / HTTP/1.1\r\nHost: rank0\r\n\r\n";
       send_all(s.come(a), words.data(), words.size(), seconds_from_now(1));
     },
     "who is no rank of this run, and was sent away"},
    {"a_rank_that_there_is_not", [](Strangers& s, const std::string& a) { s.say(a, {.rank = 7, .ranks = 2}); }, "rank 7 came, expected ranks 1 to 1"},
    {"a_rank_below_all", [](Strangers& s, const std::string& a) { s.say(a, {.rank = -2147483647, .ranks = 2}); }, "expected ranks 1 to 1"},
    {"a_second_rank_0", [](Strangers& s, const std::string& a) { s.say(a, {.rank = 0, .ranks = 2}); }, "rank 0 came, expected ranks 1 to 1"},
    {"another_count", [](Strangers& s, const std::string& a) { s.say(a, {.rank = 1, .ranks = 3}); }, "rank 1 counts 3 ranks, rank 0 counts 2"},
    {"many_of_all",
     [](Strangers& s, const std::string& a) {
       for (int i = 0; i < 20; ++i) {
         s.come(a);
         s.trickle(a);
         s.say(a, {.rank = 2, .ranks = 2});
         s.say(a, {.rank = 1, .ranks = 1 << 30});
       }
     },
     "no more of this is reported"},
};

class RankPort : public testing::TestWithParam<Row> {};
TEST_P(RankPort, IsKeptForRanks) {
  for (const bool tcp : {false, true}) {
    const RankAddress address(tcp);
    std::string failures[2], notes;
    std::mutex lock;
    const auto note = [&](const std::string& text) {
      const std::lock_guard hold(lock);
      notes += text + "\n";
    };
    std::thread first(
        [&] { failures[0] = meet({.rank = 0, .ranks = 2, .address = address.text(), .timeout_seconds = long_time, .note = note}); });
    Strangers strangers;
    GetParam().come(strangers, address.text());
    const double took =
        seconds_of([&] { failures[1] = meet({.rank = 1, .ranks = 2, .address = address.text(), .timeout_seconds = long_time}); });
    first.join();
    EXPECT_EQ(failures[0] + failures[1], "");
    EXPECT_LT(took, 5);
    EXPECT_NE(notes.find(GetParam().note), std::string::npos) << notes;
    EXPECT_LE(std::count(notes.begin(), notes.end(), '\n'), 5) << notes;
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, RankPort, testing::ValuesIn(rows), [](const auto& info) { return std::string(info.param.name); });

// A rank that ends before all have come, and is started anew.
TEST(RankPort, GivesAPlaceAnewThatIsFreeAgain) {
  const RankAddress address(true);
  std::string failures[3];
  std::vector<std::thread> ranks;
  const auto start = [&](int r) {
    ranks.emplace_back([&, r] { failures[r] = meet({.rank = r, .ranks = 3, .address = address.text(), .timeout_seconds = long_time}); });
  };
  start(0);
  {
    Strangers strangers;
    strangers.say(address.text(), {.rank = 1, .ranks = 3});
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  start(2);
  start(1);
  for (std::thread& t : ranks) t.join();
  for (const std::string& f : failures) EXPECT_EQ(f, "");
}

TEST(RankPortTimeout, HoldsWhoeverElseComes) {
  const RankAddress address(true);
  Strangers strangers;
  std::string failure;
  std::thread first([&] {
    const double took = seconds_of([&] { failure = meet({.rank = 0, .ranks = 2, .address = address.text(), .timeout_seconds = 1}); });
    EXPECT_LT(took, 2);
    EXPECT_GE(took, 1);
  });
  for (int i = 0; i < 10; ++i) {
    strangers.trickle(address.text());
    strangers.come(address.text());
  }
  strangers.say(address.text(), {.rank = 1, .ranks = 3});
  first.join();
  EXPECT_EQ(failure, "waited 1 s for rank 1; sent away: rank 1 counts 3 ranks, rank 0 counts 2");
}

TEST(RankPortTimeout, OfOneWhoComesHoldsWhateverListens) {
  struct {
    std::string says;
    bool trickles;
    std::string want;
  } const listeners[] = {
      {"", true, "is not rank 0 of this version of tandem"},
      {"HTTP/1.1 400 Bad Request\r\n\r\n", false, "is not rank 0 of this version of tandem"},
      {std::string(reinterpret_cast<const char*>(&protocol), sizeof protocol) + std::string(20, 'x'), false,
       "ended before all ranks had come"},
      {std::string(reinterpret_cast<const char*>(&protocol), sizeof protocol) + std::string(100, 'x'), true,
       "has a secret, this rank has none"},
  };
  for (const auto& row : listeners) {
    const RankAddress address(true);
    const Socket listener = listen_at(parse_address(address.text()));
    std::jthread fake([&](std::stop_token ended) {
      Socket line;
      while (!ended.stop_requested() && !line.open()) line = accept_from(listener);
      send_all(line, row.says.data(), row.says.size(), seconds_from_now(1));
      for (int sent = 0; row.trickles && sent < 20 && !ended.stop_requested(); ++sent) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        send_all(line, "x", 1, seconds_from_now(1));
      }
    });
    std::string failure;
    const double took = seconds_of([&] { failure = meet({.rank = 1, .ranks = 2, .address = address.text(), .timeout_seconds = 0.5}); });
    EXPECT_LT(took, 3);
    EXPECT_NE(failure.find(row.want), std::string::npos) << failure;
  }
}

TEST(RankPort, ListensAtItsAddressAlone) {
  const std::string port = listen_beside({"127.0.0.1", "0"}, "127.0.0.1", 0).second;
  const Socket listener = listen_at({"127.0.0.2", port});
  EXPECT_TRUE(connect_to({"127.0.0.2", port}, Clock::now() + std::chrono::seconds(5)).open());
  EXPECT_FALSE(connect_to({"127.0.0.1", port}, Clock::now()).open()) << "another address of this machine";

  // Neighbours' doors: where rank 0 is reached.
  const std::string address = "127.0.0.2:" + listen_beside({"127.0.0.2", "0"}, "127.0.0.2", 0).second;
  Greeting greetings[3];
  std::vector<std::thread> ranks;
  for (int r = 0; r < 3; ++r)
    ranks.emplace_back([&, r] { greetings[r] = greet({.rank = r, .ranks = 3, .address = address, .timeout_seconds = long_time}); });
  for (std::thread& t : ranks) t.join();
  for (const Greeting& g : greetings) {
    EXPECT_TRUE(is_loopback(own_host(g.door))) << own_host(g.door);
    EXPECT_EQ(g.where.token, greetings[0].where.token);
  }
  EXPECT_EQ(own_host(greetings[0].door), "127.0.0.2");
  EXPECT_NE(greetings[0].where.token, Token{});
}

TEST(RankPort, OfOneOfThisMachinesNamesIsToldToBeItsOwn) {
  EXPECT_TRUE(means_loopback("localhost"));
  EXPECT_TRUE(means_loopback("127.0.0.9"));
  EXPECT_FALSE(means_loopback("node1"));
}

TEST(RankPort, InTheSystemsMemoryLeavesNoFileAndIsTakenOnce) {
  const std::string address = concat("unix:@tandem-test-", ::getpid());
  std::string failures[2];
  std::thread first([&] { failures[0] = meet({.rank = 0, .ranks = 2, .address = address, .timeout_seconds = long_time}); });
  failures[1] = meet({.rank = 1, .ranks = 2, .address = address, .timeout_seconds = long_time});
  first.join();
  EXPECT_EQ(failures[0] + failures[1], "");

  // A file where somebody listens is not taken away from him; one that was left is.
  const RankAddress file;
  {
    const Socket there = listen_at(parse_address(file.text()));
    EXPECT_THROW(listen_at(parse_address(file.text())), Error);
  }
  EXPECT_NO_THROW(listen_at(parse_address(file.text())));
}

TEST(RankPort, MakesRoomForWhoComesLast) {
  const RankAddress address(true);
  Strangers silent;
  Reception reception(listen_at(parse_address(address.text())), "");
  for (int i = 0; i < 100; ++i) silent.come(address.text());
  const std::jthread last([&] { silent.say(address.text(), {.rank = 1, .ranks = 2}); });
  const std::optional<Reception::Guest> guest = reception.next(seconds_from_now(1));  // before the time of the first is over
  ASSERT_TRUE(guest.has_value());
  EXPECT_EQ(guest->hello.rank, 1);
}

// A user's processes meet among themselves.
TEST(RankPort, OnOneMachineIsItsUsersAlone) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs to be root, to become somebody else";
  const std::string address = concat("unix:@tandem-test-of-others-", ::getpid());
  const pid_t other = ::fork();
  if (other == 0) {  // says that it is rank 1, and stays
    sockaddr_un at{.sun_family = AF_UNIX, .sun_path = {}};
    address.copy(at.sun_path, sizeof at.sun_path, 5);
    at.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size() - 5);
    const Socket line(::socket(AF_UNIX, SOCK_STREAM, 0));
    const Opening hello;
    if (::setuid(65534) != 0) ::_exit(1);
    while (::connect(line.get(), reinterpret_cast<const sockaddr*>(&at), size) != 0) ::usleep(1000);
    send_all(line, &hello, sizeof hello, seconds_from_now(1));
    for (;;) ::pause();
  }
  std::string failures[2];
  std::atomic<bool> sent_away = false;
  std::thread first([&] {
    failures[0] = meet(
        {.rank = 0, .ranks = 2, .address = address, .timeout_seconds = long_time, .note = [&](const std::string&) { sent_away = true; }});
  });
  for (int i = 0; i < 5000 && !sent_away; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  failures[1] = meet({.rank = 1, .ranks = 2, .address = address, .timeout_seconds = long_time});
  first.join();
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  EXPECT_EQ(failures[0] + failures[1], "");
  EXPECT_TRUE(sent_away);
}

// At the door of a neighbour only who has rank 0's token is let in.
TEST(RankDoor, IsKeptForTheNextRank) {
  const RankAddress address(true);
  const WorldOptions options[] = {{.rank = 0, .ranks = 2, .address = address.text(), .timeout_seconds = long_time},
                                  {.rank = 1, .ranks = 2, .address = address.text(), .timeout_seconds = long_time}};
  std::atomic<bool> came = false;
  std::barrier together(2);  // who leaves while the other still joins would be missed
  Neighbours neighbours[2];
  std::vector<std::thread> ranks;
  Strangers strangers;
  std::jthread late;  // who is answered when the door is served
  for (int r = 0; r < 2; ++r)
    ranks.emplace_back([&, r] {
      Greeting greeting = greet(options[r]);
      if (r == 1) {
        const std::string door = to_string(greeting.lower);
        for (int i = 0; i < 5; ++i) strangers.come(door);
        strangers.trickle(door);
        late = std::jthread([&line = strangers.come(door)] { Strangers::talk(line, {.rank = 1, .ranks = 2}); });
        came = true;
      }
      while (!came) std::this_thread::yield();
      Control control(r, std::move(greeting.control), long_time);
      neighbours[r] = join_neighbours(options[r], std::move(greeting), control);
      together.arrive_and_wait();
      control.be_leaving();
      together.arrive_and_wait();
    });
  for (std::thread& t : ranks) t.join();
  ASSERT_TRUE(neighbours[0].upper.open() && neighbours[1].lower.open());
  const char word = 'w';
  char heard = 0;
  EXPECT_TRUE(send_all(neighbours[1].lower, &word, 1, seconds_from_now(1)));
  EXPECT_TRUE(receive_all(neighbours[0].upper, &heard, 1, seconds_from_now(1)));
  EXPECT_EQ(heard, word) << "another line than that of rank 1";
}

// A rank 0 that announces more than it sends.
TEST(RankOfAFakeFirst, TakesNoMoreMemoryThanComes) {
  const RankAddress address;
  std::thread fake([&] {
    const WorldOptions o{.rank = 0, .ranks = 2, .address = address.text(), .timeout_seconds = long_time};
    Greeting greeting = greet(o);
    Control control(0, std::move(greeting.control), long_time);
    Chain chain(0, join_neighbours(o, std::move(greeting), control), long_time, control);
    std::uint64_t size = std::uint64_t{1} << 62;
    constexpr std::uint64_t broadcast_size = 2;
    const Chain::Fold nothing{nullptr, [](void*, std::int64_t, std::int64_t, const std::byte*) {}};
    chain.run({.kind = broadcast_size, .bytes = sizeof size}, 1, reinterpret_cast<std::byte*>(&size), nothing);
  });
  const auto peak = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;  // KiB
  };
  const auto before = peak();
  World world({.rank = 1, .ranks = 2, .address = address.text(), .timeout_seconds = long_time});
  try {
    world.broadcast("");
    ADD_FAILURE() << "nothing came";
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()), "rank 0 has ended");
  }
  EXPECT_LT(peak() - before, 100 << 10);
  fake.join();
}

}  // namespace
}  // namespace tandem
