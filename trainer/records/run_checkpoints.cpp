#include "trainer/records/run_checkpoints.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/file.h"
#include "base/size.h"
#include "base/space.h"
#include "base/units.h"
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

// A copy is small, and takes no more than half of what is free; else there is none.
bool RunCheckpoints::room_for_snapshot() const {
  const std::int64_t bytes = copied_bytes(s_.session->plan(0));
  return bytes > 0 && bytes < free_host_memory() / 2;
}

AtomicFile RunCheckpoints::from_session(const std::filesystem::path& path, const Position& at) const {
  const auto all = [&](ValueRole role) { return [this, role](const Session::Visit& visit) { s_.session->each_streamed(role, visit); }; };
  return filled_checkpoint(path, state_of(at), all(ValueRole::plain), all(ValueRole::optimizer_state));
}

void RunCheckpoints::write(const Position& at, const std::filesystem::path& path) {
  const World::Busy busy(s_.options.world);
  finish();
  from_session(path, at).commit();
}

// `write` replaces the last checkpoint; a damaged one takes nothing's place.
void RunCheckpoints::name_last(std::int64_t step, bool replaces, const std::function<void()>& write) const {
  if (replaces) folder_.keep_last();
  write();
  if (o_.keep_checkpoints > 0) folder_.keep_step(step, o_.keep_checkpoints);
}

// There are no two under way: a disk that is slower than checkpoints come slows the run.
void RunCheckpoints::wait_for_the_one_before(std::int64_t step) {
  constexpr double noticed = 0.5;  // seconds
  const std::int64_t before = writing_step_;
  const auto begin = std::chrono::steady_clock::now();
  const bool waits = writing_;
  finish();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!waits || !s_.first() || seconds < noticed || std::exchange(slow_disk_told_, true)) return;
  warn(concat("the disk is slower than checkpoints come: step ", step, " waited ", text_of_seconds(seconds), " for the checkpoint of step ",
              before, ", and later ones may, too"));
}

// A disk may be full for a while: the run goes on, and tries again at the next interval. What the system has, and cannot bring to the disk,
// is not tried twice: a second try may say that it did.
void RunCheckpoints::keep(Position& at) {
  wait_for_the_one_before(at.step);
  if (std::exchange(best_lost_, false)) at.best = not_measured;
  if (!parts_ && !folder_.kept()) {
    step_ = at.step;
    ++written_;
    return;
  }
  const World::Busy busy(parts_ ? nullptr : s_.options.world);
  const auto name = [this, step = at.step, replaces = step_ > 0](const std::function<void()>& write) { name_last(step, replaces, write); };
  if (parts_) {
    parts_->begin(at.step);
    if (s_.first())
      commit_ = [this, name, state = state_of(at)](const Json& parts) { name([&] { write_index(folder_.last(), state, parts); }); };
  } else if (room_for_snapshot()) {
    writer_ = std::async(std::launch::async, [this, name, copy = snapshot(at)] {
      return tried_twice([&] { name([&] { write_checkpoint(folder_.last(), copy); }); });
    });
  } else {
    std::optional<AtomicFile> file;
    const std::string failure = tried_twice([&] { file.emplace(from_session(folder_.last(), at)); });
    writer_ = !failure.empty() ? std::async(std::launch::deferred, [failure] { return failure; })
                               : std::async(std::launch::async, [name, filled = std::move(*file)]() mutable {
                                   return failure_of([&] { name([&] { AtomicFile(std::move(filled)).commit(); }); });
                                 });
  }
  writing_ = true;
  writing_step_ = at.step;
}

void RunCheckpoints::poll() {
  if (writing_ && (parts_ ? all_parts_written_ : is_done(writer_))) finish();
}

void RunCheckpoints::finish_alone() {
  if (!parts_) return finish();
  parts_->abandon();
  writing_ = best_wanted_ = false;
}

void RunCheckpoints::finish() {
  if (!writing_) return;
  std::string failure;
  if (parts_) {
    failure = parts_->finish(commit_);
  } else {
    const World::Busy busy(s_.options.world);
    failure = writer_.get();
  }
  writing_ = all_parts_written_ = false;
  const bool whole = failure.empty();
  if (whole) step_ = writing_step_;
  ++(whole ? written_ : failed_);
  if (whole && !parts_) remove_unnamed_parts(folder_.path());  // of a run that had ranks
  if (!whole) {
    failure_ = failure;
    warn(concat("no checkpoint of step ", writing_step_, ": ", failure_, "; the next interval tries again"));
  }
  if (!std::exchange(best_wanted_, false)) return;
  const std::string lost = whole ? made_best() : failure_;
  if (lost.empty()) return;
  best_lost_ = true;
  warn(concat("the checkpoint of step ", writing_step_, " is not kept as the best: ", lost));
}

// The last checkpoint, what went wrong or nothing.
std::string RunCheckpoints::made_best() const {
  const auto name = [&] {
    if (!folder_.link_last(folder_.best())) write_atomically(folder_.best(), read_file(folder_.last()));
  };
  return parts_ ? parts_->by_first(name) : tried_twice(name);
}

// The last checkpoint has the same weights: a second name for it will do, once it is written.
bool RunCheckpoints::keep_best(const Position& at) {
  if (!parts_ && !folder_.kept()) return true;
  if (writing_ && writing_step_ == at.step) return best_wanted_ = true;
  finish();
  std::string failure;
  if (step_ == at.step)
    failure = made_best();
  else if (parts_)
    failure = parts_->write(at.step, [&](const Json& parts) { write_index(folder_.best(), state_of(at), parts); });
  else
    failure = tried_twice([&] { write(at, folder_.best()); });
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
    if (e.code() != ExitCode::model) throw;
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
