"""Compiles every header of titan/ and apps/ alone: `check_headers.py BUILD_DIR [NAME_PART]`.

A header that needs no torch is compiled without torch's include path, which proves that it needs none. Objects go
through ccache where it is found, so that unchanged headers cost nothing.
"""

import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import check_layering

ROOT = Path(__file__).resolve().parent.parent


def cache_value(build_dir, name):
    """A variable's value in CMakeCache.txt, or ""."""
    match = re.search(rf"^{name}:\w+=(.*)$", (build_dir / "CMakeCache.txt").read_text(), re.M)
    return match[1] if match else ""


def torch_flags(build_dir):
    commands = (build_dir / "build.ninja").read_text()
    folders = re.findall(r"-isystem (\S+/torch/include\S*|\S+/include/torch/csrc/api/include)", commands)
    return [flag for folder in sorted(set(folders)) for flag in ("-isystem", folder)] + ["-DAT_PER_OPERATOR_HEADERS", "-fopenmp"]


def compile_header(header, compiler, flags, folder):
    name = header.replace("/", "_")
    source = folder / f"{name}.cpp"
    text = f'#include "{header}"\n#include "{header}"\n'
    if not source.exists() or source.read_text() != text:
        source.write_text(text)
    command = [*compiler, "-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wno-missing-field-initializers",
               "-Werror", f"-I{ROOT}", *flags, "-c", str(source), "-o", str(folder / f"{name}.o")]
    done = subprocess.run(command, capture_output=True, text=True)
    return header, done.returncode, done.stderr


def main():
    build_dir = Path(sys.argv[1]).resolve()
    part = sys.argv[2] if len(sys.argv) > 2 else ""
    compiler = [cache_value(build_dir, "CMAKE_CXX_COMPILER") or "c++"]
    if shutil.which("ccache"):
        compiler.insert(0, "ccache")
    folder = build_dir / "headers"
    folder.mkdir(exist_ok=True)
    paths = [file.relative_to(ROOT).as_posix() for top in ("titan", "apps") for file in sorted((ROOT / top).rglob("*.h"))]
    includes = {path: check_layering.includes_of((ROOT / path).read_text()) for path in paths}
    with_torch = torch_flags(build_dir)
    failed, count = 0, 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        tasks = []
        for path in paths:
            if part in path:
                needs = check_layering.chain_to(check_layering.TORCH, path, includes, {path})
                tasks.append(pool.submit(compile_header, path, compiler, with_torch if needs else [], folder))
        for task in tasks:
            header, code, message = task.result()
            count += 1
            if code != 0:
                failed += 1
                print(f"{header} does not compile alone:\n{message}")
    print(f"headers: {count} compiled, {failed} failed")
    sys.exit(1 if failed or not count else 0)


if __name__ == "__main__":
    main()
