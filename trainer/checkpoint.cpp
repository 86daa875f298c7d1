#include "trainer/checkpoint.h"

#include <algorithm>

#include "trainer/data/npy.h"

namespace tandem {
namespace {

constexpr std::string_view version = "tandem checkpoint 2";
constexpr std::string_view ending = ".npy";
constexpr const char* state_member = "state.json";

}  // namespace

CheckpointWriter::CheckpointWriter(const std::filesystem::path& path, const Json& state)
    : file_(path), zip_([this](std::string_view bytes) { file_.append(bytes); }) {
  Json::Object members{{"version", version}};
  for (const auto& member : state.object())
    if (member.first != "version") members.push_back(member);  // a state that was read has it
  zip_.add(state_member, Json(std::move(members)).dump(1));
}

void CheckpointWriter::add(std::string_view folder, const NamedTensor& tensor) {
  zip_.add(concat(folder, tensor.name, ending), npy_of(tensor.tensor));
}

void CheckpointWriter::commit() {
  zip_.finish();
  file_.commit();
}

Checkpoint read_checkpoint(const std::filesystem::path& path) {
  ZipReader zip(path);
  if (!zip.whole()) fail(ExitCode::data, path.string(), ": is damaged (its checksum differs), or not a checkpoint of this version ('", version, "')");
  if (!zip.has(state_member)) fail(ExitCode::data, path.string(), ": not a checkpoint (no ", state_member, ")");
  Checkpoint checkpoint;
  const std::vector<std::byte> state = zip.read(state_member);
  checkpoint.state = Json::parse({reinterpret_cast<const char*>(state.data()), state.size()});
  const Json* found = checkpoint.state.find("version");
  if (!found || found->text() != version) fail(ExitCode::data, path.string(), ": not a checkpoint of this version ('", version, "')");
  for (const std::string& member : zip.names())
    for (const auto& [folder, list] :
         {std::pair<std::string_view, std::vector<NamedTensor>*>{"weights/", &checkpoint.weights}, {"optimizer/", &checkpoint.optimizer}})
      if (member.starts_with(folder) && member.ends_with(ending))
        list->push_back({member.substr(folder.size(), member.size() - folder.size() - ending.size()),
                         parse_npy(zip.read(member), concat(path.string(), ": ", member))});
  return checkpoint;
}

void require(const std::vector<NamedTensor>& tensors, const std::string& name, const std::filesystem::path& path) {
  if (std::none_of(tensors.begin(), tensors.end(), [&](const NamedTensor& t) { return t.name == name; }))
    fail(ExitCode::data, path.string(), ": holds no '", name, "'");
}

}  // namespace tandem
