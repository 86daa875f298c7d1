#include "trainer/records/position.h"

#include <utility>

namespace tandem {

namespace {

Json json_of(const Waiting& w) {
  return Json::Object{{"best", w.best}, {"any", w.any}, {"bad", w.bad}, {"cooldown", w.cooldown}, {"factor", w.factor}};
}
Waiting waiting_of(const Json* state) {  // absent in checkpoints of earlier versions
  if (!state) return {};
  return {.best = state->at("best").number(),
          .any = state->at("any").boolean(),
          .bad = state->at("bad").integer(),
          .cooldown = state->at("cooldown").integer(),
          .factor = state->at("factor").number()};
}

}  // namespace

Json::Object json_of(const Position& at) {
  Json::Array history;
  for (const EpochReport& e : at.history) history.push_back(json_of(e));
  Json::Object metrics, weights;
  for (const auto& [name, sum] : at.metrics) {
    metrics.emplace_back(name, sum.sum);
    weights.emplace_back(name, sum.weight);
  }
  return {{"epoch", at.epoch},
          {"batch", at.batch},
          {"step", at.step},
          {"steps", at.steps},
          {"loss", at.loss.sum},
          {"loss_weight", at.loss.weight},
          {"correct", at.accuracy.sum},
          {"counted", at.accuracy.weight},
          {"samples", at.samples},
          {"seconds", at.seconds},
          {"best", at.best},
          {"plateau", json_of(at.plateau)},
          {"early", json_of(at.early)},
          {"judged", at.measured},
          {"averaged", at.averaged},
          {"trace", at.trace.json()},
          {"rates", at.rates.json()},
          {"history", std::move(history)},
          {"metrics", std::move(metrics)},
          {"metric_weights", std::move(weights)}};
}

Position position_of(const Json& state, std::int64_t batches) {
  const auto real = [&](std::string_view key) { return state.at(key).is_null() ? not_measured : state.at(key).number(); };
  const auto whole = [&](std::string_view key, std::int64_t most) {
    const std::int64_t n = state.at(key).integer();
    if (n < 0 || n > most) fail(key, " is ", n, ", expected 0 to ", most);
    return n;
  };
  constexpr std::int64_t most = std::int64_t{1} << 53;  // counts beyond are none
  // In checkpoints of earlier versions sums are over samples.
  const auto weight = [&](std::string_view key) { return state.find(key) ? real(key) : static_cast<double>(whole("samples", most)); };
  Position at{.epoch = whole("epoch", most),
              .batch = whole("batch", batches),
              .step = whole("step", most),
              .steps = state.find("steps") ? whole("steps", most) : 0,
              .loss = {real("loss"), weight("loss_weight")},
              .accuracy = {real("correct"), weight("counted")},
              .samples = whole("samples", most),
              .seconds = real("seconds"),
              .best = real("best"),
              .plateau = waiting_of(state.find("plateau")),
              .early = waiting_of(state.find("early")),
              .measured = state.find("judged") ? whole("judged", most) : 0,
              .averaged = state.find("averaged") ? whole("averaged", most) : 0,
              .trace = LossTrace::from(state.at("trace")),
              .rates = state.find("rates") ? LossTrace::from(state.at("rates")) : LossTrace(),
              .history = {}};
  for (const Json& e : state.at("history").array()) at.history.push_back(epoch_report(e));
  if (const Json* metrics = state.find("metrics"))
    for (const auto& [name, sum] : metrics->object()) {
      const Json* const weights = state.find("metric_weights");
      at.metrics[name] = {sum.is_null() ? not_measured : sum.number(),
                          weights ? weights->at(name).number() : static_cast<double>(at.samples)};
    }
  if (at.batch == batches) {
    ++at.epoch;
    at.batch = 0;
  }
  return at;
}

}  // namespace tandem
