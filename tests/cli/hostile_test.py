"""What an unlucky user does: each gets one message, an exit code that is not 0, and keeps what was there."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

TITAN = os.environ["TITAN"]
TOKENIZER = Path(os.environ["TITAN_SOURCE_DIR"]) / "tests/assets/tokenizer"
TINY = ["--module", "qwen3", "--config", "qwen3_demo", "--training.steps", "1", "--training.seq_len", "16",
        "--training.local_batch_size", "1", "--validator.no_enable"]


class Hostile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp())
        subprocess.run([TITAN, "train", *TINY, "--dump_folder", cls.folder], check=True, capture_output=True)
        cls.assets = cls.folder / "checkpoint/step-1"

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def refused(self, code, *words, command, **options):
        done = subprocess.run([TITAN, *map(str, command)], capture_output=True, text=True, timeout=60, **options)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stderr.count("titan: error: "), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def with_config(self, **changes):
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        for file in self.assets.iterdir():
            shutil.copy(file, folder)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, **changes}))
        return folder

    def test_sizes_that_no_machine_has(self):
        for field, value in (("hidden_size", 2**62), ("vocab_size", 2**50), ("num_hidden_layers", 10**7)):
            command = ["generate", "--assets", self.with_config(**{field: value}), "--prompt", "hi"]
            self.refused(1, "config.json", field, str(value), command=command)
        self.refused(2, "training.local_batch_size", command=["train", *TINY, "--training.local_batch_size", 2**63 - 1])
        self.refused(2, "dataloader.lanes", command=["train", *TINY, "--dataloader.lanes", 10**9])
        self.refused(2, "dataloader.prefetch_factor", command=["config", *TINY, "--dataloader.prefetch_factor", 10**9])
        self.refused(2, "lr must be", command=["config", *TINY, "--optimizer.param_groups.0.optimizer_kwargs.lr", "inf"])

    def test_sizes_that_contradict_one_another(self):
        for changes, word in (({"num_key_value_heads": 3}, "no multiple"), ({"head_dim": 15}, "is odd"),
                              ({"rms_norm_eps": -1}, "rms_norm_eps"), ({"rms_norm_eps": 0}, "rms_norm_eps")):
            command = ["generate", "--assets", self.with_config(**changes), "--prompt", "hi"]
            self.refused(1, "config.json", word, command=command)

    def test_a_pipe_in_place_of_weights_does_not_hang(self):
        folder = self.with_config()
        (folder / "model.safetensors").unlink()
        os.mkfifo(folder / "model.safetensors")
        self.refused(1, "no regular file", command=["generate", "--assets", folder, "--prompt", "hi"])

    def test_forward_overwrites_neither_its_input_nor_a_device(self):
        from safetensors.torch import save_file
        import torch
        source = self.folder / "in.safetensors"
        save_file({"input_ids": torch.zeros(1, 4, dtype=torch.int64)}, source)
        before = source.read_bytes()
        base = ["forward", "--assets", self.assets, "--in", source, "--out"]
        self.refused(2, "--out", command=[*base, source])
        self.refused(1, "no regular file", command=[*base, "/dev/null"])
        self.assertEqual(source.read_bytes(), before)
        self.assertTrue(Path("/dev/null").is_char_device())

    def test_weights_that_are_not_finite_are_said(self):
        from safetensors.torch import load_file, save_file
        folder = self.with_config()
        weights = load_file(folder / "model.safetensors")
        weights["model.norm.weight"][0] = float("nan")
        save_file(weights, folder / "model.safetensors")
        self.refused(1, "not finite", command=["generate", "--assets", folder, "--prompt", "hi"])

    def test_output_that_cannot_be_written_is_an_error(self):
        for command in (["--help"], ["generate", "--assets", self.assets, "--prompt", "hi", "--max-new-tokens", "3"],
                        ["config", *TINY]):
            with open("/dev/full", "w") as full:
                done = subprocess.run([TITAN, *command], stdout=full, stderr=subprocess.PIPE, timeout=60)
            self.assertEqual(done.returncode, 1, command)

    def test_closed_standard_input(self):
        for command in (["tokenize", "--assets", self.assets], ["generate", "--assets", self.assets, "--prompt", "-"]):
            done = subprocess.run(["sh", "-c", 'exec "$@" <&-', "sh", TITAN, *map(str, command)], capture_output=True,
                                  text=True, timeout=60)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("titan: error: ", done.stderr)

    def test_a_module_that_throws_what_is_no_exception(self):
        (self.folder / "odd.cpp").write_text("#include <titan/recipes.h>\ntitan::TrainerConfig b() { throw 5; }\n")
        self.refused(1, command=["config", "--module", "odd", "--config", "b"], cwd=self.folder)

    def test_files_that_are_not_there(self):
        self.refused(2, "hf_assets_path", command=["train", *TINY, "--hf_assets_path", self.folder / "nowhere"])
        self.refused(2, "--config", command=["config", "--config", self.folder / "nowhere.json"])
        (self.folder / "bad.json").write_text("{")
        self.refused(2, "--config", command=["config", "--config", self.folder / "bad.json"])

    def test_every_command_on_torch_obeys_the_number_of_threads(self):
        nonsense = {**os.environ, "TITAN_NUM_THREADS": "zero"}
        self.refused(2, "TITAN_NUM_THREADS", command=["generate", "--assets", self.assets, "--prompt", "x"], env=nonsense)
        self.refused(2, "TITAN_NUM_THREADS", command=["train", *TINY], env=nonsense)

    def test_a_run_that_is_complete_says_so(self):
        done = subprocess.run([TITAN, "train", *TINY, "--dump_folder", self.folder], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("nothing is left to train", done.stderr)


if __name__ == "__main__":
    unittest.main()
