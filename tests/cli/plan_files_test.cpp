// Plans that are made by one call and run by another: train, evaluate and predict by --plan, what does not fit, and how it is shown.
#include <gtest/gtest.h>

#include "base/file.h"
#include "planner/plan/plan_file.h"
#include "tests/cli/process.h"

namespace tandem {
namespace {

const std::string model = "MODELS/mlp.onnx ", loud = "--data synthetic:digits,train=40,test=16 --init he-normal --no-autotune ",
                  data = loud + "--quiet ";

class PlanFiles : public testing::Test {
 protected:
  Outcome tandem(const std::string& line) { return run_tandem(words(line, folder.text())); }
  std::string bytes(const std::string& name) { return read_file(folder / name); }
  // Makes TMP/a.plan of these options.
  void make(const std::string& options, const std::string& of = model) {
    const Outcome o = tandem("plan " + of + options + " --format plan --output TMP/a.plan");
    ASSERT_EQ(o.code, 0) << o.err;
  }
  // The plan of the file, changed.
  template <class Change>
  void change(Change&& work) {
    Plan plan = read_plan((folder / "a.plan").string());
    work(plan);
    folder.write("a.plan", serialize(plan));
  }
  TemporaryFolder folder;
};

struct Run {
  const char* name;
  std::string options;  // that decide the plan
};
class TrainedBits : public PlanFiles, public testing::WithParamInterface<Run> {};
TEST_P(TrainedBits, AreThoseOfARunThatPlansItself) {
  const std::string run = "train " + model + data + "--lr 0.05 --epochs 2 --validation-split 0.2 ";
  const Outcome alone = tandem(run + GetParam().options + " --output TMP/alone.onnx");
  ASSERT_EQ(alone.code, 0) << alone.err;
  make(GetParam().options);
  const Outcome planned = tandem(run + "--plan TMP/a.plan --output TMP/planned.onnx");
  ASSERT_EQ(planned.code, 0) << planned.err;
  EXPECT_EQ(bytes("alone.onnx"), bytes("planned.onnx"));
}
INSTANTIATE_TEST_SUITE_P(
    Rows, TrainedBits,
    testing::Values(Run{"one_device", "--batch-size 8 --optimizer adam --weight-decay 0.01"},
                    Run{"a_short_last_batch", "--batch-size 12 --momentum 0.9"},
                    Run{"accumulated", "--batch-size 4 --accumulate 2 --clip-norm 1"},
                    Run{"two_devices", "--batch-size 8 --devices cpu:0-1 --slice-weights 3,1"},
                    Run{"pipeline", "--batch-size 8 --devices cpu:0-1 --parallel pipeline=2 --micro-batches 4"},
                    Run{"zero", "--batch-size 8 --devices cpu:0-1 --parallel zero=2 --optimizer adam"},
                    Run{"tensor", "--batch-size 8 --devices cpu:0-1 --parallel tensor=2"},
                    Run{"what_is_trained", "--batch-size 8 --freeze *bias* --group fc3*:lr=2x --ema 0.9 --label-smoothing 0.1"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST_F(PlanFiles, AreEvaluatedAndPredictedBy) {
  const std::string measure = "MODELS/mlp.onnx --data synthetic:digits,train=40,test=16 ", predict = model + "--no-autotune --quiet ";
  ASSERT_EQ(tandem("train " + model + data + "--steps 1 --output TMP/m.onnx").code, 0);
  const std::string trained = "TMP/m.onnx ", digits = "--data synthetic:digits,train=40,test=16 ";
  make("--evaluation --batch-size 8 --metrics top3 " + digits, trained);
  const Outcome alone = tandem("evaluate " + trained + digits + "--batch-size 8 --metrics top3"),
                planned = tandem("evaluate " + trained + digits + "--plan TMP/a.plan");
  EXPECT_EQ(planned.code, 0) << planned.err;
  EXPECT_EQ(planned.out, alone.out);
  EXPECT_NE(planned.out.find("top3"), std::string::npos) << planned.out;
  const Outcome other = tandem("predict " + trained + digits + "--plan TMP/a.plan --output TMP/p.npy");
  EXPECT_EQ(other.code, 2) << other.err;
  EXPECT_NE(other.err.find("what it is for is evaluation in the plan, prediction here"), std::string::npos) << other.err;

  make("--inference --batch-size 8", trained);
  ASSERT_EQ(tandem("predict " + trained + digits + "--plan TMP/a.plan --output TMP/planned.npy").code, 0);
  ASSERT_EQ(tandem("predict " + trained + digits + "--batch-size 8 --output TMP/alone.npy").code, 0);
  EXPECT_EQ(bytes("planned.npy"), bytes("alone.npy"));
}

struct Refusal {
  const char* name;
  std::string line;  // behind the plan's: 8 samples a batch by sgd with momentum 0.9 on two devices
  int code;
  std::string says;
  std::string model = "MODELS/mlp.onnx ";
};
class Refusals : public PlanFiles, public testing::WithParamInterface<Refusal> {};
TEST_P(Refusals, NameBothSides) {
  make("--batch-size 8 --momentum 0.9 --devices cpu:0-1");
  const std::string run = "train " + GetParam().model + data + "--steps 1 --plan TMP/a.plan --output TMP/o.onnx " + GetParam().line;
  const Outcome o = tandem(run);
  EXPECT_EQ(o.code, GetParam().code) << o.err;
  EXPECT_NE(o.err.find(GetParam().says), std::string::npos) << o.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "o.onnx"));
}
INSTANTIATE_TEST_SUITE_P(
    Rows, Refusals,
    testing::Values(Refusal{"batch", "--batch-size 16", 2, "--batch-size '16': "},
                    Refusal{"batch_of_the_plan", "--batch-size 16", 2, "a.plan was planned with '8'"},
                    Refusal{"optimizer", "--optimizer adam", 2, "--optimizer 'adam': "},
                    Refusal{"a_default", "--weight-decay 0.1", 2, "a.plan was planned with nothing"},
                    Refusal{"loss", "--loss mse", 2, "was planned with 'softmax-cross-entropy'"},
                    Refusal{"precision", "--precision bf16", 2, "was planned with 'fp32'"},
                    Refusal{"devices", "--devices cpu", 2, "was planned with 'cpu:0-1'"},
                    Refusal{"a_number_of_devices", "--devices 4", 2, "was planned with 'cpu:0-1'"},
                    Refusal{"processes", "--processes 3", 2, "--processes 3 for 2 devices"},
                    Refusal{"model", "", 3, "the model is 'mlp' of hash ", "MODELS/lenet.onnx "},
                    Refusal{"labels", "--augment mixup", 2, "the step's graph is "},
                    Refusal{"no_plan", "--plan MODELS/mlp.onnx", 3, "mlp.onnx: plan file: not a plan file"},
                    Refusal{"nothing_there", "--plan TMP/none.plan", 7, "none.plan: cannot be read"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST_F(PlanFiles, TakeTheirOwnValuesInOtherWords) {
  make("--batch-size 8 --momentum 0.9 --devices cpu:0-1");
  const std::string same = "--momentum 0.90 --devices cpu:0,cpu:1 ";
  const Outcome o = tandem("train " + model + data + same + "--steps 1 --plan TMP/a.plan --output TMP/o.onnx");
  EXPECT_EQ(o.code, 0) << o.err;
}

// What a machine, or a build, has otherwise than the plan's: refused, and made anew where that is asked for.
TEST_F(PlanFiles, AreMadeAnewWhereTheyDoNotFit) {
  struct Row {
    const char* name;
    std::function<void(Plan&)> change;
    int code;
    std::string says;
  };
  const Row rows[] = {
      {"kernel", [](Plan& p) {
         for (Step& s : p.programs[ProgramId{0}].steps)
           if (auto* launch = s.as<LaunchStep>()) launch->kernel = "gone";
       }, 5, "the plan wants kernel gone"},
      {"library", [](Plan& p) { p.record.backends[0].second = "oneDNN 0.1"; }, 5, "what cpu:0 computes by is oneDNN 0.1 in the plan, oneDNN "},
      {"memory", [](Plan& p) { p.programs[ProgramId{0}].arenas[static_cast<std::size_t>(ArenaKind::scratch)].bytes += std::int64_t{1} << 50; },
       5, "needs 1.00 PiB of memory on cpu:0"},
      {"earlier version", [](Plan& p) { p.record = {}; }, 3, "make it again from its model"},
      {"options that are none", [](Plan& p) { p.record.options = "[]"; }, 3, "the options that it was made by"}};
  const std::string run = "train " + model + loud + "--steps 2 --output TMP/";
  ASSERT_EQ(tandem(run + "alone.onnx --batch-size 8").code, 0);
  for (const Row& row : rows) {
    make("--batch-size 8");
    change(row.change);
    const Outcome refused = tandem(run + "o.onnx --plan TMP/a.plan");
    EXPECT_EQ(refused.code, row.code) << row.name << ": " << refused.err;
    EXPECT_NE(refused.err.find(row.says), std::string::npos) << row.name << ": " << refused.err;
    if (row.code == 3) continue;
    EXPECT_NE(refused.err.find("(--replan makes the plan anew)"), std::string::npos) << row.name << ": " << refused.err;
    const Outcome anew = tandem(run + "o.onnx --plan TMP/a.plan --replan");
    EXPECT_EQ(anew.code, 0) << row.name << ": " << anew.err;
    EXPECT_NE(anew.err.find("note: planned anew: "), std::string::npos) << row.name << ": " << anew.err;
    EXPECT_NE(anew.err.find(row.says), std::string::npos) << row.name << ": " << anew.err;
    EXPECT_EQ(bytes("o.onnx"), bytes("alone.onnx")) << row.name;
  }
}

TEST_F(PlanFiles, OfAnotherInstructionSetAreMadeAnew) {
  make("--batch-size 8");
  EXPECT_NE(tandem("plan TMP/a.plan --format summary").out.find("libraries       cpu: oneDNN "), std::string::npos);
  const std::map<std::string, std::string> older{{"TANDEM_ISA", "baseline"}, {"ONEDNN_MAX_CPU_ISA", "SSE41"}};
  const std::string run = "train --run-dir none " + model + loud + "--steps 2 ";
  const auto at = [&](const std::string& line) { return Process(folder, "said", words(run + line, folder.text()), older).wait(); };
  const Outcome refused = at("--plan TMP/a.plan --output TMP/o.onnx");
  EXPECT_EQ(refused.code, 5) << refused.err;
  EXPECT_NE(refused.err.find("vectors by baseline here"), std::string::npos) << refused.err;
  const Outcome anew = at("--plan TMP/a.plan --replan --output TMP/o.onnx");
  EXPECT_EQ(anew.code, 0) << anew.err;
  ASSERT_EQ(at("--batch-size 8 --output TMP/alone.onnx").code, 0);
  EXPECT_EQ(bytes("o.onnx"), bytes("alone.onnx"));
}

TEST_F(PlanFiles, GiveWayToOtherValuesWhereTheyAreMadeAnew) {
  make("--batch-size 8 --momentum 0.9");
  const std::string run = "train " + model + loud + "--steps 2 ";
  const Outcome anew = tandem(run + "--plan TMP/a.plan --replan --batch-size 16 --output TMP/o.onnx");
  EXPECT_EQ(anew.code, 0) << anew.err;
  EXPECT_NE(anew.err.find("--batch-size is 8 in the plan, 16 here"), std::string::npos) << anew.err;
  ASSERT_EQ(tandem(run + "--batch-size 16 --momentum 0.9 --output TMP/alone.onnx").code, 0);
  EXPECT_EQ(bytes("o.onnx"), bytes("alone.onnx"));
  const Outcome without = tandem(run + "--replan --output TMP/o.onnx");
  EXPECT_EQ(without.code, 2);
  EXPECT_NE(without.err.find("--replan needs --plan"), std::string::npos) << without.err;
}

TEST_F(PlanFiles, AreWhatAResumedRunGoesOnWith) {
  make("--batch-size 8 --momentum 0.9");
  const std::string run = "train " + model + data + "--plan TMP/a.plan --lr 0.05 ";
  ASSERT_EQ(tandem(run + "--epochs 2 --output TMP/alone.onnx").code, 0);
  ASSERT_EQ(tandem(run + "--epochs 1 --run-dir TMP/run --output TMP/o.onnx").code, 0);
  std::filesystem::remove(folder / "a.plan");  // the folder has it
  const Outcome resumed = tandem("train --resume --run-dir TMP/run --epochs 2");
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(resumed.err.find("planned anew"), std::string::npos) << resumed.err;
  EXPECT_EQ(bytes("o.onnx"), bytes("alone.onnx"));
}

TEST_F(PlanFiles, AreRunByProcessesTogether) {
  make("--batch-size 8 --momentum 0.9 --devices cpu:0-1");
  const std::string run = "train --run-dir none " + model + data + "--plan TMP/a.plan --steps 3 --output TMP/";
  ASSERT_EQ(tandem(run + "alone.onnx").code, 0);
  const Outcome two = Process(folder, "ranks", words(run + "two.onnx --processes 2", folder.text())).wait();
  EXPECT_EQ(two.code, 0) << two.err;
  EXPECT_EQ(bytes("two.onnx"), bytes("alone.onnx"));
}

TEST_F(PlanFiles, AreShownAsTheirModelIs) {
  const std::string options = "--batch-size 8 --momentum 0.9 --devices cpu:0-1 ";
  make(options);
  for (const std::string format : {"text", "summary", "dot", "mermaid", "svg"}) {
    const std::string ending = " --format " + format + " --quiet";
    const Outcome file = tandem("plan TMP/a.plan" + ending), of_model = tandem("plan " + model + options + ending);
    EXPECT_EQ(file.code, 0) << file.err;
    EXPECT_FALSE(file.out.empty());
    EXPECT_EQ(file.out, of_model.out) << format;
  }
  // The model's JSON and page would tell the memory that is free by then.
  EXPECT_EQ(tandem("plan TMP/a.plan --json --output TMP/a.json").code, 0);
  EXPECT_EQ(bytes("a.json"), tandem("plan TMP/a.plan --format json").out);
  EXPECT_NE(tandem("plan TMP/a.plan --format html").out.find("<title>Training plan of mlp</title>"), std::string::npos);
  EXPECT_EQ(tandem("plan TMP/a.plan --format plan").out, bytes("a.plan"));
  for (const auto& [option, says] : {std::pair{"--devices cpu", "--devices: "},
                                     {"--format onnx", "--format onnx: "},
                                     {"--format png", "unknown format 'png'"}}) {
    const Outcome o = tandem(concat("plan TMP/a.plan ", option));
    EXPECT_EQ(o.code, 2) << option;
    EXPECT_NE(o.err.find(says), std::string::npos) << o.err;
  }
}

TEST_F(PlanFiles, ForDryRunsAreThePlanThatIsShown) {
  make("--batch-size 8 --momentum 0.5");
  const Outcome o = tandem("train " + model + data + "--plan TMP/a.plan --dry-run");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("sgd momentum=0.5"), std::string::npos) << o.out;
}

}  // namespace
}  // namespace tandem
