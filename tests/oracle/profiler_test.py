"""The profiler's schedule is torch.profiler.schedule with the wait that the reference computes."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest
import warnings

from torch.profiler import ProfilerAction, schedule

UNIT = pathlib.Path(os.environ["TITAN_BUILD_DIR"]) / "bin" / "unit_torch"
ACTIONS = [ProfilerAction.NONE, ProfilerAction.WARMUP, ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE]

# profile_freq, warmup, active, and optionally repeat, skip_first, skip_first_wait.
SETTINGS = [
    (10, 3, 1), (5, 3, 1), (4, 3, 1), (1, 0, 1), (3, 0, 3), (6, 0, 2), (7, 2, 3),
    (5, 1, 2, 2), (5, 1, 2, 0), (4, 1, 1, 3, 5), (6, 2, 1, 1, 0, 1), (8, 1, 2, None, 3, 1), (9, 2, 4, 2, 7, 1),
    (4, 2, 2, 1, 1, 1), (10, 1, 1, 2, None, 2),
]
OPTIONAL = ["repeat", "skip_first", "skip_first_wait"]


def fields(setting):
    row = dict(zip(["profile_freq", "profiler_warmup", "profiler_active"], setting))
    row.update({f"profiler_{name}": value for name, value in zip(OPTIONAL, setting[3:]) if value is not None})
    return row


def actions_of_torch(setting):
    freq, warmup, active = setting[:3]
    given = {name: value for name, value in zip(OPTIONAL, setting[3:]) if value is not None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns where there is no warm-up
        of_step = schedule(wait=freq - warmup - active, warmup=warmup, active=active, **given)
    return [ACTIONS.index(of_step(step)) for step in range(60)]


class ProfilerSchedule(unittest.TestCase):
    def test_every_step_has_the_action_that_torch_gives_it(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "schedules.json").write_text(json.dumps([fields(setting) for setting in SETTINGS]))
            done = subprocess.run([UNIT, "--no-skip", "--test-case=schedules pass through"], capture_output=True, text=True,
                                  env=dict(os.environ, TITAN_EXCHANGE_FOLDER=name), timeout=60)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            ours = json.loads((folder / "actions.json").read_text())
        self.assertEqual(len(ours), len(SETTINGS))
        for setting, actions in zip(SETTINGS, ours):
            self.assertEqual(actions, actions_of_torch(setting), setting)
            self.assertTrue(any(actions), "nothing was recorded, so nothing was compared")


if __name__ == "__main__":
    unittest.main()
