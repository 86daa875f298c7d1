// The versions of tandem and of every library that it is linked with or loads.
#include <fmt/format.h>

#include <algorithm>

#include "cli/command.h"
#include "data/data_file.h"
#include "data/image.h"
#include "data/library_versions.h"
#include "importer/library_versions.h"
#include "ranks/library_versions.h"

namespace tandem {
namespace {

// "oneDNN 2.6.3, AVX-512, ...": a backend names its library first.
LibraryVersion library_of(const Backend& backend) {
  const std::string text = backend.version();
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string unusable = backend.unusable();
  return {text.substr(0, end),
          concat(text.substr(std::min(end + 1, text.size())), unusable.empty() ? "" : "; not usable here: ", unusable)};
}

std::vector<LibraryVersion> libraries() {
  std::vector<LibraryVersion> all;
  const BackendSet backends = BackendSet::load();
  for (const Backend* const backend : backends.all()) all.push_back(library_of(*backend));
  for (const MissingBackend& missing : backends.missing())
    all.push_back({concat(missing.name, " module"), concat("not usable: ", missing.reason)});
  for (const auto& of : {importer_libraries(), base_libraries(), data_libraries(), rank_libraries()})
    all.insert(all.end(), of.begin(), of.end());
  all.push_back({"compiler", __VERSION__});
  return all;
}

int run(const Invocation& call) {
  const std::vector<LibraryVersion> all = libraries();
  if (call.json()) {
    Json::Object versions;
    for (const LibraryVersion& l : all) versions.emplace_back(l.name, l.version);
    call.print(Json::Object{
        {"version", TANDEM_VERSION}, {"libraries", std::move(versions)}, {"images", image_formats()}, {"compressions", compressions()}});
    return 0;
  }
  std::size_t width = 0;
  for (const LibraryVersion& l : all) width = std::max(width, l.name.size());
  std::string text = concat("tandem ", TANDEM_VERSION, '\n');
  for (const LibraryVersion& l : all) text += fmt::format("  {:<{}}  {}\n", l.name, width, l.version);
  call.write(concat(text, "reads images: ", image_formats(), "\nunpacks: ", compressions(), '\n'));
  return 0;
}

}  // namespace

Command version_command() {
  return {
      .name = "version",
      .help = "print the versions of tandem and of the libraries it uses",
      .usage = "[options]",
      .examples = "  tandem --version\n  tandem version --json\n",
      .run = run,
  };
}

}  // namespace tandem
