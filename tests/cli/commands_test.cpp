// Rows of command lines: the exit code and what must stand on stdout and stderr.
#include <sys/stat.h>

#include "tests/cli/run_tandem.h"
#include "tests/trainer/temporary_folder.h"

namespace tandem {
namespace {

struct Row {
  const char* line;
  int code;
  const char* out;
  const char* err;
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.line;
}

class CommandLines : public testing::TestWithParam<Row> {};
TEST_P(CommandLines, Answer) {
  const TemporaryFolder folder;
  folder.write("note.txt", "no model");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  folder.write("bad.json", "{\"lr\": }");
  folder.write("list.json", "[1]");
  folder.write("lr.json", R"({"command": "train", "lr": 0.5, "batch-siz": 8})");
  const Outcome o = run_tandem(words(GetParam().line, folder.text()));
  EXPECT_EQ(o.code, GetParam().code) << o.out << o.err;
  EXPECT_NE(o.out.find(GetParam().out), std::string::npos) << o.out;
  EXPECT_NE(o.err.find(GetParam().err), std::string::npos) << o.err;
  if (GetParam().code != 0)
    EXPECT_EQ(o.out, "");
  else
    EXPECT_EQ(o.err.find("error"), std::string::npos) << o.err;
}
INSTANTIATE_TEST_SUITE_P(Help, CommandLines,
                         testing::Values(Row{"", 2, "", "usage: tandem COMMAND"}, Row{"help", 0, "usage: tandem COMMAND", ""},
                                         Row{"--help", 0, "Exit codes", ""}, Row{"version", 0, "tandem 0.", ""}, Row{"--version", 0, "reads images: ", ""}, Row{"--version", 0, "unpacks: gzip", ""},
                                         Row{"--version", 0, "\n  oneDNN", ""}, Row{"--version", 0, "\n  protobuf", ""}, Row{"--version", 0, "opset 7 to ", ""},
                                         Row{"--version", 0, "\n  fmt", ""}, Row{"--version", 0, "\n  libsodium", ""}, Row{"--version", 0, "\n  MPI module mpich", ""},
                                         Row{"--version --json", 0, "\"nlohmann/json\":\"3.", ""}, Row{"version --help", 0, "tandem version --json", ""}, Row{"version all", 2, "", "'all'"},
                                         Row{"completion zsh", 0, "'version:print the versions of tandem and of the libraries it uses'\n    'help:show the options of a command'\n  )\n  if", ""},
                                         Row{"train --help", 0, "usage: tandem train MODEL.onnx --data SPEC", ""},
                                         Row{"help plan all", 0, "--bucket-bytes N", ""}, Row{"help plan", 0, "bucket-bytes", ""},
                                         Row{"plan --help metrics", 0, "--bucket-bytes N", ""}, Row{"plan --help lr", 0, "--lr X", ""},
                                         Row{"plan --help bucket-byte", 2, "", "did you mean 'bucket-bytes'?"}, Row{"fit a.onnx", 2, "", "did you mean 'train'?"}, Row{"evaluate -h", 0, "examples:", ""},
                                         Row{"train --help all", 0, "--no-winograd", ""}, Row{"train --help", 0, "no-winograd", ""},
                                         Row{"trian", 2, "", "unknown command 'trian', did you mean 'train'?"}));
INSTANTIATE_TEST_SUITE_P(
    Usage, CommandLines,
    testing::Values(Row{"train", 2, "", "missing argument model"}, Row{"train a.onnx", 2, "", "--data is missing"},
                    Row{"train a.onnx --momentun 1", 2, "", "unknown option '--momentun', did you mean --momentum?"},
                    Row{"train a.onnx --learning-rate 1", 2, "", "unknown option '--learning-rate', did you mean --lr?"},
                    Row{"evaluate a.onnx --batch 4", 2, "", "unknown option '--batch', did you mean --batch-size?"},
                    Row{"train MODELS/mlp.onnx --data random --loss softmax-cross-entrop --output TMP/o.onnx", 2, "", "did you mean 'softmax-cross-entropy'?"},
                    Row{"train MODELS/mlp.onnx --data random --init xavier --no-autotune --output TMP/o.onnx", 2, "", "did you mean 'glorot-uniform'?"},
                    Row{"plan MODELS/mlp.onnx --optimizer adan", 2, "", "optimizer 'adan' is unknown, did you mean 'adam'?"},
                    Row{"plan MODELS/mlp.onnx --precision bfloat16", 2, "", "did you mean 'bf16'?"},
                    Row{"plan MODELS/mlp.onnx --weight-gradients-beside", 2, "", "--weight-gradients-beside is for one GPU and whole batches; devices: 1, the first cpu:0; micro-batches: 1"},
                    Row{"plan MODELS/mlp.onnx --without-pass fuse_layer", 2, "", "--without-pass: there is no pass 'fuse_layer', did you mean 'fuse_layers'?"},
                    Row{"train MODELS/mlp.onnx --data random --without-pass simplify,attach_loss --output TMP/o.onnx", 2, "", "--without-pass: no plan can be without 'attach_loss'"},
                    Row{"plan MODELS/mlp.onnx --devices cpu:0-1 --parallel tensor=2 --split fc3.*=tensor:0 --loss kl-divergence --no-gather", 2, "", "'loss/CountCorrect_11' gathers 1.25 KiB: its operands are not both split by rows, and --gather is off"},
                    Row{"plan MODELS/mlp.onnx --place fc4=cpu:1", 2, "", "--place 'fc4=cpu:1': model 'mlp' has no node, module or parameter of such a name, did you mean 'fc1'?"},
                    Row{"plan MODELS/mlp.onnx --devices cpu:0-1 --place fc3=cpu:2", 2, "", "--place 'fc3=cpu:2': --devices has no cpu:2: it lists cpu:0, cpu:1"},
                    Row{"plan MODELS/mlp.onnx --devices cpu:0-1 --place fc3", 2, "", "--place: 'fc3', expected NAME=DEVICE"},
                    Row{"plan MODELS/mlp.onnx --devices cpu:0-1 --parallel pipeline=2 --stage fc4;rest", 2, "", "--stage 'fc4': model 'mlp' has no node, module or parameter of such a name, did you mean 'fc1'?"},
                    Row{"plan MODELS/mlp.onnx --devices cpu:0-1 --parallel pipeline=2 --schedule gpip", 2, "", "--schedule 'gpip' is none, did you mean 'gpipe'?"},
                    Row{"plan MODELS/mlp.onnx --format onnx --annotate --output TMP/a.onnx --lora r=2", 2, "", "--annotate writes the weights of the file, which has none for --lora"},
                    Row{"plan MODELS/mlp.onnx --format onnx --annotate --output TMP/a.onnx --head 7", 2, "", "--annotate writes the weights of the file, which has none for --head"},
                    Row{"plan MODELS/mlp.onnx --devices cpu:0-1 --parallel pipeline=2 --micro-batches 5", 2, "", "--micro-batches: a batch of 32 has no 5 equal parts, the nearest number is 4"},
                    Row{"plan MODELS/mlp.onnx --micro-batches 0", 2, "", "--micro-batches"},
                    Row{"plan MODELS/mlp.onnx --accumulate 4 --micro-batches 6", 2, "", "--micro-batches 6 are those of a step, and --accumulate 4 makes it of as many batches: expected a multiple of 4"},
                    Row{"plan MODELS/mlp.onnx --accumulate 4 --micro-batches 8 --format summary", 0, "8 of 16 samples", ""},
                    Row{"plan MODELS/mlp.onnx --devices cpu:0-3 --parallel data=2,tensor=2 --merge cpu:0", 2, "", "--merge brings the outputs of replicas together"},
                    Row{"plan MODELS/mlp.onnx --devices cpu:0 --offload optimizer", 2, "", "--offload optimizer: no GPU is among the devices (cpu:0), whose states are in host memory anyway"},
                    Row{"plan MODELS/mlp.onnx --devices cpu:0 --offload activations", 2, "", "--offload activations: no GPU is among the devices (cpu:0), whose activations are in host memory anyway"},
                    Row{"plan MODELS/mlp.onnx --offload weights", 2, "", "--offload 'weights': expected none, optimizer or activations"},
                    Row{"plan MODELS/mlp.onnx --devices cpu:0 --weights-on cpu:1 --offload activations --batch-size 4 --format summary", 0, "; none of 64.0 KiB or more has the", ""},
                    Row{"plan MODELS/mlp.onnx --devices cpu:0 --weights-on cpu:1 --offload activations --batch-size 512 --format summary", 0, "activations are kept by cpu:1", ""},
                    Row{"plan MODELS/mlp.onnx --devices cpu:0-2 --parallel pipeline=2", 2, "", "--parallel data=1,tensor=1,pipeline=2 on 3 devices"},
                    Row{"plan MODELS/mlp.onnx --configuration c", 2, "", "--configuration 'c': the model has no device configurations"},
                    Row{"plan MODELS/mlp.onnx --annotate", 2, "", "--annotate needs --format onnx and --output FILE"},
                    Row{"plan MODELS/mlp.onnx --devices cpu:0-1 --parallel zero=3 --annotate --format onnx --output TMP/a.onnx", 2, "", "--annotate: a device configuration cannot say --parallel zero=3"},
                    Row{"plan MODELS/mlp.onnx --freeze fc1.weigth", 2, "", "has no parameter of that name, did you mean 'fc1.weight'?"},
                    Row{"train MODELS/mlp.onnx --data random --run-dir TMP --output TMP/o.onnx", 2, "", ": the folder holds bad.json and no run of tandem"},
                    Row{"train MODELS/mlp.onnx --data random --run-dir TMP --overwrite --output TMP/o.onnx", 2, "", "give a new or an empty folder"},
                    Row{"train a.onnx --epocs 3", 2, "", "unknown option '--epocs', did you mean --epochs?"},
                    Row{"train a.onnx -q", 2, "", "unknown option '-q'"}, Row{"train a.onnx b.onnx", 2, "", "unexpected argument 'b.onnx'"},
                    Row{"train a.onnx --dat x", 2, "", "unknown option '--dat', did you mean --data?"},
                    Row{"plan a.onnx --device cpu", 2, "", "unknown option '--device', did you mean --devices?"},
                    Row{"train a.onnx --lr", 2, "", "--lr needs a value: X"},
                    Row{"train MODELS/mlp.onnx --config TMP/note.txt", 2, "", "note.txt: JSON, byte 1"},
                    Row{"train MODELS/mlp.onnx --data random --lr fast", 2, "", "--lr: 'fast' is not a number"},
                    Row{"train MODELS/mlp.onnx --data random --batch-size -4", 2, "", "--batch-size -4: expected at least 1"},
                    Row{"train MODELS/mlp.onnx --data random --batch-size 0", 2, "", "--batch-size 0: expected at least 1"},
                    Row{"train MODELS/mlp.onnx --data random --config TMP/lr.json", 2, "", "lr.json 'batch-siz', did you mean batch-size?"},
                    Row{"plan MODELS/mlp.onnx --optimizer torch.optim.AdamX", 2, "", "optimizer 'torch.optim.AdamX' is unknown, did you mean 'adam"},
                    Row{"plan MODELS/mlp.onnx --optimizer AdamW --group biases:lr=0.1x", 2, "", "--group 'biases': model 'mlp' trains no parameter of that name"},
                    Row{"plan MODELS/mlp.onnx --group bias", 2, "", "--group 'bias': no ':' behind the patterns"},
                    Row{"plan MODELS/mlp.onnx --group bias:rate=2", 2, "", "'rate' is none of weight-decay, lr, from"},
                    Row{"train MODELS/mlp.onnx --data random --export average", 2, "", "--export average: no average is kept"},
                    Row{"train MODELS/mlp.onnx --data random --ema 1", 2, "", "--ema: a decay of 1"},
                    Row{"train MODELS/mlp.onnx --data random --ema 0.9 --swa", 2, "", "give one of them"},
                    Row{"train MODELS/mlp.onnx --data random --accumulate 0", 2, "", "--accumulate 0: expected 1 to 65536"},
                    Row{"train MODELS/mlp.onnx --data random --lr-schedule multistep", 2, "", "needs at=EPOCHS"},
                    Row{"train MODELS/mlp.onnx --data random --optimizer adam --momentum 0.9", 2, "", "--momentum: the optimizer adam has none"},
                    Row{"train MODELS/mlp.onnx --data random --optimizer adam --nesterov", 2, "", "--nesterov: the optimizer adam has none"},
                    Row{"plan MODELS/mlp.onnx --nesterov", 2, "", "Nesterov's momentum needs a momentum"},
                    Row{"plan MODELS/mlp.onnx --freeze fc1.*,conv9.*", 2, "", "--freeze 'conv9.*': model 'mlp' has no parameter of that name"},
                    Row{"train MODELS/mlp.onnx --data random --precision fp64", 2, "", "--precision 'fp64': expected fp32, tf32, bf16, fp16 or fp8"},
                    Row{"train MODELS/mlp.onnx --data random --lr nan --output TMP/o.onnx", 2, "", "--lr: 'nan' is not finite"},
                    Row{"train MODELS/mlp.onnx --data random --lr -1 --no-autotune --output TMP/o.onnx", 2, "", "learning rate -1, expected a finite number of at least 0"},
                    Row{"train MODELS/mlp.onnx --data random --momentum 1.5 --output TMP/o.onnx", 2, "", "'sgd': momentum is 1.5, expected a number of at least 0 and below 1"},
                    Row{"train MODELS/mlp.onnx --data random --weight-decay -1 --output TMP/o.onnx", 2, "", "weight decay is -1, expected a number of at least 0"},
                    Row{"train MODELS/mlp.onnx --data random --optimizer adam --beta1 1 --output TMP/o.onnx", 2, "", "'adam': beta1 is 1, expected"},
                    Row{"train MODELS/mlp.onnx --data random --optimizer adamw --beta2 -0.5 --output TMP/o.onnx", 2, "", "beta2 is -0.5, expected"},
                    Row{"train MODELS/mlp.onnx --data random --optimizer rmsprop --rho 2 --output TMP/o.onnx", 2, "", "rho is 2, expected"},
                    Row{"train MODELS/mlp.onnx --data random --optimizer adam --epsilon -1 --output TMP/o.onnx", 2, "", "epsilon is -1, expected"},
                    Row{"train MODELS/mlp.onnx --data random --validation-split -0.1 --output TMP/o.onnx", 2, "", "a validation split of -0.1 is not between 0 and 1"},
                    Row{"train MODELS/mlp.onnx --data random --augment crop=4294967297 --output TMP/o.onnx", 2, "", "crop=4294967297, expected 0 to 1024 pixels"},
                    Row{"train MODELS/mlp.onnx --data random --augment rotat --output TMP/o.onnx", 2, "", "unknown augmentation 'rotat', did you mean 'rotate'?"},
                    Row{"train MODELS/mlp.onnx --data random --resize big --output TMP/o.onnx", 2, "", "resize 'big': expected crop, stretch or the pixels of the shorter side"},
                    Row{"train MODELS/mlp.onnx --data random --workers 65 --output TMP/o.onnx", 2, "", "--workers 65: expected 0 to 64"},
                    Row{"train MODELS/mlp.onnx --data random --on-bad-sample skip=0 --output TMP/o.onnx", 2, "", "--on-bad-sample skip=0: expected at least 1"},
                    Row{"train MODELS/mlp.onnx --data images:TMP/nowhere --output TMP/o.onnx", 7, "", "nowhere: no such folder"},
                    Row{"train MODELS/mlp.onnx --data random --normalize nan,1 --output TMP/o.onnx", 2, "", "normalize: 'nan' is not finite"},
                    Row{"train MODELS/mlp.onnx --data random --lr-schedule step,every=0 --output TMP/o.onnx", 2, "", "every is 0, it must be positive"},
                    Row{"train MODELS/mlp.onnx --data random --config TMP/bad.json", 2, "", "bad.json: JSON, byte 7"},
                    Row{"train MODELS/mlp.onnx --data random --config TMP/list.json", 2, "", "list.json: JSON: expected an object"},
                    Row{"train MODELS/mlp.onnx --data random --output=", 2, "", "--output is missing"},
                    Row{"train MODELS/mlp.onnx --data random --optimizer adan", 2, "", "adam"},
                    Row{"train MODELS/mlp.onnx --data random --loss entropy", 2, "", "softmax-cross-entropy"},
                    Row{"train MODELS/mlp.onnx --data random --init he", 2, "", "unknown initialisation 'he'"},
                    Row{"train MODELS/mlp.onnx --data random --devices cpu:x", 2, "", "'x' is not a whole number"},
                    Row{"train MODELS/mlp.onnx --data random --devices cpu:0-1 --slice-weights 1", 2, "", "are 1 number for 2 devices"},
                    Row{"train MODELS/mlp.onnx --data random --resume", 2, "", "--resume needs --run-dir"},
                    Row{"train --resume --run-dir TMP/none", 2, "", "holds no run to resume"},
                    Row{"train MODELS/mlp.onnx --data random --autotune=maybe", 2, "", "expected on or off, got 'maybe'"},
                    Row{"plan MODELS/mlp.onnx --training --inference", 2, "", "exclude each other"},
                    Row{"plan MODELS/mlp.onnx --format jsn", 2, "", "did you mean 'json'?"},
                    Row{"plan --check TMP/note.txt", 3, "", "plan"}, Row{"operators --format html", 2, "", "--format: unknown format 'html'"},
                    Row{"predict MODELS/mlp.onnx --data random --output a.txt", 2, "", "ends in .npy, .npz or .csv"},
                    Row{"predict MODELS/mlp.onnx --data random", 2, "", "--output is missing"}));
INSTANTIATE_TEST_SUITE_P(
    Trouble, CommandLines,
    testing::Values(
        Row{"plan --check TMP/note.txt", 3, "", "note.txt: plan file: not a plan file"},
        Row{"plan --check TMP/none.plan", 7, "", "none.plan: cannot be read"},
        Row{"train MODELS/mlp.onnx --data random --output TMP/pipe", 7, "", "pipe: is a device or a pipe"},
        Row{"train MODELS/mlp.onnx --data random --tuning-cache TMP/pipe --output TMP/o.onnx", 7, "", "pipe: is a device or a pipe"},
        Row{"plan MODELS/mlp.onnx --output TMP/pipe", 7, "", "pipe: is a device or a pipe"},
        Row{"summary TMP/none.onnx", 7, "", "none.onnx"}, Row{"summary TMP/note.txt", 3, "", "note.txt"},
        Row{"train MODELS/mlp.onnx --data npz:TMP/none.npz", 7, "", "none.npz"},
        Row{"train MODELS/mlp.onnx --data npz:TMP/note.txt", 4, "", "not a zip archive"},
        Row{"train MODELS/mini_googlenet.onnx --data synthetic:digits,train=8,test=8 --output TMP/o.onnx --no-autotune", 4, "",
            "samples of 'images' are uint8[1,28,28]"},
        Row{"train MODELS/mlp.onnx --data random --output TMP/note.txt/x.onnx", 7, "", "note.txt: cannot be created"},
        Row{"plan MODELS/mlp.onnx --precision tf32", 5, "", "TF32 is a format of NVIDIA's tensor cores"},
        Row{"plan MODELS/mlp.onnx --precision fp16", 5, "", "precision fp16 on device cpu:0: tandem trains in float16 on GPUs alone"},
        Row{"train MODELS/mlp.onnx --data TMP/d.npz", 7, "", "d.npz: cannot be read"},
        Row{"train MODELS/mlp.onnx --data random --devices cpu:0,cpu:0 --output TMP/o.onnx", 2, "", "cpu:0 is there twice"},
        Row{"train MODELS/mlp.onnx --data random --output /proc/o.onnx", 7, "", "/proc/o.onnx"},
        Row{"train --run-dir TMP/none --resume", 2, "", "none holds no run to resume"},
        Row{"plan MODELS/mlp.onnx --retune", 2, "", "--retune needs --autotune"},
        Row{"train MODELS/mlp.onnx --data random --devices tpu:0 --output TMP/o.onnx", 5, "", "tpu"},
        Row{"train MODELS/mlp.onnx --data random,samples=64 --init he-normal --lr 1e30 --steps 20 --output TMP/o.onnx --no-autotune", 8, "",
            "at step "}));
INSTANTIATE_TEST_SUITE_P(
    Answers, CommandLines,
    testing::Values(Row{"summary MODELS/lenet.onnx", 0, "parameters 1,256,080 (1,256,080 trainable), 4.79 MiB; 13.1 MFLOP a sample", ""},
                    Row{"summary MODELS/lenet.onnx --json", 0, "\"parameters\":1256080", ""}, Row{"operators", 0, "Conv ", ""},
                    Row{"operators --json", 0, "{\"operator\":\"Conv\"", ""}, Row{"operators", 0, "com.microsoft::Attention ", ""}, Row{"operators --json", 0, "{\"operator\":\"Loop\",\"opsets\":\"1, 11, 13, 16, 19, 21, 23, 24, 25\",\"gradient\":\"composed\",\"kernels\":{\"cpu\":\"taken apart\"", ""}, Row{"operators --json", 0, "{\"operator\":\"Floor\",\"opsets\":\"1, 6, 13\",\"gradient\":\"zero\"", ""},
                    Row{"operators --format markdown", 0, "|---", ""},
                    Row{"devices", 0, "cpu ", ""}, Row{"devices", 0, "GFLOP/s measured", ""}, Row{"devices --json", 0, "\"device\":\"cpu\",\"usable\":true", ""},
                    Row{"devices --json", 0, "\"peaks\":[{\"format\":\"fp32\"", ""},
                    Row{"plan MODELS/lenet.onnx --devices cpu:0-3 --batch-size 10", 0, "all_reduce", ""},
                    Row{"plan MODELS/lenet.onnx --devices cpu:0-3 --batch-size 10 --format dot", 0, "subgraph cluster_p1", ""},
                    Row{"plan MODELS/mlp.onnx --devices cpu:0-1 --parallel tensor=2 --split fc3.*=tensor:0 --loss kl-divergence", 0, "'loss/CountCorrect_11' gathers 1.25 KiB: its operands are not both split by rows", ""},
                    Row{"plan MODELS/mlp.onnx --devices cpu:0-1 --parallel tensor=2 --no-gather", 0, "\nTransfers\n", ""},
                    Row{"plan MODELS/mlp.onnx --devices cpu:0-1 --parallel tensor=2 --log-placement --format summary", 0, "one sum ends a split layer", "InnerProduct 'fc1' on cpu:0-1 tensor 2: relu1 tensor split(1)"},
                    Row{"plan MODELS/mlp.onnx --place fc3=cpu:1 --log-placement --format summary", 0, "", "InnerProduct 'fc3' on cpu:1: "},
                    Row{"plan MODELS/mlp.onnx --devices /CPU:0,/CPU:1 --place fc[12]*=/device:CPU:1 --log-placement --format summary", 0, "", "InnerProduct 'fc2' on cpu:1: "},
                    Row{"plan MODELS/mlp.onnx --devices cpu:0-1 --parallel pipeline=2 --format summary", 0, "2 equal stages with --micro-batches 1 wait 50% of a step", ""},
                    Row{"plan MODELS/mlp.onnx --devices cpu:0-1 --parallel pipeline=2 --stage fc1*;rest --log-placement --format summary", 0, "", "InnerProduct 'fc2' on cpu:1: "},
                    Row{"plan MODELS/mlp.onnx --devices cpu:0-3 --batch-size 3", 0, "no samples for cpu:3: the batch of 3 is too small", ""},
                    Row{"plan MODELS/mini_googlenet.onnx --devices cpu:0-1 --batch-size 6", 0, "(3 at the least, of a batch of 6)", ""},
                    Row{"plan MODELS/lenet.onnx --format summary --inference", 0, "Inference plan of lenet", ""},
                    Row{"plan MODELS/lenet.onnx --batch-size 10", 0, "fc1 +2 ", ""},  // named by its Gemm, not by the Flatten before it
                    Row{"plan MODELS/lenet.onnx --loss output", 0, "is taken for its loss, but has 10 numbers a sample", ""},
                    Row{"plan MODELS/lenet.onnx --format dot", 0, "digraph", ""},
                    Row{"plan MODELS/resnet18.onnx --format dot", 0, "m0 [label=\"conv1", ""},
                    Row{"plan MODELS/lenet.onnx --format mermaid --devices cpu:0-1", 0, "flowchart TB", ""},
                    Row{"plan MODELS/lenet.onnx --format svg --devices cpu:0-1", 0, "<svg xmlns", ""},
                    Row{"plan MODELS/lenet.onnx --format perfetto --devices cpu:0-1", 0, "\"traceEvents\":", ""},
                    Row{"plan MODELS/lenet.onnx --format html --devices cpu:0-1", 0, "Training plan of lenet</h1>", ""}, Row{"plan MODELS/lenet.onnx --json", 0, "{", ""},
                    Row{"train MODELS/lenet.onnx --data synthetic:digits,train=8,test=8 --dry-run", 0, "Training plan of lenet", ""},
                    Row{"train MODELS/lenet.onnx --data synthetic:digits,train=8,test=8 --dry-run --json", 0,
                        "\"predicted_peak_bytes\":", ""}));

}  // namespace
}  // namespace tandem
