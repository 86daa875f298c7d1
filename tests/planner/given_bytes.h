// A network trained on images of bytes, given as such or as the numbers that they become.
#pragma once
#include "tests/planner/small_models.h"

namespace tandem::small_models {

constexpr std::int64_t channels_of_x = 3;

// A row for each channel.
inline std::vector<float> table_of_x() {
  std::vector<float> table;
  for (int c = 0; c < channels_of_x; ++c)
    for (int v = 0; v < 256; ++v) table.push_back(static_cast<float>(v) * (0.017F + 0.001F * static_cast<float>(c)) - 2.1F);
  return table;
}

// Of images [N,3,8,8], or, with their channels last, [N,8,8,3].
inline GivenBytes bytes_of_x(bool channels_last) {
  return {.perm = channels_last ? Ints{0, 3, 1, 2} : Ints{}, .axis = 1, .table = table_of_x()};
}

// Trains a model of `x` [N,3,8,8] as options.given_bytes says. The images are the same either way.
inline Trained train_on_images(const Backend& backend, Graph (*model)(std::int64_t), const CompileOptions& o, int steps, double rate) {
  const Backend* backends[] = {&backend};
  Session session(compile(model, o, backends), backends);
  const Plan& plan = session.plan();
  session.set_parameters(values_of(model(1)));
  const auto given = o.given_bytes.find("x");
  const bool bytes = given != o.given_bytes.end(), last = bytes && !given->second.perm.empty();
  const std::vector<float> table = table_of_x();
  Trained run;
  for (int step = 1; step <= steps; ++step) {
    constexpr std::int64_t pixels = 64;
    const std::int64_t elements = o.batch * channels_of_x * pixels;
    std::mt19937 random(static_cast<unsigned>(step));
    std::vector<std::uint8_t> as_bytes(static_cast<std::size_t>(elements));
    std::vector<float> as_floats(as_bytes.size());
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < elements; ++i) {
      const auto v = static_cast<std::uint8_t>(random() & 255U);
      const std::int64_t n = i / (channels_of_x * pixels), c = i / pixels % channels_of_x, p = i % pixels;
      as_floats[static_cast<std::size_t>(i)] = table[static_cast<std::size_t>(c * 256 + v)];
      as_bytes[static_cast<std::size_t>(last ? (n * pixels + p) * channels_of_x + c : i)] = v;
      if (c == 0 && p == 0) labels.push_back(v / 64);
    }
    std::vector<const std::byte*> in;
    for (const HostInput& h : plan.inputs)
      in.push_back(h.name == "x"
                       ? bytes ? reinterpret_cast<const std::byte*>(as_bytes.data()) : reinterpret_cast<const std::byte*>(as_floats.data())
                   : h.name == "labels" ? reinterpret_cast<const std::byte*>(labels.data())
                                        : nullptr);
    std::vector<std::vector<float>> out;
    std::vector<std::byte*> pointers;
    for (const HostOutput& h : plan.outputs) out.emplace_back(static_cast<std::size_t>(h.type.shape.elements()) * o.devices.size());
    for (auto& values : out) pointers.push_back(reinterpret_cast<std::byte*>(values.data()));
    session.run(0, in, pointers, {.learning_rate = rate, .step = step});
    float loss = 0;
    for (const float part : out[0]) loss += part;
    run.losses.push_back(loss);
  }
  for (int d = 0; d < session.devices(); ++d) {
    run.replicas.push_back(session.parameters(d));
    run.allocated.push_back(session.allocated_bytes(d));
  }
  run.plan = plan;
  return run;
}

}  // namespace tandem::small_models
