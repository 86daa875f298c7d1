// What ranks say to each other first, and the reception of those who come to a socket that listens. Anybody may come to a
// port: many are served at once, each has a short time to say a message of a fixed size, and who says anything else or
// nothing is sent away while the others are served.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <list>
#include <optional>
#include <string>

#include "ranks/socket.h"

namespace tandem {

// A text in a message of a fixed size; what is longer is cut.
template <std::size_t room>
struct FixedText {
  std::array<char, room> bytes{};
  FixedText() = default;
  FixedText(const std::string& text) { text.copy(bytes.data(), room - 1); }
  std::string text() const { return {bytes.data(), ::strnlen(bytes.data(), room)}; }
};
using Place = FixedText<112>;          // a port, or a path
using Token = std::array<char, 16>;    // of a run, by chance: who has it was sent by rank 0
constexpr std::uint64_t protocol = 0x0003'6d65646e6174;  // "tandem" and the protocol's version

// Where a rank listens for the one after it. Each says where it is bound; rank 0 passes on where others find it.
struct Door {
  FixedText<256> host;  // in numbers; empty: where rank 0 is
  Place place;
};
struct Hello {
  std::uint64_t magic = protocol;
  std::int32_t rank = 0, ranks = 0;
  Token token{};  // at the door of the rank before
  Door door;
};
struct Answer {  // rank 0's
  std::uint64_t magic = protocol;
  FixedText<1024> refusal;  // empty: all have come
  Token token{};
  Door lower;  // of the rank before
};

class Reception {
 public:
  // `sent_away` hears where somebody came from who is no rank.
  explicit Reception(Socket listener, std::function<void(const std::string&)> sent_away = {});
  struct Guest {
    Socket line;
    Hello hello;  // its own words: of this protocol, but no more is known
  };
  // The next; none where nobody has come by then.
  std::optional<Guest> next(Clock::time_point end);
  const Socket& listener() const { return listener_; }

 private:
  struct Visitor {
    Socket line;
    Clock::time_point end;
    Hello hello;
    std::size_t got = 0;
  };
  enum class Heard { part, all, nonsense };
  static Heard listen_to(Visitor& visitor);
  void admit();
  void send_away(std::list<Visitor>::iterator visitor);

  Socket listener_;
  std::function<void(const std::string&)> sent_away_;
  std::list<Visitor> visitors_;  // oldest first
};

}  // namespace tandem
