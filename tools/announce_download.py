"""Says what pip would fetch for the given arguments where that is large, and how to avoid it.

Usage: announce_download.py PIP_INSTALL_ARGUMENTS...   Fetches nothing but metadata.
"""

import json
import os
import ssl
import subprocess
import sys
import time
import urllib.parse
import urllib.request

LARGE = 500e6  # bytes


def size_of(url):
    """Bytes behind a URL, or 0 where the server does not tell."""
    parts = urllib.parse.urlparse(url)
    if parts.scheme == "file":
        return os.path.getsize(urllib.request.url2pathname(parts.path))
    try:
        context = ssl.create_default_context(cafile=os.environ.get("PIP_CERT"))
        request = urllib.request.Request(url, method="HEAD")
        with urllib.request.urlopen(request, timeout=20, context=context) as response:
            return int(response.headers.get("Content-Length", 0))
    except (OSError, ValueError):
        return 0


def main():
    command = [sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--report", "-", *sys.argv[1:]]
    planned = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if planned.returncode != 0:
        return  # pip itself says more when it installs
    wheels = json.loads(planned.stdout)["install"]
    total = sum(size_of(wheel["download_info"]["url"]) for wheel in wheels)
    if total < LARGE:
        return
    names = " ".join(sorted(wheel["metadata"]["name"] for wheel in wheels))
    print(
        f"setup: pip is about to fetch {total / 1e9:.1f} GB: {names}\n"
        "setup: to avoid it, stop here and use a torch that you have (make TORCH=DIR, or make TORCH=python),\n"
        "setup: or point TITAN_TORCH_INDEX at an index of CPU wheels: PyTorch's 'Get started' page shows its address.",
        flush=True,
    )
    if sys.stdin.isatty():
        time.sleep(10)


if __name__ == "__main__":
    main()
