#include "cli/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <new>

#include "base/option.h"
#include "base/printable.h"
#include "base/spec.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/ranks.h"
#include "cli/table.h"

namespace tandem {
namespace {

ConfigRules config_rules(const Command& command) {
  ConfigRules rules{.command = command.name, .uses_trained = command.uses_trained};
  for (const Command& other : commands()) {
    for (const Positional& positional : other.positionals) rules.elsewhere.emplace_back(positional.name);
    for (const FlagRow* row : rows_of(other)) rules.elsewhere.emplace_back(row->name);
  }
  return rules;
}

int dispatch(std::span<const std::string> arguments, Streams& streams, const Environment& environment) {
  std::string name = arguments.empty() ? "help" : arguments[0];
  if (name == "--version") name = "version";
  const bool asks_help = name == "help" || name == "--help" || name == "-h";
  if (asks_help && arguments.size() < 2) {
    (arguments.empty() ? streams.err : streams.out) << overview(std::min<std::size_t>(100, output_columns(streams, environment)));
    return arguments.empty() ? static_cast<int>(ExitCode::usage) : 0;
  }
  const std::string wanted = asks_help ? arguments[1] : name;
  std::vector<std::string> names{"help"};
  for (const Command& command : commands()) {
    names.emplace_back(command.name);
    if (command.name != wanted) continue;
    const auto given = arguments.subspan(1);
    const auto help = asks_help ? given.begin()
                                : std::find_if(given.begin(), given.end(), [](const std::string& a) { return a == "--help" || a == "-h"; });
    if (help != given.end()) {
      const std::string topic = help + 1 != given.end() && !(help + 1)->starts_with('-') ? *(help + 1) : "";
      streams.out << help_of(command, std::min<std::size_t>(100, output_columns(streams, environment)), topic);
      return 0;
    }
    const Arguments parsed = Arguments::parse(given, command.positionals, rows_of(command), environment, config_rules(command));
    const Invocation call{parsed, streams, environment};
    for (const std::string& note : parsed.notes()) call.say("note: " + note);
    return command.run(call);
  }
  fail(ExitCode::usage, "unknown command '", wanted, "'", suggestion(wanted, names));
}

// The further lines of our messages are indented: what begins a line otherwise came with a name.
std::string shown(std::string_view message) {
  std::string out;
  for (bool more = true; more;) {
    const std::size_t end = message.find("\n  ");
    out += printable(message.substr(0, end));
    more = end != std::string_view::npos;
    if (more) {
      out += '\n';
      message.remove_prefix(end + 1);
    }
  }
  return out;
}

}  // namespace

std::vector<Command> commands() {
  return {train_command(),  plan_command(),   evaluate_command(), predict_command(),   summary_command(), cut_command(),
          pack_command(),   unpack_command(), runs_command(),     operators_command(), devices_command(), completion_command(),
          man_command(),    version_command()};
}

std::vector<const FlagGroup*> groups_of(const Command& command) {
  std::vector<const FlagGroup*> groups = command.options;
  groups.push_back(&common_flags);
  return groups;
}

std::vector<const FlagRow*> rows_of(const Command& command) {
  std::vector<const FlagRow*> rows;
  for (const FlagGroup* group : groups_of(command)) rows.insert(rows.end(), group->rows().begin(), group->rows().end());
  return rows;
}

void Invocation::say(std::string_view message) const {
  if (!quiet()) note(message);
}
void Invocation::note(std::string_view message) const {
  streams.err << shown(message) << '\n' << std::flush;
}
void Invocation::warn(std::string_view message) const { note(concat("warning: ", message)); }
void Invocation::print(const Json& object) const {
  streams.out << object.dump() << '\n' << std::flush;
}
void Invocation::write(std::string_view text) const {
  write_bytes(printable(text, Lines::kept));
}
void Invocation::write_bytes(std::string_view bytes) const {
  streams.out << bytes << std::flush;
}

int run(std::span<const std::string> arguments, Streams& streams, const Environment& environment) {
  const OptionWords words(program_word);
  // With --json whoever reads the output finds the error there too, as its last line.
  const char* const asked = environment(common_flags.json.variable());
  const bool json = std::find(arguments.begin(), arguments.end(), common_flags.json.flag()) != arguments.end() ||
                    (asked && std::string_view(asked) == "on");
  const auto report = [&](std::string_view message, int code) {
    if (json)
      streams.out << Json(Json::Object{{"event", "error"}, {"code", code}, {"error", std::string(message)}}).dump() << '\n' << std::flush;
    streams.err << (streams.colour ? "\033[31merror:\033[0m " : "error: ") << shown(message) << '\n' << std::flush;
    return code;
  };
  try {
    const int code = dispatch(arguments, streams, environment);
    streams.out.flush();
    if (code == 0 && !streams.out) return report("the output could not be written", static_cast<int>(ExitCode::io));
    return code;
  } catch (const StoppedBySignal& e) {
    return 128 + e.signal;  // it was answered when it came
  } catch (const ToldByFirst& e) {
    return static_cast<int>(e.code);
  } catch (const Error& e) {
    return report(e.what(), static_cast<int>(e.code()));
  } catch (const std::bad_alloc&) {
    return report("out of memory", static_cast<int>(ExitCode::device));
  } catch (const std::filesystem::filesystem_error& e) {
    return report(concat(e.path1().string(), ": ", e.code().message()), static_cast<int>(ExitCode::io));
  } catch (const std::exception& e) {
    return report(concat("internal: ", e.what()), 1);
  }
}

}  // namespace tandem
