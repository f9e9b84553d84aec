"""TensorBoard's own reader finds every tag and number of a run in the event file that titan wrote."""

import json
import os
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

TITAN = os.environ["TITAN"]

# torchtitan's tags, components/metrics.py and lr_scheduler.
TAGS = {
    "loss_metrics/global_avg_loss", "loss_metrics/global_max_loss", "grad_norm", "throughput(tps)", "tflops", "mfu(%)",
    "time_metrics/end_to_end(s)", "time_metrics/data_loading(s)", "time_metrics/data_loading(%)",
    "memory/max_active(GiB)", "memory/max_active(%)", "memory/max_reserved(GiB)", "memory/max_reserved(%)",
    "memory/num_alloc_retries", "memory/num_ooms", "n_tokens_seen", "lr/AdamW",
    "validation_metrics/loss", "validation_metrics/throughput(tps)", "validation_metrics/memory/max_active(GiB)",
    "validation_metrics/memory/max_active(%)", "validation_metrics/memory/max_reserved(GiB)",
    "validation_metrics/memory/max_reserved(%)",
}
STEPS = [1, 2, 4]  # step 1 and the multiples of log_freq = 2
VALIDATED = [1, 4]


def as_float32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


class TensorBoard(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        out = Path(cls.folder.name)
        subprocess.run([TITAN, "train", "--module", "qwen3", "--config", "qwen3_demo", "--training.steps", "4",
                        "--training.seq_len", "32", "--metrics.log_freq", "2", "--metrics.enable_tensorboard",
                        "--metrics.enable_jsonl", "--validator.enable", "--validator.freq", "4", "--validator.steps", "1",
                        "--checkpoint.no_enable", "--dump_folder", str(out)], check=True, timeout=120)
        (cls.events,) = out.glob("tb/????????-????/events.out.tfevents.*")
        cls.reader = EventAccumulator(str(cls.events))
        cls.reader.Reload()
        cls.lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_the_tags_are_the_references(self):
        self.assertEqual(set(self.reader.Tags()["scalars"]), TAGS)

    def test_steps_and_numbers_are_those_of_the_json_lines(self):
        for tag in TAGS:
            expected = [(line["step"], as_float32(line[tag])) for line in self.lines if tag in line]
            self.assertEqual([step for step, _ in expected], VALIDATED if "validation" in tag else STEPS, tag)
            self.assertEqual([(event.step, event.value) for event in self.reader.Scalars(tag)], expected, tag)

    def test_wall_times_rise(self):
        times = [event.wall_time for event in self.reader.Scalars("grad_norm")]
        self.assertEqual(times, sorted(times))
        self.assertAlmostEqual(times[0], self.lines[0]["time"], delta=60)

    def test_a_flipped_bit_is_noticed_by_the_reader(self):
        """The checksums are real: with one bit of the last record (a validation) changed the reader drops it."""
        damaged = Path(self.folder.name) / "damaged" / self.events.name
        damaged.parent.mkdir()
        content = bytearray(self.events.read_bytes())
        content[-20] ^= 1
        damaged.write_bytes(content)
        reader = EventAccumulator(str(damaged))
        reader.Reload()
        self.assertEqual([e.step for e in reader.Scalars("validation_metrics/loss")], VALIDATED[:-1])
        self.assertEqual([e.step for e in reader.Scalars("lr/AdamW")], STEPS)


if __name__ == "__main__":
    unittest.main()
