"""Modules with kernels: what their namespace scope records is registered, or refused with a message, after the load."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

TITAN = os.environ["TITAN"]
EXAMPLES = Path(os.environ["TITAN_SOURCE_DIR"]) / "examples"
DEMO = ["--module", "qwen3", "--config", "qwen3_demo"]

MODULE = """
#include <titan/ops/nki_op.h>
#include <titan/recipes.h>
using namespace titan;
static const auto copy = nki_op("{name}", [](const at::Tensor& x) {{ return x.clone(); }});
{more}
Override {override}() {{
  return override<CosSinRoPEConfig>({{}}, [](const CosSinRoPEConfig& config) {{ return config; }});
}}
"""

# Every part of a layer, replaced by one with a forward of its own that is made of what it inherits.
PARTS = """
#include <titan/kernels.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/silu.h>
using namespace titan;
using at::Tensor;

template <class Part, class BaseConfig>
struct ConfigOf : BaseConfig {
  void describe(Fields& f) { f.base<BaseConfig>(*this); }
};
template <class Part, class BaseConfig>
static Override replaced(std::vector<std::string> fqns) {
  return override<BaseConfig>({.fqns = std::move(fqns)},
                              [](const BaseConfig& config) { return derive<ConfigOf<Part, BaseConfig>>(config); });
}

struct OwnRoPE : CosSinRoPE {
  using CosSinRoPE::CosSinRoPE;
  static Tensor turn(const Tensor& x, const Tensor& cache) {
    const Tensor halves = at::cat({-x.chunk(2, -1)[1], x.chunk(2, -1)[0]}, -1);
    const std::vector<Tensor> angles = cache.unsqueeze(2).chunk(2, -1);
    return (x * angles[0] + halves * angles[1]).to(x.scalar_type());
  }
  std::pair<Tensor, Tensor> apply_rotary_emb(const Tensor& q, const Tensor& k, const Tensor& cache) const override {
    return {turn(q, cache), turn(k, cache)};
  }
};
struct OwnNorm : RMSNorm {
  using RMSNorm::RMSNorm;
  Tensor forward(const Tensor& x) const override {
    return x * (x.square().mean(-1, true) + 1e-6).rsqrt() * weight.value;
  }
};
struct DetachedNorm : RMSNorm {
  using RMSNorm::RMSNorm;
  Tensor forward(const Tensor& x) const override { return RMSNorm::forward(x).detach(); }
};
struct OwnLinear : Linear {
  using Linear::Linear;
  Tensor forward(const Tensor& x) const override { return at::linear(x, weight.value); }
};
struct OwnEmbedding : Embedding {
  using Embedding::Embedding;
  Tensor forward(const Tensor& ids, at::ScalarType dtype) const override { return 1 * Embedding::forward(ids, dtype); }
};
struct OwnFeedForward : FeedForward {
  using FeedForward::FeedForward;
  Tensor hidden(const Tensor& x) const override { return at::silu(w1_->forward(x)) * w3_->forward(x); }
  Tensor output(const Tensor& hidden) const override { return w2_->forward(hidden); }
};
struct OwnAttention : Attention {
  using Attention::Attention;
  Heads project(const Tensor& x, const LayerContext& context) const override {
    const auto split = [&](const Linear& linear) { return linear.forward(x).unflatten(-1, {-1, config_.head_dim}); };
    const auto [q, k] = rope_->apply_rotary_emb(q_norm_->forward(split(*qkv_linear_->wq)),
                                                k_norm_->forward(split(*qkv_linear_->wk)), context.rope_cache);
    return {q, k, split(*qkv_linear_->wv)};
  }
  Tensor attend(const Heads& heads, const LayerContext& context, const CacheSlot* slot) const override {
    return 1 * Attention::attend(heads, context, slot);
  }
  Tensor output(const Tensor& attended) const override { return wo_->forward(attended); }
};
struct OwnBlock : TransformerBlock {
  using TransformerBlock::TransformerBlock;
  Tensor forward(const Tensor& x, const LayerContext& context, Recompute) const override {
    const Tensor h = x + attend(project(attention_norm_->forward(x), context), context, nullptr);
    return h + output(hidden(ffn_norm_->forward(h)));
  }
};

