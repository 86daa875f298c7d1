// A first byte that chooses who speaks, then any bytes as what is said when ranks meet: to rank 0 by a stranger (0) or by who has
// the secret (1: a hello, signed), by rank 0 to a rank, before (2) and behind (3) a challenge that is right.
#include <unistd.h>

#include <cstring>
#include <thread>

#include "ranks/control.h"
#include "ranks/rendezvous.h"
#include "tests/fuzz/fuzz.h"

namespace tandem::fuzz {
namespace {

const std::string secret = "a secret of sixteen";
constexpr double patience = 0.02;  // seconds of a rank for the others

template <class Message>
Message message_of(const std::string& bytes) {
  Message m;
  std::memcpy(static_cast<void*>(&m), bytes.data(), std::min(bytes.size(), sizeof m));
  return m;
}

// The other side, on a thread of its own.
void visit_rank_0(const Address& address, bool signs, const std::string& bytes) {
  const Socket line = connect_to(address, seconds_from_now(1));
  if (!line.open()) return;
  const auto end = seconds_from_now(patience);
  if (signs) {
    Introduction introduction(secret, message_of<Hello>(bytes));
    if (!introduction.open(line, end) || introduction.finish(line, end) != Introduction::End::made) return;
  } else if (!send_all(line, bytes.data(), bytes.size(), end)) {
    return;
  }
  char answer = 0;
  while (receive_all(line, &answer, 1, end)) {
  }
}

void be_rank_0(Socket listener, bool proves, const std::string& bytes) {
  const auto end = seconds_from_now(1);
  Socket line;
  while (!line.open() && Clock::now() < end)
    if (readable(listener, end)) line = accept_from(listener);
  listener = Socket();
  Opening opening;
  if (!line.open() || !receive_all(line, &opening, sizeof opening, end)) return;
  if (proves) {
    const Challenge challenge = Secret(secret).answer(opening);
    SignedHello hello;
    if (!send_all(line, &challenge, sizeof challenge, end) || !receive_all(line, &hello, sizeof hello, end)) return;
  }
  send_all(line, bytes.data(), bytes.size(), end);
}

}  // namespace
}  // namespace tandem::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem;
  if (size == 0) return 0;
  static const std::string place = concat("unix:@tandem-fuzz-", ::getpid());
  const Address address = parse_address(place);
  const unsigned way = data[0] % 4;
  const std::string bytes = fuzz::text_of(data + 1, size - 1);
  WorldOptions options{.rank = way < 2 ? 0 : 1, .ranks = 2 + data[0] / 64, .address = place};
  options.timeout_seconds = fuzz::patience;
  options.secret = fuzz::secret;
  Socket listener = way < 2 ? Socket() : listen_at(address);
  std::jthread other([&, l = std::move(listener)]() mutable {
    way < 2 ? fuzz::visit_rank_0(address, way == 1, bytes) : fuzz::be_rank_0(std::move(l), way == 3, bytes);
  });
  return fuzz::run([&] { greet(options); });
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t room, unsigned seed) {
  using namespace tandem;
  fuzz::Random random(seed);
  std::string bytes = fuzz::text_of(data, size);
  if (bytes.empty() || random.one_in(8)) bytes.insert(0, 1, static_cast<char>(random.below(256)));
  std::string message = bytes.substr(1);
  fuzz::mutate_bytes(message, random);
  return fuzz::give(bytes.substr(0, 1) + message, data, room);
}
