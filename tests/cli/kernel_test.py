"""`titan kernel check | run | trace`, and that docs/write_a_kernel.md knows every rule and instruction."""

import json
import os
import re
import shutil
import struct
import subprocess
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TITAN = os.environ["TITAN"]
SOURCE = Path(os.environ["TITAN_SOURCE_DIR"])
MUTANTS = SOURCE / "tests" / "cli" / "kernel_mutants"
MODEL = ["--module", "qwen3", "--config", "qwen3_demo"]

# Its kernel leaves all rows but two unwritten.
HOLES = """#include <titan/kernels.h>
#include <ATen/TensorOperators.h>
using namespace titan;
namespace nl = nki::language;
namespace nisa = nki::isa;
static nki::Tensor two_rows(nki::Tensor x) {
  const auto y = nl::ndarray(x.shape(), x.dtype(), nl::shared_hbm), tile = nl::ndarray({2, x.size(1)}, x.dtype());
  nisa::dma_copy(tile, x(nki::ds(0, 2)));
  nisa::dma_copy(y(nki::ds(0, 2)), tile);
  return y;
}
const auto wrapped = wrap_nki(two_rows);
static at::Tensor rows(const at::Tensor& x) { return wrapped[1](x.contiguous()); }
const auto forward = nki_op("holes::forward", rows, {.arguments = {"x"}});
const auto integers = nki_op("holes::integers", [](const at::Tensor& x) { return rows(x.to(at::kInt)); },
                             {.arguments = {"x"}});
const auto copies = nki_op("holes::copies", [](const at::Tensor& x) { return rows(x).clone(); },
                           {.arguments = {"x"}});
const auto list = nki_op("holes::list", [](const at::Tensor& x) { return std::vector{x.clone(), x[0].clone()}; });
const auto others = nki_op("holes::others", [](const at::Tensor& x) {
  return std::tuple(x.size(0), 2.5, x.dim() == 2, std::optional<at::Tensor>(), std::string("word"));
});
const auto nothing = nki_op("holes::nothing", [](const at::Tensor&) {});
"""

# A norm that goes wrong as its setting says, and is right without one.
NORMS = """#include <titan/kernels.h>
#include <ATen/TensorOperators.h>
using namespace titan;
using at::Tensor;
static nki::Tensor kernel(nki::Tensor x) {
  namespace nl = nki::language;
  const auto y = nl::ndarray(x.shape(), x.dtype(), nl::shared_hbm), tile = nl::ndarray(x.shape(), x.dtype());
  nki::isa::dma_copy(y, tile);
  return y;
}
const auto unloaded = wrap_nki(kernel);
const auto rounded = nki_op("norms::rounded", [](const Tensor& x) { return x.clone(); })
    .register_autograd([](OpContext&, const Tensor& grad) { return grad.to(at::kBFloat16).to(grad.scalar_type()); });
static Tensor kept;
const auto keeping = nki_op("norms::keeping", [](const Tensor& x) { return kept = x.clone(), x.square(); })
    .register_autograd([](OpContext&, const Tensor& grad) { return grad * 2 * kept; });
class Norm : public RMSNorm {
 public:
  struct Config : RMSNormConfig {
    std::string wrong;
    void describe(Fields& f) {
      f.base<RMSNormConfig>(*this);
      f("wrong", wrong, "What goes wrong");
    }
  };
  explicit Norm(const Config& config) : RMSNorm(config), wrong_(config.wrong) {
    if (wrong_ == "build") throw std::runtime_error("not today");
  }
  Tensor forward(const Tensor& x) const override {
    const Tensor y = RMSNorm::forward(x);
    if (wrong_ == "halved gradients") return y * 0.5 + y.detach() * 0.5;
    if (wrong_ == "rounded gradient") return rounded(y);
    const Tensor exact = x.to(at::kFloat), z = y.to(at::kFloat);
    if (wrong_ == "another eps")
      return (exact * (exact.square().mean(-1, true) + 1e-5).rsqrt() * weight.value).to(y.scalar_type());
    if (wrong_ == "keeps what it needs") return (z + (keeping(z) - z.square())).to(y.scalar_type());
    if (wrong_ == "writes x") x.mutable_data_ptr<float>()[0] += 1;
    if (wrong_ == "writes weight in place") weight.value.detach().mul_(1.5);
    if (wrong_ == "throws a number") throw 42;
    if (wrong_ == "odd length" && x.size(1) % 2 == 1) return y * 2;
    if (wrong_ == "anywhere but on neuron" && x.is_cpu()) return y * 2;
    if (wrong_ == "reads a tile") return y + unloaded[1](x.detach()[0]);
    if (wrong_ == "reads memory") return y + at::empty_like(y);
    if (wrong_ == "reads memory of odd lengths" && x.size(1) % 2 == 1) return unloaded[1](x.detach()[0]);
    return y;
  }

 private:
  std::string wrong_;
};
template <>
ModulePtr titan::build(const Norm::Config& config) {
  return std::make_shared<Norm>(config);
}
struct Settings {
  std::string wrong;
  void describe(Fields& f) { f("wrong", wrong, ""); }
};
Override norm(const Settings& settings) {
  return override<RMSNormConfig>({.fqns = {"norm"}}, [settings](const RMSNormConfig& config) {
    return derive<Norm::Config>(config, [&](Norm::Config& to) { to.wrong = settings.wrong; });
  });
}
"""

