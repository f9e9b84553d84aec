"""docs/status.md says what the program is."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

SOURCE = Path(os.environ["TITAN_SOURCE_DIR"])


class Status(unittest.TestCase):
    def test_the_document_is_up_to_date(self):
        made = subprocess.run(
            [sys.executable, SOURCE / "tools/make_status.py", os.environ["TITAN"], "--check"],
            capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stderr)


if __name__ == "__main__":
    unittest.main()
