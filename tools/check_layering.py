"""Checks the architecture's rules on the sources: `check_layering.py [ROOT]` prints what breaks them, exit code 1.

- Includes go one way (the order in ALLOWED).
- torch/torch.h, torch/nn* and ATen/ATen.h nowhere; heavy headers only in the files listed here.
- *_config.h and everything that libtitan_core.so holds include nothing of torch, directly or through our headers.
- nlohmann/json only in titan/base/json.cpp.
- No file over 600 lines.
- train/ names no model, models/ does not name the trainer.
"""

import re
import sys
from pathlib import Path

MAX_LINES = 600

# Layer -> the layers it may include besides itself.
BASE = {"base"}
CONFIG = BASE | {"config"}
NKI = CONFIG | {"nki"}
NKILIB = NKI | {"nkilib"}
OPS = NKILIB | {"ops"}
NN = OPS | {"nn"}
DISTRIBUTED = NN | {"distributed"}
ALLOWED = {
    "base": set(),
    "config": BASE,
    "launch": CONFIG | {"neuron/rt"},  # how many cores the emulated machine has
    "nki": CONFIG,
    "nkilib": NKI,
    "ops": NKILIB,
    "nn": OPS,
    "distributed": NN,
    "models": DISTRIBUTED,
    "checkpoint": DISTRIBUTED,
    "data": DISTRIBUTED,
    "train": DISTRIBUTED | {"models", "checkpoint", "data"},
    "recipes": DISTRIBUTED | {"models", "checkpoint", "data", "train"},
    "neuron/rt": BASE,
    "neuron/torch": BASE | {"neuron/rt"},
}
TORCH_FREE_LAYERS = tuple(
    f"titan/{layer}/" for layer in ("base", "config", "launch", "data", "recipes", "nki", "nkilib", "neuron/rt")
)
TORCH_FREE_FILES = re.compile(r"_config\.(h|cpp)$|^apps/titan/(main\.cpp|commands\.h|commands/)|^titan/recipes\.h$")

FORBIDDEN = re.compile(r"^(torch/torch\.h|torch/nn.*|torch/csrc/api/include/torch/(torch\.h|nn.*)|ATen/ATen\.h)$")
HEAVY = re.compile(r"^(torch/library\.h|torch/csrc/.*|torch/extension\.h|c10d/.*|ATen/Functions\.h)$")
# Files (regular expressions on the path from the root) that may include heavy headers.
HEAVY_ALLOWED = re.compile(
    r"^titan/ops/\w+\.cpp$"  # TORCH_LIBRARY blocks of our operators and the one way to define a backward
    r"|^titan/ops/operator\.h$"  # what those blocks share
    r"|^titan/distributed/\w+\.cpp$"
    r"|^titan/train/profiler\.cpp$"
    r"|^apps/titan/torch_commands/store_command\.cpp$"
    r"|^titan/neuron/torch/\w+\.cpp$"
    r"|^bench/neuron_ops_main\.cpp$"  # fifty operators
)

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
TORCH = re.compile(r"^(ATen|torch|c10|caffe2)/")


def layer_of(path):
    """"titan/neuron/rt/x.h" -> "neuron/rt"; "" for a file that belongs to no layer."""
    parts = path.split("/")
    if parts[0] != "titan" or len(parts) < 3:
        return ""
    return "/".join(parts[1:3]) if parts[1] == "neuron" else parts[1]


def is_torch_free(path):
    return path.startswith(TORCH_FREE_LAYERS) or bool(TORCH_FREE_FILES.search(path))


def includes_of(text):
    """(line number, header) of each include."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            found.append((number, match[1] or match[2]))
    return found


def check_include(path, header):
    """What is wrong with `path` including `header`, or ""."""
    if FORBIDDEN.match(header):
        return f"includes {header}; include <ATen/core/Tensor.h> and <ATen/ops/NAME.h> instead"
    if HEAVY.match(header) and not path.startswith("tests/") and not HEAVY_ALLOWED.match(path):
        return f"includes the heavy header {header}; see HEAVY_ALLOWED in tools/check_layering.py"
    if header.startswith("nlohmann/") and path != "titan/base/json.cpp":
        return f"includes {header}; only titan/base/json.cpp may"
    if not header.startswith("titan/"):
        return "includes a program's header" if header.startswith("apps/") and path.startswith("titan/") else ""
    source, target = layer_of(path), layer_of(header)
    if not source:
        return ""
    if source not in ALLOWED:
        return f"is in the unknown layer {source}; add it to ALLOWED in tools/check_layering.py"
    if target and target != source and target not in ALLOWED[source]:
        return f"includes {header}: layer {source} must not include layer {target}"
    return ""


def chain_to(pattern, path, includes, seen):
    """The chain of headers by which `path` reaches a header that matches `pattern`, or []. `seen` gathers the visited."""
    for _, header in includes.get(path, []):
        if pattern.match(header):
            return [path, header]
        if header in includes and header not in seen:
            seen.add(header)
            chain = chain_to(pattern, header, includes, seen)
            if chain:
                return [path, *chain]
    return []


def check_reach(path, includes):
    """What `path` must not reach through our own headers."""
    problems = []
    chain = chain_to(TORCH, path, includes, {path}) if is_torch_free(path) else []
    if chain:
        problems.append(f"{path}: must do without torch, but reaches it: {' -> '.join(chain)}")
    free = path.startswith("tests/") or HEAVY_ALLOWED.match(path)
    chain = [] if free else chain_to(HEAVY, path, includes, {path})
    if len(chain) > 2:
        problems.append(f"{path}: reaches a heavy header: {' -> '.join(chain)}")
    return problems


def check_text(path, text):
    problems = []
    lines = text.count("\n")
    if lines > MAX_LINES:
        problems.append(f"{path}: {lines} lines; at most {MAX_LINES}")
    if path.endswith(".h") and "#pragma once" not in text:
        problems.append(f"{path}: no #pragma once")
    if re.search(r"^\s*using namespace", text, re.M) and path.endswith(".h"):
        problems.append(f"{path}: a using-directive in a header")
    if path.startswith("titan/train/") and re.search(r"titan/models/(?!common/)\w+/", text):
        problems.append(f"{path}: train/ must not name a model")
    return problems


def check_tree(root):
    files = [
        file.relative_to(root).as_posix()
        for folder in ("titan", "apps", "tests", "bench", "examples")
        for file in sorted((root / folder).rglob("*"))
        if file.suffix in (".h", ".cpp", ".inc", ".py")
    ]
    files += [file.relative_to(root).as_posix() for file in sorted((root / "tools").glob("*.py"))]
    texts = {path: (root / path).read_text(encoding="utf-8") for path in files}
    includes = {path: includes_of(text) for path, text in texts.items() if not path.endswith(".py")}
    problems = []
    for path, text in texts.items():
        problems += check_text(path, text)
        for number, header in includes.get(path, []):
            problem = check_include(path, header)
            if problem:
                problems.append(f"{path}:{number}: {problem}")
        problems += check_reach(path, includes)
    return problems, len(files)


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent)
    problems, count = check_tree(root)
    for problem in problems:
        print(problem)
    if count == 0:
        sys.exit(f"no sources under {root}")
    print(f"layering: {count} files, {len(problems)} problems")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