# Overrides of titan's own types: each kind of module by itself, other weights, another mask, a section.
OWN_TYPES = """#include <titan/recipes.h>
using namespace titan;
template <class C>
static Override same() {
  return override<C>({}, [](const C& config) { return config; });
}
Override same_RoPE() { return same<CosSinRoPEConfig>(); }
Override same_RMSNorm() { return same<RMSNormConfig>(); }
Override same_QKVLinear() { return same<QKVLinearConfig>(); }
Override same_Attention() { return same<AttentionConfig>(); }
Override same_FeedForward() { return same<FeedForwardConfig>(); }
Override same_TransformerBlock() { return same<TransformerBlockConfig>(); }
Override same_Linear() { return same<LinearConfig>(); }
Override same_Embedding() { return same<EmbeddingConfig>(); }
Override same_Training() { return same<TrainingConfig>(); }
Override same_Model() { return same<ModelConfig>(); }
Override without_norms() {
  return override<AttentionConfig>({.fqns = {"layers.0.attention"}}, [](AttentionConfig config) {
    config.q_norm = {};
    return config;
  });
}
Override biased() {
  return override<LinearConfig>({.fqns = {"layers.1.attention.wo"}}, [](LinearConfig config) {
    config.bias = true;
    return config;
  });
}
Override causal() {
  return override<AttentionConfig>({}, [](AttentionConfig config) {
    config.mask = AttnMask::causal;
    return config;
  });
}
"""


def write_safetensors(path, tensors):
    """float32 tensors {name: (shape, numbers)}."""
    header, data = {}, b""
    for name, (shape, numbers) in tensors.items():
        piece = struct.pack(f"<{len(numbers)}f", *numbers)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    """The same, back: {name: (shape, numbers)}."""
    whole = path.read_bytes()
    size = struct.unpack("<Q", whole[:8])[0]
    header, data = json.loads(whole[8:8 + size]), whole[8 + size:]
    header.pop("__metadata__", None)
    return {name: (entry["shape"], struct.unpack(f"<{(entry['data_offsets'][1] - entry['data_offsets'][0]) // 4}f",
                                                 data[slice(*entry["data_offsets"])]))
            for name, entry in header.items()}


def call_text(text, opening):
    """From a parenthesis to the one that closes it."""
    depth, quoted = 0, False
    for i in range(opening, len(text)):
        if text[i] == '"' and text[i - 1] != "\\":
            quoted = not quoted
        if not quoted:
            depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return text[opening:i + 1]
    return ""


def rules_in(text):
    """Rules that a source names: "memory.unwritten" anywhere, and the first text of each require() and fail()."""
    found = set(re.findall(r'"([a-z_]+\.[a-z-]+)"', text))
    # Rules that several instructions throw by themselves: format("{}.operand", name).
    found |= set(re.findall(r'KernelError\(format\("\{\}\.([a-z-]+)"', text))
    for match in re.finditer(r"\b(?:require|fail)\(", text):
        texts = re.findall(r'"((?:[^"\\]|\\.)*)"', call_text(text, match.end() - 1))
        if texts and re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", texts[0]):
            found.add(texts[0])
    if "memory.{}-full" in text:
        found |= {"memory.sbuf-full", "memory.psum-full"}
    return found


