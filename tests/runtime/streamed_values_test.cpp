// Values that sessions take and give in pieces, over a fake backend and hand-made plans.
#include "graph/tensor_chunks.h"
#include "tests/runtime/linear_session.h"

namespace tandem::test {
namespace {

// 0, 1, 2, ...
struct Numbers final : TensorSource {
  void read(std::span<std::byte> to, std::int64_t offset) const override {
    largest = std::max(largest, to.size());
    const std::span<float> values(reinterpret_cast<float*>(to.data()), to.size() / sizeof(float));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(static_cast<std::size_t>(offset) / sizeof(float) + i);
  }
  mutable std::size_t largest = 0;
};

// Two and a half pieces of values never are in memory as a whole, on the way to the devices and back.
TEST(StreamedValues, TakesAndGivesLargeParametersInPieces) {
  constexpr std::int64_t columns = tensor_chunk / 4 * 5 / 2;
  FakeBackend fake;
  const Backend* backends[] = {&fake};
  Session session(linear_plan({1, 1}, columns), backends);
  const auto source = std::make_shared<Numbers>();
  const NamedTensor w{"w", Tensor({DType::float32, Shape{columns}}, source)};
  session.set_parameters({&w, 1});
  EXPECT_FALSE(w.tensor.in_memory());
  EXPECT_EQ(static_cast<std::int64_t>(source->largest), tensor_chunk);
  for (int d = 0; d < 2; ++d) EXPECT_TRUE(session.parameters(d)[0].tensor == w.tensor) << "device " << d;
  const Tensor streamed = session.streamed("w");
  EXPECT_FALSE(streamed.in_memory());
  float next = 0;
  each_chunk(streamed, [&](std::span<const std::byte> bytes, std::int64_t at) {
    EXPECT_LE(std::ssize(bytes), tensor_chunk);
    EXPECT_EQ(at, static_cast<std::int64_t>(next) * 4);
    const auto* values = reinterpret_cast<const float*>(bytes.data());
    for (std::size_t i = 0; i < bytes.size() / 4; ++i) ASSERT_EQ(values[i], next++);
  });
  EXPECT_EQ(next, static_cast<float>(columns));
  EXPECT_TRUE(contains(failure([&] { session.streamed("v"); }), "no parameter 'v'"));
}

TEST(StreamedValues, AreThoseOfNow) {
  FakeBackend fake;
  const Backend* backends[] = {&fake};
  Session session(linear_plan({1}, 3), backends);
  session.set_parameters(std::vector{weights({1, 2, 3})});
  const Tensor streamed = session.streamed("w");
  step(session, 0, {1, 1, 1});
  EXPECT_EQ(floats(streamed), (std::vector<float>{0.5F, 1.5F, 2.5F}));
  std::vector<std::string> names;
  session.each_streamed(ValueRole::plain, [&](const NamedTensor& t) { names.push_back(t.name); });
  EXPECT_EQ(names, std::vector<std::string>{"w"});
}

}  // namespace
}  // namespace tandem::test
