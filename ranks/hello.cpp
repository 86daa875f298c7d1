#include "ranks/hello.h"

#include <fmt/format.h>
#include <sodium.h>
#include <sys/random.h>

#include "base/error.h"
#include "ranks/library_versions.h"

namespace tandem {
namespace {

static_assert(sizeof(Proof) == crypto_auth_hmacsha256_BYTES && sizeof(Nonce) == crypto_auth_hmacsha256_KEYBYTES);
static_assert(sizeof(Hello) == 2 * sizeof(std::int32_t) + sizeof(Token) + sizeof(Door) + sizeof(LineName), "no padding is hashed");

template <class Bytes>
Bytes draw() {
  Bytes bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    fail(ExitCode::communication, "the system gives no random bytes");
  return bytes;
}

bool same(const Proof& a, const Proof& b) { return sodium_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace

Nonce draw_nonce() { return draw<Nonce>(); }
Token draw_token() { return draw<Token>(); }

std::string drawn_text() {
  std::string text;
  for (const char c : draw_token()) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

Secret::Secret(const std::string& text) : key_() {
  if (sodium_init() < 0) fail(ExitCode::communication, "libsodium cannot be used on this machine");
  crypto_hash_sha256(key_.data(), reinterpret_cast<const unsigned char*>(text.data()), text.size());
}

// A hello is in who comes' proof alone, so that neither side's serves the other.
Proof Secret::prove(const Nonce& visitor, const Nonce& listener, const Hello* hello) const {
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, key_.data(), key_.size());
  const auto add = [&](const void* bytes, std::size_t n) {
    crypto_auth_hmacsha256_update(&state, static_cast<const unsigned char*>(bytes), n);
  };
  add(&protocol, sizeof protocol);
  add(visitor.data(), visitor.size());
  add(listener.data(), listener.size());
  if (hello) add(hello, sizeof *hello);
  Proof proof{};
  crypto_auth_hmacsha256_final(&state, proof.data());
  return proof;
}

Challenge Secret::answer(const Opening& opening) const {
  Challenge c{.nonce = draw_nonce()};
  c.proof = prove(opening.nonce, c.nonce, nullptr);
  return c;
}

SignedHello Secret::sign(const Hello& hello, const Opening& opening, const Challenge& challenge) const {
  return {hello, prove(opening.nonce, challenge.nonce, &hello)};
}

bool Secret::made(const Challenge& c, const Opening& opening) const {
  return same(c.proof, prove(opening.nonce, c.nonce, nullptr));
}
bool Secret::made(const SignedHello& h, const Opening& opening, const Challenge& c) const {
  return same(h.proof, prove(opening.nonce, c.nonce, &h.hello));
}

bool Introduction::open(const Socket& line, Clock::time_point end) {
  opening_.nonce = draw_nonce();
  return send_all(line, &opening_, sizeof opening_, end);
}

Introduction::End Introduction::finish(const Socket& line, Clock::time_point end) {
  Challenge challenge;
  constexpr std::size_t magic = sizeof challenge.magic;
  if (!receive_all(line, &challenge.magic, magic, end)) return End::closed;
  if (challenge.magic != protocol) return End::stranger;
  if (!receive_all(line, reinterpret_cast<std::byte*>(&challenge) + magic, sizeof challenge - magic, end)) return End::cut;
  if (!secret_.made(challenge, opening_)) {
    const bool without = Secret("").made(challenge, opening_);
    difference_ = !has_secret_ ? "has a secret, this rank has none"
                  : without    ? "has no secret, this rank has one"
                               : "has another secret than this rank";
    return End::refused;
  }
  const SignedHello hello = secret_.sign(hello_, opening_, challenge);
  return send_all(line, &hello, sizeof hello, end) ? End::made : End::closed;
}

LibraryVersion sodium_library() { return {"libsodium", sodium_version_string()}; }

}  // namespace tandem
