#include "trainer/run_checkpoints.h"

#include "trainer/share.h"

namespace tandem {

RunCheckpoints::RunCheckpoints(const RunFolder& folder, Model::State& state, const Dataset& data, const BatchOrder& order, const FitOptions& options)
    : folder_(folder), s_(state), data_(data), order_(order), o_(options) {
  if (o_.run_dir.empty()) return;  // on all ranks alike, of which one has the folder
  template_ = s_.file.fingerprint();
  fingerprint_ = fingerprint(data);
}

void RunCheckpoints::warn(const std::string& text) const {
  if (o_.callbacks.on_warning) o_.callbacks.on_warning(text);
}

// What must be the same for a resumed run to go on as if it had never stopped.
Json::Object RunCheckpoints::identity() const {
  return {{"template", template_},      {"batch_size", order_.batch},   {"samples", order_.samples}, {"seed", static_cast<std::int64_t>(order_.seed)},
          {"shuffle", order_.shuffle},  {"loss", s_.options.plan.loss}, {"optimizer", s_.options.plan.optimizer.name}, {"accumulate", o_.accumulate},
          {"precision", name_of(s_.options.plan.precision)}, {"data", fingerprint_}};
}

void RunCheckpoints::write(const Position& at, const std::filesystem::path& path) {
  const World::Busy busy(s_.options.world);
  Json::Object state = json_of(at);
  state.emplace(state.begin(), "run", identity());
  CheckpointWriter checkpoint(path, state);
  s_.session->each_parameter([&](const NamedTensor& weight) { checkpoint.add_weight(weight); });
  s_.session->each_optimizer_state([&](const NamedTensor& tensor) { checkpoint.add_optimizer(tensor); });
  if (path == folder_.last() && step_ > 0) folder_.keep_last();  // a damaged one takes nothing's place
  checkpoint.commit();
}

// An error may pass at once: it is tried twice. A disk may be full for a while: the run goes on, and tries again at the next
// interval.
bool RunCheckpoints::try_to_write(const Position& at, const std::filesystem::path& path, std::string_view next) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      write(at, path);
      return true;
    } catch (const Error& e) {
      if (e.code() != ExitCode::io) throw;
      failure_ = e.what();
    }
  }
  warn(concat("no checkpoint of step ", at.step, ": ", failure_, next));
  return false;
}

void RunCheckpoints::keep(const Position& at) {
  const bool whole = !folder_.kept() || try_to_write(at, folder_.last(), "; the next interval tries again");
  if (whole) step_ = at.step;
  ++(whole ? written_ : failed_);
}

// The last checkpoint has the same weights: a second name for it will do, where it was written.
bool RunCheckpoints::keep_best(const Position& at) {
  if (!folder_.kept() || (step_ == at.step && folder_.link_last(folder_.best()))) return true;
  return try_to_write(at, folder_.best(), "; it would have been the best");
}

Position RunCheckpoints::resume() {
  if (s_.first() && !folder_.kept()) fail(ExitCode::usage, "resuming needs the run's folder");
  const std::string path = folder_.last().string();
  std::string note;
  const Checkpoint checkpoint = share(s_.options.world, s_.first() ? folder_.read_last(note) : Checkpoint{});
  if (!note.empty()) warn(note);
  Position at;
  std::string differs;
  try {
    const Json& was = checkpoint.state.at("run");
    for (const auto& [key, value] : identity()) {
      const Json absent = std::int64_t{1};  // in checkpoints of earlier versions
      const Json& had = key == "accumulate" && !was.find(key) ? absent : was.at(key);
      if (differs.empty() && had.dump() != value.dump())
        differs = key == "template" ? std::string(" is a checkpoint of another model")
                  : key == "data"   ? concat(" is a checkpoint of a run on other data than ", data_.name())
                                    : concat(": the run was started with ", key, " ", had.dump(), ", now it is ", value.dump());
    }
    if (differs.empty()) at = position_of(checkpoint.state, order_.batches());
  } catch (const Error& e) {
    fail(ExitCode::data, path, ": ", e.what());
  }
  if (!differs.empty()) fail(ExitCode::usage, path, differs);
  step_ = note.empty() ? at.step : 0;
  s_.session->each_parameter([&](const NamedTensor& t) { require(checkpoint.weights, t.name, path); });
  s_.session->each_optimizer_state([&](const NamedTensor& t) { require(checkpoint.optimizer, t.name, path); });
  try {
    s_.session->set_parameters(checkpoint.weights);
    s_.session->set_parameters(checkpoint.optimizer);
  } catch (const Error& e) {
    fail(ExitCode::usage, path, " is a checkpoint of another model: ", e.what());
  }
  return at;
}

Position RunCheckpoints::go_back() {
  const Checkpoint checkpoint = read_checkpoint(folder_.last());
  s_.session->set_parameters(checkpoint.weights);
  s_.session->set_parameters(checkpoint.optimizer);
  return position_of(checkpoint.state, order_.batches());
}

}  // namespace tandem
