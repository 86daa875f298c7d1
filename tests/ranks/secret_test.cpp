// What ranks that have a secret let in, and what they send away.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <optional>
#include <thread>

#include "ranks/reception.h"
#include "tests/ranks/address.h"
#include "tests/ranks/meet.h"

namespace tandem {
namespace {

using test::meet;
using test::RankAddress;
constexpr double long_time = 30;

// Who has the run's secret is a rank, and nobody else.
TEST(RankSecret, IsWhatRanksMeetBy) {
  struct {
    const char *first, *other, *want;  // in the error of the one who comes; empty: they meet
  } const rows[] = {
      {"a secret of sixteen", "a secret of sixteen", ""},
      {"a secret of sixteen", "", "has a secret, this rank has none: give all ranks the same one (option secret_file)"},
      {"", "a secret of sixteen", "has no secret, this rank has one"},
      {"a secret of sixteen", "a secret of sixteeN", "has another secret than this rank"},
  };
  for (const auto& row : rows)
    for (const bool tcp : {false, true}) {
      const RankAddress address(tcp);
      const bool meets = std::string(row.want).empty();
      std::string failures[3], notes;
      std::vector<std::thread> ranks;
      for (int r = 0; r < 3; ++r)
        ranks.emplace_back([&, r] {
          failures[r] = meet({.rank = r,
                              .ranks = 3,
                              .address = address.text(),
                              .timeout_seconds = meets ? long_time : 1,
                              .secret = r == 2 ? row.other : row.first,
                              .note = [&, r](const std::string& note) { r == 0 ? void(notes += note) : void(); }});
        });
      for (std::thread& t : ranks) t.join();
      if (meets) {
        for (const std::string& f : failures) EXPECT_EQ(f, "");
        continue;
      }
      EXPECT_NE(failures[2].find(row.want), std::string::npos) << failures[2];
      const std::string from = tcp ? " from 127.0.0.1" : "";
      EXPECT_EQ(failures[0], concat("waited 1 s for rank 2; sent away: somebody came", from, " without this run's secret"));
      EXPECT_EQ(failures[1], failures[0]);
      EXPECT_NE(notes.find("does not have this run's secret, and was sent away"), std::string::npos) << notes;
    }
}

// What was heard on a line, turned round, or changed in any bit opens no other one.
TEST(RankSecret, IsNotShownByWhatOthersSaid) {
  const std::string text = "a secret of sixteen";
  const Secret secret(text);
  int refused = 0;
  const RankAddress place(true);
  Reception door(listen_at(parse_address(place.text())), text, [&](const std::string&, Reception::Fault fault) {
    EXPECT_EQ(fault, Reception::Fault::no_secret);
    ++refused;
  });
  std::optional<SignedHello> heard;
  const auto come = [&](const std::function<SignedHello(const Opening&, const Challenge&)>& say) {
    std::jthread visitor([&] {
      const Socket line = connect_to(parse_address(place.text()), seconds_from_now(10));
      const Opening opening;
      Challenge challenge;
      send_all(line, &opening, sizeof opening, seconds_from_now(1));
      ASSERT_TRUE(receive_all(line, &challenge, sizeof challenge, seconds_from_now(10)));
      const SignedHello hello = say(opening, challenge);
      send_all(line, &hello, sizeof hello, seconds_from_now(1));
      char end = 0;
      receive_all(line, &end, 1, seconds_from_now(10));
    });
    const int before = refused;
    std::optional<Reception::Guest> guest;
    while (!guest && refused == before) guest = door.next(seconds_from_now(0.02));
    return guest.has_value();
  };
  const Hello hello{.rank = 1, .ranks = 2};
  EXPECT_TRUE(come([&](const Opening& o, const Challenge& c) { return *(heard = secret.sign(hello, o, c)); }));
  EXPECT_FALSE(come([&](const Opening&, const Challenge&) { return *heard; })) << "again";
  EXPECT_FALSE(come([&](const Opening&, const Challenge& c) { return SignedHello{hello, c.proof}; })) << "the listener's own proof";
  EXPECT_EQ(refused, 2);
  for (std::size_t byte = 0; byte < sizeof(SignedHello); byte += 37)
    EXPECT_FALSE(come([&](const Opening& o, const Challenge& c) {
      SignedHello changed = secret.sign(hello, o, c);
      reinterpret_cast<unsigned char*>(&changed)[byte] ^= 1U << byte % 8;
      return changed;
    })) << byte;
}

}  // namespace
}  // namespace tandem