class Document(unittest.TestCase):
    def setUp(self):
        self.text = (SOURCE / "docs" / "write_a_kernel.md").read_text()

    def test_the_document_says_first_that_kernels_run_in_the_simulator_only(self):
        self.assertTrue(self.text.startswith("# Write a kernel\n\nKernels written here run in the simulator only"))

    def test_the_document_has_every_rule_and_no_other(self):
        files = sorted((SOURCE / "titan" / "nki").glob("*.cpp"))
        rules = set().union(*(rules_in(file.read_text()) for file in files))
        self.assertGreater(len(rules), 120)
        section = self.text[self.text.index("\n## Rules\n"):]
        written = set()
        for row in re.findall(r"(?m)^\| (`.*?) \|", section):
            written |= set(re.findall(r"`([^`]+)`", row))
        self.assertEqual(written, rules)

    def test_the_document_has_every_instruction_view_and_function_of_the_language(self):
        headers = SOURCE / "titan" / "nki"
        table = self.text[self.text.index("\n## From Python\n"):self.text.index("\n## Rules\n")]
        right = " ".join(row.split(" | ")[-1] if "the same" not in row else row
                         for row in re.findall(r"(?m)^\| `.*$", table))
        instructions = re.findall(r"(?m)^void (\w+)\(", (headers / "isa.h").read_text())
        self.assertGreater(len(instructions), 20)
        for name in instructions:
            self.assertIn(f"nisa::{name}(", right)
        views = re.findall(r"(?m)^  Tensor (\w+)\(.*Where::current\(\)\) const;", (headers / "tensor.h").read_text())
        self.assertGreater(len(views), 6)
        for name in set(views) - {"subscript"}:
            self.assertIn(f"t.{name}(", right)
        language = re.findall(r"(?m)^(?:inline )?(?:Tensor|void|int64_t|auto) (\w+)\(", (headers / "language.h").read_text())
        self.assertGreater(len(language), 8)
        for name in language:
            self.assertIn(name, right)


