#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "titan/base/error.h"
#include "titan/config/fields.h"

/// A small tree of every kind of member, for the tests of this folder.
namespace example {

using titan::Fields;
using titan::Poly;
using titan::Status;

enum class Backend { flex, sdpa };

struct Rope {
  int64_t dim = 0;
  double theta = 1e4;
  void describe(Fields& f) {
    f("dim", dim, "Head dimension");
    f("theta", theta, "Rotary base");
  }
};

struct CosSinRope : Rope {
  void describe(Fields& f) { f.base<Rope>(*this); }
};

struct Kernel {
  /// Has no describe of its own.
  struct PlainConfig : CosSinRope {};
  struct Config : CosSinRope {
    int64_t lnc = 2;
    void describe(Fields& f) {
      f.base<CosSinRope>(*this);
      f("lnc", lnc, "Logical cores");
    }
  };
};

struct Attention {
  int64_t n_heads = 1;
  Backend backend = Backend::flex;
  Poly<Rope> rope = CosSinRope{};
  void describe(auto& f) {
    f("n_heads", n_heads, "Heads");
    f("backend", backend, "flex or sdpa");
    f("rope", rope, "Rotation");
  }
};

struct Block {
  Attention attention;
  void describe(Fields& f) { f("attention", attention, "Attention"); }
};

struct Model {
  int64_t dim = 8;
  std::vector<Poly<Block>> layers = {};
  void describe(Fields& f) {
    f("dim", dim, "Width");
    f("layers", layers, "Blocks");
  }
};

struct Checkpointing {
  bool debug = false;
  void describe(Fields& f) { f("debug", debug, "Talk"); }
};
struct Full : Checkpointing {
  void describe(Fields& f) { f.base<Checkpointing>(*this); }
};
struct Budget : Checkpointing {
  double budget = 0.5;
  void describe(Fields& f) {
    f.base<Checkpointing>(*this);
    f("budget", budget, "Share");
  }
};
struct Recorded : Checkpointing {
  void describe(Fields& f) { f.base<Checkpointing>(*this); }
};

struct Group {
  std::string pattern = ".*";
  double lr = 1e-3;
  void describe(Fields& f) {
    f("pattern", pattern, "Which");
    f("lr", lr, "Rate");
  }
};

struct Training {
  int64_t steps = 10;
  double max_norm = 1.0;
  bool deterministic = false;
  std::optional<int64_t> seed = {};
  std::optional<bool> fused = {};
  std::vector<std::string> components = {"model", "loss"};
  std::vector<int64_t> sizes = {};
  std::vector<double> betas = {0.9, 0.95};
  std::vector<std::vector<std::string>> parts = {};
  int64_t gc_freq = 50;
  int64_t cp = 1;
  void describe(Fields& f) {
    f("steps", steps, "Steps");
    f("max_norm", max_norm, "Clip");
    f("deterministic", deterministic, "Same bits");
    f("seed", seed, "Seed");
    f("fused", fused, "Fused");
    f("components", components, "Parts");
    f("sizes", sizes, "Sizes");
    f("betas", betas, "Moments");
    f("parts", parts, "Lists");
    f("gc_freq", gc_freq, "Collections", Status::no_meaning);
    f("cp", cp, "Context parallel", Status::refused);
  }
  void validate() const {
    if (steps < 1) throw titan::ConfigError("steps must be at least 1, got {}", steps);
  }
};

struct Root {
  std::string name = "run";
  Model model;
  Training training;
  Poly<Checkpointing> checkpointing = Full{};
  Poly<Rope> spare = {};
  std::vector<Group> groups = {};
  void describe(Fields& f) {
    f("name", name, "Name");
    f("model", model, "Model");
    f("training", training, "Training");
    f("checkpointing", checkpointing, "What is kept");
    f("spare", spare, "Nothing");
    f("groups", groups, "Groups");
  }
};

/// A root with two equal layers and a different one.
Root make_root();

}  // namespace example

template <>
inline constexpr auto titan::names<example::Backend> = std::to_array<titan::Named<example::Backend>>(
    {{"flex", example::Backend::flex}, {"sdpa", example::Backend::sdpa}});

template <>
inline constexpr auto titan::alternatives<example::Checkpointing> = std::to_array<titan::Alternative>(
    {{"full", &titan::node_type<example::Full>, "Inputs only"},
     {"budget", &titan::node_type<example::Budget>, "A share"},
     {"recorded", &titan::node_type<example::Recorded>, "", titan::Status::refused}});

namespace example {

inline Root make_root() {
  Root root;
  Block block;
  block.attention.n_heads = 4;
  block.attention.rope = CosSinRope{{.dim = 16, .theta = 1e6}};
  root.model.layers = {block, block};
  block.attention.n_heads = 2;
  root.model.layers.push_back(block);
  return root;
}

}  // namespace example
