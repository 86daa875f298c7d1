// The reception of those who come to a socket that listens. Anybody may come to a port: many are served at once, each has a
// short time for each message of a fixed size, and who says anything else or nothing, or does not have the secret, is sent
// away while the others are served.
#pragma once
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>

#include "ranks/hello.h"

namespace tandem {

struct Answer {  // rank 0's, when all have come
  FixedText<1024> refusal;  // empty: all have come
  Token token{};
  Door lower;  // of the rank before
};

class Reception {
 public:
  enum class Fault { no_rank, no_secret };
  // `sent_away` hears where somebody came from who is no rank of this run, and why.
  using SentAway = std::function<void(const std::string& peer, Fault fault)>;
  Reception(Socket listener, const std::string& secret, SentAway sent_away = {});
  struct Guest {
    Socket line;
    Hello hello;  // its own words: of who has the secret, but no more is known
  };
  // The next; none where nobody has come by then.
  std::optional<Guest> next(Clock::time_point end);
  const Socket& listener() const { return listener_; }

 private:
  struct Visitor {
    Socket line;
    Clock::time_point end;  // of the message that is expected
    Opening opening;
    std::optional<Challenge> challenge;  // sent
    SignedHello hello;
    std::size_t got = 0;  // bytes of the message that is expected
  };
  enum class Heard { part, all, nonsense, no_secret };
  Heard listen_to(Visitor& visitor);
  void admit();
  void send_away(std::list<Visitor>::iterator visitor, Fault fault);

  Socket listener_;
  Secret secret_;
  SentAway sent_away_;
  std::list<Visitor> visitors_;  // oldest first
};

}  // namespace tandem