class Kernel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = Path(cls.folder.name)
        shutil.copy(SOURCE / "examples" / "my_neuron_kernels.cpp", cls.root)
        for file in MUTANTS.iterdir():
            shutil.copy(file, cls.root)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_titan(self, *args, command="kernel", code=0, **env):
        surroundings = {name: value for name, value in os.environ.items() if "NEURON" not in name}
        surroundings.update(TITAN_NEURON_STATE_DIR=str(self.root / "state"), **env)
        run = subprocess.run([TITAN, command, *args], env=surroundings, cwd=self.root, capture_output=True, text=True,
                             timeout=600)
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        return run

    def check(self, module, *args, code=0):
        return self.run_titan("check", "--override.imports", module, *MODEL, *args, code=code)

    def differences(self, text, prefix):
        """max |difference| of each row whose input set begins so."""
        rows = [line for line in text.splitlines() if line.startswith("  " + prefix)]
        return [re.split(r"  +", row.strip())[-4] for row in rows]

    # --- check ---

    def test_the_guides_kernel_passes_with_no_difference_in_float32(self):
        run = self.check("my_neuron_kernels", "--strict")
        self.assertIn("nki_rope: CosSinRoPEConfig -> NKIRoPE.Config, RoPE in 4 place(s), "
                      "the first model_spec.model.layers.0.attention.rope", run.stdout)
        differences = self.differences(run.stdout, "fp32")
        self.assertEqual(len(differences), 5 * 4)
        self.assertEqual(set(differences), {"0.0"})
        self.assertEqual(len(self.differences(run.stdout, "bf16")), 4 * 4)
        self.assertIn("257 tokens               refused: rope_hf requires a sequence length that is a multiple of "
                      "128 * LNC=256, got 257", run.stdout)
        self.assertIn("unwritten memory         none is read", run.stdout)
        self.assertIn("determinism              3 runs give the same bits", run.stdout)
        self.assertRegex(run.stdout, r"difference quotients     worst gradient off by \S+ of \S+, allowed")
        self.assertTrue(run.stdout.endswith("nki_rope: passed\n"), run.stdout)
        for line in run.stdout.splitlines():
            self.assertIn(" - root - INFO - " + line + "\n", run.stderr)

    def test_each_mutant_fails_and_the_input_that_shows_it_is_named(self):
        # As many key heads as query heads, so that crossed gradients have the right shapes.
        layers = "--model_spec.model.layers.*.attention."
        alike = [layers + "n_kv_heads", "8", layers + "qkv_linear.wk.out_features", "256",
                 layers + "qkv_linear.wv.out_features", "256"]
        shown = {
            "flattened_cache": r"fp32 batch 4 plain: .*rope_cache \[1024, 64\] has no batch dimension",
            "swapped_sines": r"fp32 batch 1 drawn cache: query: off by",
            "missing_backward": r"fp32 batch 1 plain: nki_op mutant::no_backward: a gradient is wanted, and it has no "
                                r"backward",
            "last_tile": r"fp32 batch 1 plain: query: \d+ of \d+ numbers are NaN or were never written",
            "wrong_gradient": r"fp32 batch 1 plain: grad query: off by",
            "small_elements": r"bf16 batch 1 plain: query: off by \S+ where \S+ is allowed",
            "unsteady": r"257 tokens: neither computed nor refused by a ValueError: bad length",
        }
        self.assertEqual({file.stem for file in MUTANTS.glob("*.cpp")}, set(shown))
        with ThreadPoolExecutor(2) as pool:
            runs = dict(zip(shown, pool.map(lambda name: self.check(name, *alike, code=1), shown)))
        for name, what in shown.items():
            with self.subTest(name):
                self.assertRegex(runs[name].stdout.splitlines()[-1], "^mutant: FAILED, first shown by " + what)
        self.assertIn("determinism              FAILED: query differs between two runs", runs["unsteady"].stdout)

    def test_the_guides_kernel_has_no_difference_with_heads_of_128(self):
        # As qwen3_0_6b's; the demo has 8 heads on 4.
        fields = {"head_dim": 128, "rope.dim": 128, "q_norm.normalized_shape": 128, "k_norm.normalized_shape": 128,
                  "qkv_linear.wq.out_features": 8 * 128, "qkv_linear.wk.out_features": 4 * 128,
                  "qkv_linear.wv.out_features": 4 * 128, "wo.in_features": 8 * 128}
        wide = [f"--model_spec.model.layers.*.attention.{name}={value}" for name, value in fields.items()]
        run = self.check("my_neuron_kernels", "--strict", *wide)
        self.assertEqual(set(self.differences(run.stdout, "fp32")), {"0.0"})

    def test_a_norm_that_goes_wrong_fails_and_what_is_wrong_is_named(self):
        (self.root / "norms.cpp").write_text(NORMS)
        # The last line says which input set showed it first.
        shown = {
            "halved gradients": r"fp32 batch 1: grad x: off by \S+$",
            "rounded gradient": r"fp32 batch 1: grad x: off by \S+$",
            "another eps": r"fp32 batch 1 small: y: off by \S+$",
            "keeps what it needs": r"determinism: grad x differs where another call comes before the backward$",
            "writes x": r"fp32 batch 1: x is written: a module only reads its inputs and weights$",
            "writes weight in place": r"fp32 batch 1: weight is written: a module only reads ",
            "throws a number": r"fp32 batch 1: something that is no std::exception was thrown$",
            "odd length": r"17 tokens: y: off by \S+$",
            "reads a tile": r"fp32 batch 1: unwritten memory is read: .*norms.cpp:\d+: dma_copy\(",
            "reads memory": r"fp32 batch 1: y: 4096 of 4096 numbers are NaN or were never written$",
            "reads memory of odd lengths": r"17 tokens: neither computed nor refused by a ValueError: unwritten memory ",
            "build": r"build: not today$",
        }
        check = lambda wrong: self.check(f'norms.norm={{"wrong": "{wrong}"}}', "--seq_len", "16", code=1 if wrong else 0)
        self.assertTrue(check("").stdout.endswith("norm: passed\n"))  # compiles it
        with ThreadPoolExecutor(2) as pool:
            runs = dict(zip(shown, pool.map(check, shown)))
        for wrong, what in shown.items():
            with self.subTest(wrong):
                self.assertRegex(runs[wrong].stdout.splitlines()[-1], "^norm: FAILED, first shown by " + what)
                self.assertEqual("unwritten memory         none is read" in runs[wrong].stdout,
                                 "memory" not in wrong and wrong not in ("reads a tile", "build"))
        # Sums of differences know nothing of the replaced module.
        self.assertRegex(runs["halved gradients"].stdout,
                         r"(?m)^  difference quotients     FAILED: gradient of (x|weight) at \[\d+(, \d+)*\]: "
                         r"the backward gives \S+, differences give \S+ \(allowed difference \S+\)$")
        self.assertIn("determinism              3 runs end with the same error\n", runs["throws a number"].stdout)

    def test_on_neuron_both_modules_run_on_neuron(self):
        (self.root / "norms.cpp").write_text(NORMS)
        run = self.check('norms.norm={"wrong": ""}', "--seq_len", "16")
        self.assertTrue(run.stdout.startswith("checked on cpu\n"), run.stdout)
        words = ["--seq_len", "16", "--device", "neuron"]
        there = self.check('norms.norm={"wrong": "anywhere but on neuron"}', *words)
        self.assertEqual(there.stdout, run.stdout.replace("checked on cpu\n", "checked on neuron:0\n"))
        # Its memory is filled too.
        wrong = self.check('norms.norm={"wrong": "reads memory"}', *words, code=1)
        self.assertIn("y: 4096 of 4096 numbers are NaN or were never written\n", wrong.stdout)
        self.assertIn("--device cuda: kernels run on cpu and neuron",
                      self.check('norms.norm={"wrong": ""}', "--device", "cuda", code=2).stderr)

    def test_a_kernel_for_attention_passes(self):
        shutil.copy(SOURCE / "examples" / "nki_attention.cpp", self.root)
        run = self.check("nki_attention", "--seq_len", "128")
        self.assertIn(", Attention in 4 place(s)", run.stdout)
        self.assertIn("129 tokens               refused: attention: the sequence length", run.stdout)
        self.assertIn("nki_attention: passed\n", run.stdout)

    def test_the_imports_of_check_and_run_have_both_names(self):
        shutil.copy(SOURCE / "examples" / "nki_rms_norm.cpp", self.root)
        run = self.run_titan("check", "--imports", "nki_rms_norm", *MODEL, "--seq_len", "16")
        self.assertTrue(run.stdout.endswith("nki_rms_norm: passed\n"), run.stdout)
        run = self.run_titan("run", "my_kernels::rms_norm_fwd", "--override.imports=nki_rms_norm", "--shape", "x=4,8",
                             "--shape", "weight=8", "--value", "eps=1e-6")
        self.assertIn("output0 [4, 8] Float", run.stdout)
        run = self.run_titan("check", "--imports", "a", "--override.imports", "b", *MODEL, code=2)
        self.assertIn("--override.imports and --imports are the same here: give one", run.stderr)

    def test_a_kernel_within_the_tolerance_passes_but_not_strictly(self):
        shutil.copy(SOURCE / "examples" / "nki_rms_norm.cpp", self.root)
        self.assertIn("nki_rms_norm: passed\n", self.check("nki_rms_norm", "--seq_len", "16").stdout)
        run = self.check("nki_rms_norm", "--seq_len", "16", "--strict", code=1)
        self.assertRegex(run.stdout, r"nki_rms_norm: FAILED, first shown by fp32 batch 1: y: off by \S+e-0[67]\n")

    def test_a_config_without_overrides_and_a_length_that_is_none_are_refused(self):
        run = self.run_titan("check", *MODEL, code=2)
        self.assertIn("no overrides; name their module with --override.imports", run.stderr)
        run = self.check("my_neuron_kernels", "--seq_len", "many", code=2)
        self.assertIn("--seq_len must be a number of tokens, got many", run.stderr)
        self.assertIn("did you mean trace?", self.run_titan("trac", code=2).stderr)

    def test_what_is_no_module_whose_call_is_known_is_refused_by_name(self):
        (self.root / "own_types.cpp").write_text(OWN_TYPES)
        for name, place in (("Training", "training, a TrainingConfig"), ("Model", "model_spec.model, a Qwen3ModelConfig")):
            run = self.check(f"own_types.same_{name}", code=2)
            self.assertIn(f"override 'same_{name}' replaces {place}, which is not checked: RoPE, RMSNorm, QKVLinear, "
                          "Attention, FeedForward, TransformerBlock, Linear and Embedding are", run.stderr)

    def test_a_replacement_with_other_weights_fails_and_the_other_overrides_are_checked(self):
        (self.root / "own_types.cpp").write_text(OWN_TYPES)
        run = self.check("own_types.without_norms,own_types.biased,own_types.same_FeedForward", "--seq_len", "16", code=1)
        others = "build: its weights are not those of what it replaces, and the two cannot be compared"
        self.assertIn(f"without_norms: FAILED, first shown by {others}: missing are q_norm.weight [32], extra are none\n",
                      run.stdout)
        self.assertIn(f"biased: FAILED, first shown by {others}: missing are none, extra are bias [256]\n", run.stdout)
        self.assertTrue(run.stdout.endswith("same_FeedForward: passed\n"), run.stdout)

    def test_documents_show_what_plain_positions_hide(self):
        (self.root / "own_types.cpp").write_text(OWN_TYPES)
        run = self.check("own_types.causal", "--seq_len", "16", code=1)
        self.assertRegex(run.stdout, "\ncausal: FAILED, first shown by fp32 batch 1 documents: y: off by ")

    def test_every_kind_of_module_passes_when_it_is_replaced_by_itself(self):
        (self.root / "own_types.cpp").write_text(OWN_TYPES)
        # Inputs of one kind may differ: norms of queries and of keys see other heads, projections other widths.
        kinds = {"RoPE": [4], "RMSNorm": [9, 4, 4], "QKVLinear": [4], "Attention": [4], "FeedForward": [4],
                 "TransformerBlock": [4], "Linear": [8, 8, 8, 4, 1], "Embedding": [1]}
        for kind, places in kinds.items():
            run = self.check(f"own_types.same_{kind}", "--seq_len", "16", "--strict")
            self.assertEqual([int(n) for n in re.findall(rf", {kind} in (\d+) place", run.stdout)], places)
            self.assertEqual(set(self.differences(run.stdout, "fp32")), {"0.0"})

    def test_shapes_says_what_it_has_checked_but_not_at_the_end_of_config(self):
        fit = "Shapes fit, forward and backward: 4 row(s) of 256 tokens, 13 parameters, 1 of 4 layers (the others are configured alike)"
        self.assertEqual(self.run_titan(*MODEL, command="shapes").stdout, fit + "\n")
        cut = self.run_titan(*MODEL, "--parallelism.tensor_parallel_degree", "2", command="shapes")
        self.assertEqual(cut.stdout, fit + ", as the tensor-parallel ranks 0 and 1 see them\n")
        config = self.run_titan(*MODEL, "--override.imports", "my_neuron_kernels", command="config")
        self.assertNotIn("Shapes fit", config.stdout)

    # --- run and trace ---

    def test_a_kernel_of_nkilib_runs_on_given_and_drawn_inputs(self):
        write_safetensors(self.root / "x.safetensors", {"x": ([2, 4], [3, 4, 0, 0, 1, 1, 1, 1])})
        run = self.run_titan("run", "rmsnorm", "--inputs", "x.safetensors", "--shape", "weight=4", "--lnc", "1",
                             "--outputs", "y.safetensors")
        self.assertRegex(run.stdout, r"(?m)^y \[2, 4\] Float, sum \S+, sha256 [0-9a-f]{16}$")
        shape, rstd = read_safetensors(self.root / "y.safetensors")["rstd"]
        self.assertEqual(shape, [2, 1])
        self.assertAlmostEqual(rstd[0], 0.4, places=5)
        self.assertAlmostEqual(rstd[1], 1.0, places=5)

    def test_every_kernel_of_nkilib_runs_on_drawn_inputs_alike_on_one_core_and_two(self):
        listed = re.search(r"Kernels of nkilib: (.*)\.", self.run_titan("run", "--help").stdout)[1].split(", ")
        self.assertIn("rope_hf", listed)
        for kernel in listed:
            outputs = [self.run_titan("run", kernel, "--lnc", lnc).stdout for lnc in "12"]
            rows = [re.findall(r"(?m)^(\w+ \[.*?\] \w+), sum (\S+), sha256 \w+$", output) for output in outputs]
            self.assertTrue(rows[0])
            self.assertEqual([name for name, _ in rows[0]], [name for name, _ in rows[1]])
            for (name, one), (_, two) in zip(*rows):
                # Sums over rows may be added in another order; sums of gradients cancel out.
                self.assertAlmostEqual(float(one), float(two), delta=2e-4 + 1e-5 * abs(float(one)), msg=f"{kernel} {name}")

    def test_an_operator_of_a_module_runs_by_its_name(self):
        words = ["my_kernels::rope_fwd", "--imports", "my_neuron_kernels", "--shape", "query=1,256,4,64",
                 "--shape=key=1,256,2,64", "--shape", "rope_cache=1,256,128"]
        run = self.run_titan("run", *words)
        self.assertIn("output0 [1, 256, 4, 64] Float", run.stdout)
        self.assertEqual(run.stdout, self.run_titan("run", *words, "--lnc", "1").stdout)
        cores = [re.findall(r"(?m)^core \d", self.run_titan("trace", *words, "--lnc", lnc, "--trace", "t.json").stdout)
                 for lnc in "12"]
        self.assertEqual(cores, [["core 0"], ["core 0", "core 1"]])
        self.assertNotEqual(run.stdout, self.run_titan("run", *words, "--seed", "1").stdout)

    def test_a_trace_is_a_timeline_and_a_table_of_engines(self):
        run = self.run_titan("trace", "my_kernels::rope_fwd", "--imports", "my_neuron_kernels", "--shape",
                             "query=1,256,4,64", "--shape", "key=1,256,2,64", "--shape", "rope_cache=1,256,128",
                             "--trace", "rope.json")
        self.assertRegex(run.stdout, r"predicted \d+\.\d+ us")
        self.assertRegex(run.stdout, r"core 1: .*\n  engine .*\n  vector ")
        names = {event["name"] for event in json.loads((self.root / "rope.json").read_text())["traceEvents"]}
        self.assertIn("tensor_tensor", " ".join(names))

    def test_elements_that_no_instruction_writes_are_counted(self):
        (self.root / "holes.cpp").write_text(HOLES)
        for op, dtype, told in (("forward", "Float", "were never written"), ("integers", "Int", "were never written"),
                                ("copies", "Float", "are NaN, or were never written")):
            run = self.run_titan("run", f"holes::{op}", "--imports", "holes", "--shape", "x=3,5")
            told = f"5 of 15 elements {told}, the first at [2, 0]"
            self.assertRegex(run.stdout, rf"(?m)^output0 \[3, 5\] {dtype}, sum \S+, sha256 \w+, {re.escape(told)}$")
            self.assertIn(f"WARNING - output0: {told}\n", run.stderr)
        whole = self.run_titan("run", "holes::forward", "--imports", "holes", "--shape", "x=2,5")
        self.assertRegex(whole.stdout, r"sha256 \w+\n$")
        self.assertNotIn("WARNING", whole.stderr)
        # Operators of the module are what a wrong name is compared with.
        for name in ("holes::forwrd", "holes.forward"):
            wrong = self.run_titan("run", name, "--imports", "holes", code=2).stderr
            self.assertIn("did you mean holes::forward? ", wrong)
            self.assertIn("holes::copies, holes::forward, holes::integers", wrong)
        self.assertTrue(self.run_titan("run", "holes::forward", "--imports", "holes", "--help").stdout.startswith(
            "holes::forward takes\n  x of --shape x=... or --inputs\n\n"))

    def test_results_that_are_no_tensors_are_printed_and_numbers_kept(self):
        (self.root / "holes.cpp").write_text(HOLES)
        run = lambda op, *words: self.run_titan("run", f"holes::{op}", "--imports", "holes", "--shape", "arg0=3,5", *words)
        self.assertRegex(run("list").stdout, r"^output0\.0 \[3, 5\] Float, sum .*\noutput0\.1 \[5\] Float, sum .*\n$")
        others = run("others", "--outputs", "others.safetensors")
        self.assertEqual(others.stdout, "output0 3\noutput1 2.5\noutput2 true\noutput3 none\noutput4 word\n")
        header = json.loads((self.root / "others.safetensors").read_bytes()[8:].split(b"}}")[0] + b"}}")
        self.assertEqual({name: entry["dtype"] for name, entry in header.items() if name != "__metadata__"},
                         {"output0": "I64", "output1": "F64", "output2": "BOOL"})
        self.assertIn("--outputs others.safetensors: output4 is no tensor and no number, and is left out: word", others.stderr)
        self.assertEqual(run("nothing").stdout, "holes::nothing returns nothing\n")

    def test_device_print_works_in_both(self):
        (self.root / "printing.cpp").write_text(
            "#include <titan/kernels.h>\nusing namespace titan;\nnamespace nl = nki::language;\n"
            "namespace nisa = nki::isa;\n"
            "static nki::Tensor twice(nki::Tensor x, double factor) {\n"
            "  const auto tile = nl::ndarray(x.shape(), x.dtype());\n  nisa::dma_copy(tile, x);\n"
            "  nisa::tensor_scalar(tile, tile, nl::multiply, factor);\n  nl::device_print(\"tile\", tile);\n"
            "  const auto y = nl::ndarray(x.shape(), x.dtype(), nl::shared_hbm);\n  nisa::dma_copy(y, tile);\n"
            "  return y;\n}\n"
            "const auto wrapped = wrap_nki(twice);\n"
            "const auto op = nki_op(\"printing::twice\", [](const at::Tensor& x, double factor) {\n"
            "  return wrapped[1](x.contiguous(), factor);\n}, {.arguments = {\"x\", \"factor\"}});\n")
        write_safetensors(self.root / "one.safetensors", {"x": ([1, 2], [1, 2])})
        words = ["printing::twice", "--imports", "printing", "--inputs", "one.safetensors", "--value", "factor=2"]
        printed = r"tile \[core 0\]: sbuf\[1, 2\] float32\n  \[0\] 2 4\n"
        self.assertRegex(self.run_titan("run", *words).stderr, printed)
        self.assertRegex(self.run_titan("trace", *words, "--trace", "t.json").stderr, printed)
        self.assertIn("takes float factor: give --value factor=...", self.run_titan("run", *words[:-2], code=2).stderr)
        wrong = self.run_titan("run", *words[:-1], "factor=two", code=2)
        self.assertIn("--value factor=two: printing::twice takes float there", wrong.stderr)

    def test_wrong_names_and_shapes_say_what_there_is(self):
        self.assertIn("no kernel 'rope'. Of nkilib there are rope_hf, ", self.run_titan("run", "rope", code=2).stderr)
        self.assertIn("no operator 'a::b' is registered", self.run_titan("run", "a::b", code=2).stderr)
        self.assertIn("--shape names y, which rmsnorm does not take",
                      self.run_titan("run", "rmsnorm", "--shape", "y=1", code=2).stderr)
        for shape in ("x=1,b", "x=3,0"):
            self.assertIn("sizes are numbers of 1 and more",
                          self.run_titan("run", "rmsnorm", "--shape", shape, code=2).stderr)
        write_safetensors(self.root / "given.safetensors", {"x": ([2, 4], range(8))})
        self.assertIn("--shape x=3,4: --inputs given.safetensors has x, of [2, 4]; give one of the two",
                      self.run_titan("run", "rmsnorm", "--inputs", "given.safetensors", "--shape", "x=3,4", code=2).stderr)
        self.assertIn("--dtype bf16: did you mean bfloat16?",
                      self.run_titan("run", "rmsnorm", "--dtype", "bf16", code=2).stderr)
        self.assertIn("no kernel 'rmsnrm'; did you mean rmsnorm? Of nkilib there are rope_hf, ",
                      self.run_titan("run", "rmsnrm", code=2).stderr)
        self.assertIn("cross_entropy takes\n  logits [128, 1000], or as --shape and --inputs say\n  targets [128], ",
                      self.run_titan("run", "cross_entropy", "--help").stdout)
        for flag in ("--dtype=bfloat16", "--seed=1"):
            whole = ["run", "rmsnorm", "--inputs", "all.safetensors", "--lnc", "1"]
            write_safetensors(self.root / "all.safetensors", {"x": ([2, 4], range(8)), "weight": ([4], range(4))})
            self.assertEqual(self.run_titan(*whole).stderr, "")
            self.assertIn(f"{flag.replace('=', ' ')}: no input of rmsnorm is drawn",
                          self.run_titan(*whole, flag, code=2).stderr)
        self.assertIn("my_kernels::rope_fwd takes query, rope_cache: give --shape query=N,N,... --shape rope_cache=N,N,..., "
                      "or a file with --inputs", self.run_titan("run", "my_kernels::rope_fwd", "--imports",
                                                                "my_neuron_kernels", "--shape", "key=1,4", code=2).stderr)
        for name in ("rmsnorm", "my_kernels::rope_fwd"):
            self.assertIn("NEURON_LOGICAL_NC_CONFIG must be 1 or 2 (physical NeuronCores of a logical one; 2 when unset), "
                          "got 3", self.run_titan("run", name, code=2, NEURON_LOGICAL_NC_CONFIG="3").stderr)
        self.assertIn("--lnc must be 1 or 2, got 3", self.run_titan("run", "rmsnorm", "--lnc", "3", code=2).stderr)
        self.assertIn("trace", self.run_titan("trace", "rmsnorm", code=2).stderr)
        self.assertIn("rmsnorm takes x [rows, features]",
                      self.run_titan("run", "rmsnorm", "--shape", "x=4,5", code=1).stderr)


if __name__ == "__main__":
    unittest.main()
