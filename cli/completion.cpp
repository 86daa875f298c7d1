// Shell completion, and the commands that print it and the man pages.
#include <fmt/format.h>

#include <algorithm>

#include "cli/help.h"

namespace tandem {
namespace {

constexpr Positional shell_name{"shell"}, command_name{"command"};

std::string name_of(const FlagRow& row) { return concat(row.is_on_by_default() ? "no-" : "", row.name); }

// Of all commands, and "help".
std::string all_names() {
  std::string names;
  for (const Command& c : commands()) names += concat(c.name, ' ');
  return names + "help";
}

std::string escaped(std::string_view text, std::string_view special, std::string_view by) {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) out += by;
    out += c;
  }
  return out;
}

std::string bash() {
  std::string text = concat(
      "# tandem's completion for bash: source <(tandem completion bash)\n"
      "_tandem() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} options\n"
      "  if [ \"$COMP_CWORD\" = 1 ]; then COMPREPLY=($(compgen -W '", all_names(), "' -- \"$word\")); return; fi\n"
      "  case ${COMP_WORDS[1]} in\n");
  for (const Command& c : commands()) {
    std::string options;
    for (const FlagRow* row : rows_of(c)) options += concat(options.empty() ? "" : " ", "--", name_of(*row));
    text += concat("    ", c.name, ") options='", options, "' ;;\n");
  }
  return text + concat("    help) COMPREPLY=($(compgen -W '", all_names(), "' -- \"$word\")); return ;;\n"
                "  esac\n"
                "  case $word in\n"
                "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
                "    *) COMPREPLY=() ;;  # files, by -o default\n"
                "  esac\n"
                "}\n"
                "complete -o default -F _tandem tandem\n");
}

std::string zsh() {
  std::string text =
      "#compdef tandem\n# tandem's completion for zsh: put it as _tandem into a folder of $fpath\n_tandem() {\n  local -a commands\n  "
      "commands=(\n";
  for (const Command& c : commands()) text += concat("    '", c.name, ':', escaped(c.help, "'", "'\\'"), "'\n");
  text += "    'help:show the options of a command'\n  )\n"
          "  if (( CURRENT == 2 )); then _describe command commands; return; fi\n  local command=$words[2]\n  shift words; (( CURRENT-- ))\n  case $command in\n";
  for (const Command& c : commands()) {
    text += concat("    ", c.name, ") _arguments");
    for (const FlagRow* row : rows_of(c)) {
      const std::string help = escaped(escaped(row->help(), "[]:\\", "\\"), "'", "'\\'");
      const std::string value = row->is_switch() ? std::string() : concat(':', escaped(row->value, ":'[]", "\\"), ":_files");
      text += concat(" \\\n      '--", name_of(*row), row->is_switch() ? "" : "=", '[', help, ']', value, "'");
    }
    text += " \\\n      '*:file:_files' ;;\n";
  }
  return text + "    help) _describe command commands ;;\n  esac\n}\n_tandem \"$@\"\n";
}

std::string fish() {
  std::string text =
      "# tandem's completion for fish: tandem completion fish | source\ncomplete -c tandem -n __fish_use_subcommand -f -a 'help version'\n";
  for (const Command& c : commands()) {
    text += fmt::format("complete -c tandem -n __fish_use_subcommand -f -a {} -d '{}'\n", c.name, escaped(c.help, "'\\", "\\"));
    for (const FlagRow* row : rows_of(c))
      text += fmt::format("complete -c tandem -n '__fish_seen_subcommand_from {}' -l {}{} -d '{}'\n", c.name, name_of(*row),
                          row->is_switch() ? "" : " -r", escaped(row->help(), "'\\", "\\"));
  }
  return text;
}

struct Shell {
  std::string_view name;
  std::string (*text)();
};
constexpr Shell shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};

int complete(const Invocation& call) {
  call.write(completion_of(call.arguments[shell_name]));
  return 0;
}

int man(const Invocation& call) {
  const std::string wanted = call.arguments.has(command_name) ? call.arguments[command_name] : "";
  const std::vector<Command> all = commands();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Command& c) { return c.name == wanted; });
  if (found == all.end() && !wanted.empty()) fail(ExitCode::usage, "unknown command '", wanted, "'");
  call.write(man_page(wanted.empty() ? nullptr : &*found));
  return 0;
}

}  // namespace

std::string completion_of(const std::string& shell) {
  for (const Shell& s : shells)
    if (s.name == shell) return s.text();
  fail(ExitCode::usage, "completion for '", shell, "' is not known: expected bash, zsh or fish");
}

Command completion_command() {
  return {
      .name = "completion",
      .help = "print the completion of commands and options for a shell",
      .positionals = {shell_name},
      .usage = "bash|zsh|fish",
      .examples =
          "  source <(tandem completion bash)                   # in ~/.bashrc\n"
          "  tandem completion zsh > ~/.zfunc/_tandem\n"
          "  tandem completion fish > ~/.config/fish/completions/tandem.fish\n",
      .options = {},
      .run = complete,
  };
}

Command man_command() {
  return {
      .name = "man",
      .help = "print a man page",
      .positionals = {command_name},
      .usage = "[COMMAND]",
      .examples =
          "  tandem man train | man -l -\n"
          "  tandem man > /usr/local/share/man/man1/tandem.1\n",
      .options = {},
      .run = man,
  };
}

}  // namespace tandem
