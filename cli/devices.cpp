#include <fmt/format.h>

#include "cli/command.h"

namespace tandem {
namespace {

int run(const Invocation& call) {
  const BackendSet backends = BackendSet::load();
  Json::Array list;
  std::string text;
  const auto add = [&](const std::string& name, const Backend& backend, int index, std::string_view range) {
    const DeviceModel m = backend.model(index, 1);
    list.push_back(Json::Object{{"device", name},
                                {"usable", true},
                                {"name", m.name},
                                {"threads", m.threads},
                                {"memory", m.memory},
                                {"flops", m.flops},
                                {"bandwidth", m.bandwidth},
                                {"backend", backend.version()}});
    text += fmt::format("{:<8} {}, {:.1f} GB, {:.0f} GFLOP/s, {:.0f} GB/s{}\n         {}\n", name, m.name,
                        static_cast<double>(m.memory) / 1e9, m.flops / 1e9, m.bandwidth / 1e9, range, backend.version());
  };
  const auto add_missing = [&](const std::string& name, const std::string& reason) {
    list.push_back(Json::Object{{"device", name}, {"usable", false}, {"reason", reason}});
    text += fmt::format("{:<8} not usable: {}\n", name, reason);
  };
  for (const Backend* backend : backends.all()) {
    if (const std::string reason = backend->unusable(); !reason.empty())
      add_missing(backend->name(), reason);
    else if (backend->name() == "cpu")
      add("cpu", *backend, 0, concat("; cpu:0 to cpu:", backend->device_count() - 1, " share its cores"));
    else
      for (int i = 0; i < backend->device_count(); ++i) add(to_string(DeviceId{backend->name(), i}), *backend, i, "");
  }
  for (const MissingBackend& missing : backends.missing()) add_missing(missing.name, missing.reason);
  if (call.json())
    call.print(Json(std::move(list)));
  else
    call.write(text);
  return 0;
}

}  // namespace

Command devices_command() {
  return {
      .name = "devices",
      .help = "list the devices of this machine, and why some cannot be used",
      .usage = "[options]",
      .examples = "  tandem devices\n  tandem devices --json\n",
      .options = {},
      .run = run,
  };
}

}  // namespace tandem