template <> ModulePtr titan::build(const ConfigOf<OwnRoPE, CosSinRoPEConfig>& c) { return std::make_shared<OwnRoPE>(c); }
template <> ModulePtr titan::build(const ConfigOf<OwnNorm, RMSNormConfig>& c) { return std::make_shared<OwnNorm>(c); }
template <> ModulePtr titan::build(const ConfigOf<DetachedNorm, RMSNormConfig>& c) {
  return std::make_shared<DetachedNorm>(c);
}
template <> ModulePtr titan::build(const ConfigOf<OwnLinear, LinearConfig>& c) { return std::make_shared<OwnLinear>(c); }
template <> ModulePtr titan::build(const ConfigOf<OwnEmbedding, EmbeddingConfig>& c) {
  return std::make_shared<OwnEmbedding>(c);
}
template <> ModulePtr titan::build(const ConfigOf<OwnFeedForward, FeedForwardConfig>& c) {
  return std::make_shared<OwnFeedForward>(c);
}
template <> ModulePtr titan::build(const ConfigOf<OwnAttention, AttentionConfig>& c) {
  return std::make_shared<OwnAttention>(c);
}
template <> ModulePtr titan::build(const ConfigOf<OwnBlock, TransformerBlockConfig>& c) {
  return std::make_shared<OwnBlock>(c);
}

Override rope() { return replaced<OwnRoPE, CosSinRoPEConfig>({"layers.2.*"}); }
Override norm() { return replaced<OwnNorm, RMSNormConfig>({"layers.2.ffn_norm"}); }
Override linear() { return replaced<OwnLinear, LinearConfig>({"layers.2.attention.wo"}); }
Override embedding() { return replaced<OwnEmbedding, EmbeddingConfig>({"tok_embeddings"}); }
Override feed_forward() { return replaced<OwnFeedForward, FeedForwardConfig>({"layers.2.*"}); }
Override attention() { return replaced<OwnAttention, AttentionConfig>({"layers.1.attention"}); }
Override block() { return replaced<OwnBlock, TransformerBlockConfig>({"layers.0"}); }

