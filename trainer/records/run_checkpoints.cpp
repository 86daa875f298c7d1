#include "trainer/records/run_checkpoints.h"

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "base/size.h"
#include "base/space.h"
#include "planner/plan/process_memory.h"
#include "trainer/checkpoint_parts.h"
#include "trainer/share.h"

namespace tandem {

RunCheckpoints::RunCheckpoints(const RunFolder& folder, CompiledModel& state, const Dataset& data, const BatchOrder& order,
                               const FitOptions& options)
    : folder_(folder), s_(state), data_(data), order_(order), o_(options) {
  if (o_.run_dir.empty()) return;  // on all ranks alike, of which one has the folder
  template_ = s_.source.file().fingerprint();
  fingerprint_ = fingerprint(data);
}

void RunCheckpoints::share_folder() {
  World* const world = s_.options.world;
  if (!world || !s_.session->lacks_parameters()) return;
  std::string why;
  std::filesystem::path folder = tandem::shared_folder(*world, s_.first() ? folder_.path() : o_.run_dir, why);
  if (!folder.empty()) parts_.emplace(*s_.session, *world, std::move(folder));
  if (s_.first() && !why.empty()) warn(why);
}

void RunCheckpoints::on_ranks(const std::function<void()>& work) {
  if (parts_) return work();
  s_.session->together(work);
  if (!s_.first()) work();
}

void RunCheckpoints::warn(const std::string& text) const {
  if (o_.callbacks.on_warning) o_.callbacks.on_warning(text);
}

Json RunCheckpoints::state_of(const Position& at) const {
  Json::Object state = json_of(at);
  state.emplace(state.begin(), "run", json_of(facts()));
  return state;
}

Checkpoint RunCheckpoints::snapshot(const Position& at) const {
  return {.state = state_of(at), .weights = s_.session->parameters(), .optimizer = s_.session->optimizer_state()};
}

// A copy is small, and takes no more than half of what is free; else there is none, and the run waits until the file is written.
bool RunCheckpoints::room_for_snapshot() const {
  const std::int64_t bytes = copied_bytes(s_.session->plan(0));
  return bytes > 0 && bytes < free_host_memory() / 2;
}

void RunCheckpoints::write_from_session(const std::filesystem::path& path, const Position& at) const {
  const auto all = [&](ValueRole role) { return [this, role](const Session::Visit& visit) { s_.session->each_streamed(role, visit); }; };
  write_checkpoint(path, state_of(at), all(ValueRole::plain), all(ValueRole::optimizer_state));
}

void RunCheckpoints::write(const Position& at, const std::filesystem::path& path) {
  const World::Busy busy(s_.options.world);
  finish();
  write_from_session(path, at);
}

// A disk may be full for a while: the run goes on, and tries again at the next interval.
void RunCheckpoints::write_last(std::int64_t step, const std::function<void()>& write) {
  write_failure_ = tried_twice([&] {
    write();
    if (o_.keep_checkpoints > 0) folder_.keep_step(step, o_.keep_checkpoints);
  });
}

void RunCheckpoints::keep(Position& at) {
  finish();
  if (std::exchange(best_lost_, false)) at.best = not_measured;
  if (parts_) {
    write_failure_ = parts_->write(at.step, [&](const Json& parts) {
      if (step_ > 0) folder_.keep_last();
      write_index(folder_.last(), state_of(at), parts);
      if (o_.keep_checkpoints > 0) folder_.keep_step(at.step, o_.keep_checkpoints);
    });
    writing_ = true;
    writing_step_ = at.step;
    return finish();
  }
  if (!folder_.kept()) {
    step_ = at.step;
    ++written_;
    return;
  }
  const World::Busy busy(s_.options.world);
  const bool room = room_for_snapshot(), replaces = step_ > 0;  // a damaged one takes nothing's place
  Checkpoint copy;
  if (room) copy = snapshot(at);
  writing_ = true;
  done_ = false;
  writing_step_ = at.step;
  if (!room) {
    write_last(at.step, [&] {
      if (replaces) folder_.keep_last();
      write_from_session(folder_.last(), at);
    });
    return finish();
  }
  writer_ = std::thread([this, replaces, step = at.step, copy = std::move(copy)] {
    write_last(step, [&] {
      if (replaces) folder_.keep_last();
      write_checkpoint(folder_.last(), copy);
    });
    done_ = true;
  });
}

void RunCheckpoints::poll() {
  if (writing_ && done_) finish();
}

void RunCheckpoints::join() {
  if (writer_.joinable()) writer_.join();
}

void RunCheckpoints::finish() {
  if (!writing_) return;
  const World::Busy busy(s_.options.world);
  join();
  writing_ = false;
  const bool whole = write_failure_.empty();
  if (whole) step_ = writing_step_;
  ++(whole ? written_ : failed_);
  if (whole && !parts_) remove_unnamed_parts(folder_.path());  // of a run that had ranks
  if (!whole) {
    failure_ = write_failure_;
    warn(concat("no checkpoint of step ", writing_step_, ": ", failure_, "; the next interval tries again"));
  }
  if (!std::exchange(best_wanted_, false)) return;
  const std::string lost = whole ? tried_twice([&] { name_best(); }) : failure_;
  if (lost.empty()) return;
  best_lost_ = true;
  warn(concat("the checkpoint of step ", writing_step_, " is not kept as the best: ", lost));
}

void RunCheckpoints::name_best() const {
  if (!folder_.link_last(folder_.best())) write_atomically(folder_.best(), read_file(folder_.last()));
}

// The last checkpoint has the same weights: a second name for it will do, once it is written.
bool RunCheckpoints::keep_best(const Position& at) {
  std::string failure;
  if (parts_) {
    failure = step_ == at.step ? parts_->by_first([&] { name_best(); }) : parts_->write(at.step, [&](const Json& parts) {
      write_index(folder_.best(), state_of(at), parts);
    });
  } else {
    if (!folder_.kept()) return true;
    if (writing_ && writing_step_ == at.step) return best_wanted_ = true;
    finish();
    if (step_ == at.step && folder_.link_last(folder_.best())) return true;
    failure = tried_twice([&] { write(at, folder_.best()); });
  }
  if (!failure.empty()) warn(concat("no checkpoint of step ", at.step, ": ", failure, "; it would have been the best"));
  return failure.empty();
}

namespace {

// Where a step was several batches of a plan, which kept the sum of their gradients, it is one batch of them all now.
void take_steps_of_batches(Checkpoint& checkpoint) {
  const Json* const facts = checkpoint.state.find("run");
  const Json* const several = facts ? facts->find("accumulate") : nullptr;
  const std::int64_t batches = several ? several->integer() : 1;
  if (batches < 2) return;
  Json::Object state = checkpoint.state.object(), run = facts->object();
  for (auto& [key, value] : run)
    if (key == "batch_size") value = (Size(value.integer()) * batches).value();
  for (auto& [key, value] : state) {
    if (key == "batch") value = value.integer() / batches + (value.integer() % batches > 0);
    if (key == "run") value = run;
  }
  checkpoint.state = std::move(state);
  std::erase_if(checkpoint.optimizer, [](const NamedTensor& t) { return t.name.starts_with("gradient_sum/"); });
}

}  // namespace

Position RunCheckpoints::resume() {
  if (s_.first() && !folder_.kept()) fail(ExitCode::usage, "resuming needs the run's folder");
  const std::string path = folder_.last().string();
  std::string note;
  World* const world = s_.options.world;
  Checkpoint checkpoint;
  if (parts_) {
    checkpoint = folder_.read_last(note, [&](const std::filesystem::path& file) { return parts_->read(file.filename()); });
  } else {
    if (s_.first()) checkpoint = folder_.read_last(note);
    if (world) checkpoint.state = Json::parse(world->broadcast(checkpoint.state.dump()));
    for (auto* list : {&checkpoint.weights, &checkpoint.optimizer}) *list = share_names(world, std::move(*list));
  }
  if (!note.empty()) warn(note);
  Position at;
  RunDifferences differs;
  try {
    take_steps_of_batches(checkpoint);
    const Json& was = checkpoint.state.at("run");
    differs = compare(was, facts(), data_.name());
    if (differs.refused.empty()) {
      at = position_of(checkpoint.state, order_.batches());
      if (const std::string odd = contradiction(at, was, o_, order_); !odd.empty()) fail("contradicts the run's options: ", odd);
    }
  } catch (const Error& e) {
    fail(ExitCode::data, path, ": ", e.what());
  }
  if (!differs.refused.empty()) fail(ExitCode::usage, path, differs.refused);
  if (!differs.warned.empty()) warn(concat(path, differs.warned, "; it goes on by the new"));
  step_ = note.empty() ? at.step : 0;
  const std::vector<PlanParameter>& own = s_.session->plan(0).parameters;
  for (const auto& [role, list] : {std::pair{ValueRole::plain, &checkpoint.weights}, {ValueRole::optimizer_state, &checkpoint.optimizer}})
    for (const PlanParameter& p : own)
      if (p.role == role) require(*list, p.name, path);
  if (!s_.options.teacher.empty()) {  // checkpoints of earlier versions hold a teacher's, too, whose file is known to be the same
    const auto of_teacher = [&](const NamedTensor& t) {
      return t.name.starts_with(teacher_prefix) &&
             std::none_of(own.begin(), own.end(), [&](const PlanParameter& o) { return o.role == ValueRole::plain && o.name == t.name; });
    };
    std::erase_if(checkpoint.weights, of_teacher);
  }
  try {
    for (const auto& [role, list] : {std::pair{ValueRole::plain, &checkpoint.weights}, {ValueRole::optimizer_state, &checkpoint.optimizer}})
      set_shared(*s_.session, parts_ ? nullptr : world, std::move(*list), role);
  } catch (const Error& e) {
    if (e.code() == ExitCode::communication) throw;
    fail(ExitCode::usage, path, " is a checkpoint of another model: ", e.what());
  }
  return at;
}

Position RunCheckpoints::go_back() {
  finish();
  const Checkpoint checkpoint = read_checkpoint(folder_.last());
  s_.session->set_parameters(checkpoint.weights);
  s_.session->set_parameters(checkpoint.optimizer, ValueRole::optimizer_state);
  return position_of(checkpoint.state, order_.batches());
}

}  // namespace tandem
