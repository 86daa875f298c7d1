#include "trainer/position.h"

#include <utility>

namespace tandem {

namespace {

Json json_of(const Waiting& w) {
  return Json::Object{{"best", w.best}, {"any", w.any}, {"bad", w.bad}, {"cooldown", w.cooldown}, {"factor", w.factor}};
}
Waiting waiting_of(const Json* state) {  // absent in checkpoints of earlier versions
  if (!state) return {};
  return {.best = state->at("best").number(), .any = state->at("any").boolean(), .bad = state->at("bad").integer(), .cooldown = state->at("cooldown").integer(),
          .factor = state->at("factor").number()};
}

}  // namespace

Json::Object json_of(const Position& at) {
  Json::Array history;
  for (const EpochReport& e : at.history) history.push_back(json_of(e));
  Json::Object metrics;
  for (const auto& [name, sum] : at.metrics) metrics.emplace_back(name, sum);
  return {{"epoch", at.epoch},     {"batch", at.batch},     {"step", at.step}, {"loss", at.loss},          {"correct", at.correct},
          {"samples", at.samples}, {"seconds", at.seconds}, {"best", at.best}, {"plateau", json_of(at.plateau)}, {"early", json_of(at.early)}, {"judged", at.judged}, {"averaged", at.averaged},
          {"trace", at.trace.json()}, {"rates", at.rates.json()}, {"history", std::move(history)}, {"metrics", std::move(metrics)}};
}

Position position_of(const Json& state, std::int64_t batches) {
  const auto real = [&](std::string_view key) { return state.at(key).is_null() ? not_measured : state.at(key).number(); };
  const auto whole = [&](std::string_view key, std::int64_t most) {
    const std::int64_t n = state.at(key).integer();
    if (n < 0 || n > most) fail(key, " is ", n, ", expected 0 to ", most);
    return n;
  };
  constexpr std::int64_t most = std::int64_t{1} << 53;  // counts beyond are none
  Position at{.epoch = whole("epoch", most),
              .batch = whole("batch", batches),
              .step = whole("step", most),
              .loss = real("loss"),
              .correct = real("correct"),
              .samples = whole("samples", most),
              .seconds = real("seconds"),
              .best = real("best"),
              .plateau = waiting_of(state.find("plateau")),
              .early = waiting_of(state.find("early")),
              .judged = state.find("judged") ? whole("judged", most) : 0,
              .averaged = state.find("averaged") ? whole("averaged", most) : 0,
              .trace = LossTrace::from(state.at("trace")),
              .rates = state.find("rates") ? LossTrace::from(state.at("rates")) : LossTrace(),
              .history = {}};
  for (const Json& e : state.at("history").array()) at.history.push_back(epoch_report(e));
  if (const Json* metrics = state.find("metrics"))
    for (const auto& [name, sum] : metrics->object()) at.metrics[name] = sum.is_null() ? not_measured : sum.number();
  if (at.batch == batches) {
    ++at.epoch;
    at.batch = 0;
  }
  return at;
}

}  // namespace tandem
