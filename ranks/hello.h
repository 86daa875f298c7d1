// What two processes say to each other first, at rank 0's address and at a neighbour's door. Who listens shows that it has
// the secret of the run, then who comes does: each by a keyed hash (HMAC-SHA-256) over a nonce of either side, so that
// neither sends the secret and nothing that was heard is of use a second time. What follows is not encrypted.
#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
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
using Place = FixedText<112>;        // a port, or a path
using Token = std::array<char, 16>;  // of a run, by chance: who has it was sent by rank 0
using Nonce = std::array<unsigned char, 32>;
using Proof = std::array<unsigned char, 32>;
constexpr std::uint64_t protocol = 0x0005'6d65646e6174;  // "tandem" and the protocol's version

// The messages, in their order.
struct Opening {  // of who comes
  std::uint64_t magic = protocol;
  Nonce nonce{};
};
struct Challenge {  // of who listens
  std::uint64_t magic = protocol;
  Nonce nonce{};
  Proof proof{};
};
// Where a rank listens for the one after it. Each says where it is bound; rank 0 passes on where others find it.
struct Door {
  FixedText<256> host;  // in numbers; empty: where rank 0 is
  Place place;
};
// Which line between two devices of different ranks somebody comes for; by default the one between neighbours.
struct LineName {
  std::int32_t low = -1, low_stream = -1, high = -1, high_stream = -1;
  auto operator<=>(const LineName&) const = default;
};
struct Hello {
  std::int32_t rank = 0, ranks = 0;
  Token token{};  // at another rank's door
  Door door;
  LineName line;
};
struct SignedHello {
  Hello hello;
  Proof proof{};
};

Nonce draw_nonce();  // fails (communication) where the system gives no random bytes
Token draw_token();
std::string drawn_text();  // a token's as 32 hexadecimal digits

// What all ranks of a run know and nobody else. Without one a hash that everybody can make takes its place.
class Secret {
 public:
  explicit Secret(const std::string& text);
  Challenge answer(const Opening& opening) const;
  SignedHello sign(const Hello& hello, const Opening& opening, const Challenge& challenge) const;
  bool made(const Challenge& challenge, const Opening& opening) const;
  bool made(const SignedHello& hello, const Opening& opening, const Challenge& challenge) const;

 private:
  Proof prove(const Nonce& visitor, const Nonce& listener, const Hello* hello) const;
  std::array<unsigned char, 32> key_;
};

// The side that comes: opens, then reads the challenge and answers it.
class Introduction {
 public:
  Introduction(const std::string& secret, const Hello& hello) : secret_(secret), has_secret_(!secret.empty()), hello_(hello) {}
  bool open(const Socket& line, Clock::time_point end);  // false: the line has closed
  // closed: before a word came; cut: in the middle of one; stranger: of another protocol; refused: it does not have the secret.
  enum class End { made, closed, cut, stranger, refused };
  End finish(const Socket& line, Clock::time_point end);
  const std::string& difference() const { return difference_; }  // after `refused`: "has a secret, this rank has none"

 private:
  Secret secret_;
  bool has_secret_;
  Hello hello_;
  Opening opening_;
  std::string difference_;
};

}  // namespace tandem