// These miss what they are for.
Override detached() { return replaced<DetachedNorm, RMSNormConfig>({"layers.3.ffn_norm"}); }
Override astray() { return replaced<OwnNorm, RMSNormConfig>({"layers.9.ffn_norm"}); }
"""


@unittest.skipUnless((Path(TITAN).resolve().parent.parent / "lib" / "libtitan.so").exists(), "built without torch")
class KernelModulesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="titan_kernel_modules."))
        cls.env = {**os.environ, "TITAN_CACHE_DIR": str(cls.folder / "cache")}
        cls.env.pop("NEURON_LOGICAL_NC_CONFIG", None)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def config(self, *words, cwd=None, **env):
        return subprocess.run([TITAN, "config", *DEMO, *words], capture_output=True, text=True, cwd=cwd or self.folder,
                              env={**self.env, **env}, timeout=300)

    def refusal(self, *words, code=2, **options):
        result = self.config(*words, **options)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertNotIn("terminate", result.stderr)
        return result.stderr

    def write(self, module, name, more=""):
        (self.folder / f"{module}.cpp").write_text(MODULE.format(name=name, more=more, override=module))

    def test_the_guides_example_lists_what_it_replaces_and_refuses_a_length(self):
        words = ["--override.imports", "my_neuron_kernels", "--training.seq_len"]
        result = self.config(*words, "512", cwd=EXAMPLES)
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = [line for line in result.stdout.splitlines() if line.startswith("[Override]")]
        replaced = "[Override] nki_rope: model_spec.model.layers.{}.attention.rope CosSinRoPEConfig -> NKIRoPE.Config"
        self.assertEqual(lines, [replaced.format(layer) for layer in range(4)])
        contract = "rope_hf requires a sequence length that is a multiple of 128 * LNC={}, got {}"
        self.assertEqual(self.refusal(*words, "384", cwd=EXAMPLES, code=1).count(contract.format(256, 384)), 1)
        # One physical core a logical one: 384 is a multiple of 128.
        one = self.config(*words, "384", cwd=EXAMPLES, NEURON_LOGICAL_NC_CONFIG="1")
        self.assertEqual(one.returncode, 0, one.stderr)
        message = self.refusal(*words, "384", cwd=EXAMPLES, NEURON_LOGICAL_NC_CONFIG="three")
        for part in ["my_neuron_kernels.cpp", "NEURON_LOGICAL_NC_CONFIG must be 1 or 2", "got three"]:
            self.assertIn(part, message)

    def test_training_with_the_guides_example_gives_the_numbers_of_the_run_without_it(self):
        for device in ["cpu", "neuron"]:
            plain, replaced = self.train(device), self.train(device, "--override.imports", "my_neuron_kernels", replaced=4)
            self.assertEqual(len(plain), 2)
            self.assertEqual(replaced, plain)

    def test_every_part_of_a_layer_can_be_replaced_and_an_override_that_misses_is_warned_of_once(self):
        (self.folder / "parts.cpp").write_text(PARTS)
        parts = ["rope", "norm", "linear", "embedding", "feed_forward", "attention", "block"]
        imports = ",".join(f"parts.{part}" for part in parts)
        steps = self.train("cpu", "--override.imports", imports, cwd=self.folder, replaced=len(parts))
        for step, plain in zip(steps, self.train("cpu"), strict=True):
            for number, expected in zip(step, plain, strict=True):
                self.assertAlmostEqual(float(number), float(expected), delta=2e-4)
        result = self.config("--override.imports", "parts.detached,parts.astray")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count("The loss gives no gradient to layers.3.ffn_norm.weight, nor"), 1, result.stderr)
        check = subprocess.run([TITAN, "kernel", "check", *DEMO, "--override.imports", "parts.astray"], capture_output=True,
                               text=True, cwd=self.folder, env=self.env, timeout=300)
        for text in [result.stderr, check.stderr]:
            self.assertEqual(text.count("[Override] astray: none of the 17 nodes of type RMSNormConfig matches"), 1, text)

    def train(self, device, *words, cwd=EXAMPLES, replaced=0):
        """(loss, gradient norm) of each step as printed; rows hold several documents."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        env = {"TITAN_NEURON_STATE_DIR": str(folder / "state"), "TORCH_NEURONX_NEFF_CACHE_DIR": str(folder / "neff")}
        sizes = ["--training.steps", "2", "--training.seq_len", "256", "--training.local_batch_size", "2"]
        result = subprocess.run(
            [TITAN, "train", *DEMO, *sizes, "--metrics.log_freq", "1", "--training.dtype", "float32", "--device", device,
             "--validator.no-enable", "--checkpoint.no-enable", "--dump_folder", str(folder / "out"), *words],
            capture_output=True, text=True, cwd=cwd, env={**self.env, **env}, timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)
        text = re.sub(r"\x1b\[[0-9;]*m", "", result.stdout + result.stderr)
        self.assertEqual(text.count("[Override] "), replaced)
        return re.findall(r"step: +\d+ +loss: +(\S+) +grad_norm: +(\S+)", text)

    def test_operators_that_cannot_be_registered_are_named_with_their_module(self):
        self.write("first", "my_kernels::copy")
        again = 'static const auto again = nki_op("my_kernels::copy", [](const at::Tensor& x) { return x.clone(); });'
        self.write("second", "aten::copy", again)
        self.assertEqual(self.config("--override.imports", "first").returncode, 0)
        message = self.refusal("--override.imports", "first,second")
        for part in ["second.cpp: nki_op aten::copy: the namespace aten is torch's",
                     "second.cpp: nki_op my_kernels::copy: an operator of that name is there already, registered by ",
                     "first.cpp"]:
            self.assertIn(part, message)

    def test_an_operator_that_is_called_at_namespace_scope_ends_with_a_message(self):
        self.write("early", "my_kernels::early", "static const at::Tensor none = copy(at::Tensor());")
        message = self.refusal("--override.imports", "early", code=1)
        self.assertIn("my_kernels::early is called before it is registered", message)


if __name__ == "__main__":
    unittest.main()
