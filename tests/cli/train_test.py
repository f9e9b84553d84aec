"""`titan train` end to end: its log, its files, what it refuses and with which exit code, and that it repeats itself."""

import json
import os
import pty
import re
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

TITAN = os.environ["TITAN"]
SOURCE = Path(os.environ["TITAN_SOURCE_DIR"])
ASSETS = SOURCE / "tests" / "assets"

# A model of a few thousand weights, so that a run takes seconds and most of them are start-up.
TINY = ["--training.steps", "3", "--training.seq_len", "32", "--training.local_batch_size", "2",
        "--metrics.log_freq", "1", "--metrics.disable_color_printing", "--checkpoint.no_enable", "--validator.no_enable"]


def run(*args, module="qwen3", config="qwen3_demo", cwd=None, env=None, timeout=120):
    command = [TITAN, "train", "--module", module, "--config", config, *map(str, args)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, **(env or {})})


def messages(stderr):
    """(level, text) of every log line; anything else is left out."""
    prefix = re.compile(r"\[titan\] \d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - root - (INFO|WARNING|ERROR) - (.*)")
    return [match.groups() for match in map(prefix.fullmatch, stderr.splitlines()) if match]


def patterns():
    lines = (ASSETS / "log" / "patterns.txt").read_text().splitlines()
    return {name: re.compile(pattern) for name, pattern in (line.split("\t", 1) for line in lines)}


def without_colors(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def files_of(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(Path(folder).rglob("*")) if p.is_file()}


class TrainCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.out = Path(self.folder.name) / "out"

    def tearDown(self):
        self.folder.cleanup()

    def train(self, *args, **options):
        return run(*TINY, "--dump_folder", self.out, *args, **options)

    def succeeds(self, *args, **options):
        result = self.train(*args, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def refused(self, code, *words, args=(), **options):
        """One message that holds every word, the exit code, and no step."""
        result = self.train(*args, **options)
        self.assertEqual(result.returncode, code, result.stderr)
        errors = [line for line in result.stderr.splitlines() if line.startswith("titan: error: ")]
        self.assertEqual(len(errors), 1, result.stderr)
        message = result.stderr[result.stderr.index("titan: error: "):]
        for word in words:
            self.assertIn(word, message)
        self.assertNotIn("Training starts", result.stderr)
        return result


class Log(TrainCase):
    def test_every_line_of_the_reference_is_there_and_reads_alike(self):
        result = self.succeeds("--metrics.enable_tensorboard", "--validator.enable", "--validator.freq", "2",
                               "--validator.steps", "1", "--checkpoint.enable", "--activation_checkpoint", "selective",
                               "--metrics.no_disable_color_printing")
        texts = [without_colors(text) for _, text in messages(result.stderr)]
        reference = [without_colors(line) for line in (ASSETS / "log" / "reference_lines.txt").read_text().splitlines()]
        known = patterns()
        prefix = known.pop("prefix")
        reference = [prefix.search(line).group(2) for line in reference]
        for name, pattern in known.items():
            self.assertTrue(any(map(pattern.fullmatch, reference)), f"{name} reads no line of the reference")
            self.assertTrue(any(map(pattern.fullmatch, texts)), f"{name} reads none of: " + "\n".join(texts))

    def test_the_banner_has_the_references_order(self):
        result = self.succeeds("--metrics.enable_tensorboard", "--checkpoint.enable", "--checkpoint.load_only",
                               "--checkpoint.no_last_save_in_hf")
        texts = [text for _, text in messages(result.stderr)]
        self.assertTrue(texts[0].startswith("titan version: "), texts[0])
        order = ["titan version: ", "Building device mesh", "Successfully created meshes", "Building qwen3 demo",
                 "TensorBoard logging enabled", "CPU capacity: ", "Model qwen3 demo size: ", "Peak FLOPS used",
                 "CPU memory usage for model: ", "Optimizer AdamW", "Loading tokenizer from tokenizer.json",
                 "Preparing c4_test dataset from ", "Checkpointing active.", "Trainer is initialized with ",
                 "No checkpoint was provided", "Training starts at step 1", "step:  1", "step:  3",
                 "Training completed"]
        at = -1
        for start in order:
            found = [i for i, text in enumerate(texts) if text.startswith(start)]
            self.assertTrue(found, f"no line begins with {start!r}: " + "\n".join(texts))
            self.assertGreater(found[0], at, start)
            at = found[0]
        self.assertEqual(texts[-1], "Training completed")

    def test_mask_and_seed_are_said(self):
        result = self.succeeds("--attention.mask", "causal", "--debug.seed", "none")
        self.assertIn("Attention mask: causal; torchtitan's attn_backend", result.stderr)
        seed = re.search(r"Seed: (\d+) \(drawn; --debug\.seed repeats it\)", result.stderr)
        again = self.succeeds("--attention.mask", "causal", "--debug.seed", seed.group(1))
        steps = [re.findall(r"loss:\s+(\S+)  grad_norm:\s+(\S+)", r.stderr) for r in (result, again)]
        self.assertEqual(len(steps[0]), 3)
        self.assertEqual(*steps)

    def test_colors_are_on_unless_disabled(self):
        self.assertIn("\x1b[31mstep:", self.succeeds("--metrics.no_disable_color_printing").stderr)
        self.assertNotIn("\x1b[", self.succeeds().stderr)

    def test_the_first_line_comes_within_a_second_and_the_first_step_within_five(self):
        # Seconds of the processor on one thread: on a busy machine they stay what they are on an idle one.
        to_first_line, lines = self.processor_seconds("--training.stepz", "1")
        self.assertIn("titan version:", lines[0])
        self.assertLess(to_first_line, 1)
        to_first_step, lines = self.processor_seconds("--training.steps", "1")
        self.assertIn("step:  1", "".join(lines))
        self.assertLess(to_first_step, 5)

    def processor_seconds(self, *args):
        command = [TITAN, "train", "--module", "qwen3", "--config", "qwen3_demo", "--dump_folder", str(self.out),
                   "--checkpoint.no_enable", *args]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, "TITAN_NUM_THREADS": "1"})
        lines = process.stderr.readlines()
        process.stderr.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return usage.ru_utime + usage.ru_stime, lines


class Progress(TrainCase):
    def test_rate_and_time_left_are_shown_to_a_terminal_only(self):
        reader, writer = pty.openpty()
        command = [TITAN, "train", "--module", "qwen3", "--config", "qwen3_demo", *TINY, "--dump_folder", str(self.out)]
        process = subprocess.Popen(command, stderr=writer, stdout=subprocess.DEVNULL)
        os.close(writer)
        shown = b""
        try:
            while chunk := os.read(reader, 4096):
                shown += chunk
        except OSError:  # how a terminal says that its other end is closed
            pass
        os.close(reader)
        self.assertEqual(process.wait(60), 0)
        self.assertRegex(shown.decode(), r"1/3 33% \d+(\.\d+)?/s \w+ left\r")
        self.assertNotRegex(self.succeeds().stderr, r"/s \w+ left")


class Files(TrainCase):
    def test_tensorboard_and_json_lines_hold_every_logged_step(self):
        self.succeeds("--metrics.enable_jsonl", "--metrics.enable_tensorboard", "--metrics.save_tb_folder", "board")
        lines = [json.loads(line) for line in (self.out / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual([line["step"] for line in lines], [1, 2, 3])
        self.assertEqual([line["n_tokens_seen"] for line in lines], [64, 128, 192])
        self.assertEqual(len(list(self.out.glob("board/????????-????/events.out.tfevents.*"))), 1)

    def test_save_config_file_can_be_trained_again(self):
        self.succeeds("--debug.save_config_file", "run/config.json", "--debug.print_config")
        saved = self.out / "run" / "config.json"
        self.assertEqual(json.loads(saved.read_text())["training"]["steps"], 3)
        result = subprocess.run([TITAN, "train", "--config", str(saved), "--dump_folder", str(self.out / "again")],
                                capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("Training completed", result.stderr)
        self.assertIn("Running with configs: {", result.stderr)

    def test_two_runs_are_bit_equal(self):
        outputs = []
        for name in ("a", "b"):
            result = self.train("--dump_folder", self.out / name, "--checkpoint.enable", "--debug.seed", 7,
                                "--training.global_batch_size", "4")
            self.assertEqual(result.returncode, 0, result.stderr)
            outputs.append(files_of(self.out / name / "checkpoint"))
        self.assertTrue(any(name.endswith(".safetensors") for name in outputs[0]), outputs[0].keys())
        self.assertEqual(outputs[0], outputs[1])

    def test_logging_and_validating_more_often_changes_no_weight(self):
        weights = []
        for freq in ("1", "3"):
            self.succeeds("--dump_folder", self.out / freq, "--checkpoint.enable", "--metrics.log_freq", freq,
                          *(["--validator.enable", "--validator.freq", "1", "--validator.steps", "1",
                             "--metrics.enable_tensorboard"] if freq == "1" else []))
            weights.append(files_of(self.out / freq / "checkpoint"))
        self.assertEqual(weights[0], weights[1])

    def test_validation_gives_the_same_loss_for_the_same_weights(self):
        result = self.succeeds("--validator.enable", "--validator.freq", "1", "--validator.steps", "2",
                               "--optimizer.param_groups.0.optimizer_kwargs.lr", "0")
        losses = re.findall(r"validate step: +\d+  loss: +(\S+)", result.stderr)
        self.assertEqual(len(losses), 3)
        self.assertEqual(len(set(losses)), 1)

    def test_accumulation_takes_the_same_step_as_one_large_batch(self):
        runs = []
        for local in ("2", "4"):
            result = self.succeeds("--training.local_batch_size", local, "--training.global_batch_size", "4",
                                   "--dump_folder", self.out / local)
            runs.append([(float(a), float(b)) for a, b in
                         re.findall(r"loss:\s+(\S+)  grad_norm:\s+(\S+)", result.stderr)])
        self.assertEqual(len(runs[0]), 3)
        for (loss_a, norm_a), (loss_b, norm_b) in zip(*runs):
            self.assertAlmostEqual(loss_a, loss_b, delta=2e-5)  # printed with five digits
            self.assertAlmostEqual(norm_a, norm_b, delta=1e-3)


class Data(TrainCase):
    def jsonl(self, name, lines):
        path = Path(self.folder.name) / name
        path.write_text("".join(lines))
        return path

    def test_the_end_of_the_data_cancels_the_step_and_keeps_the_weights(self):
        text = json.dumps({"text": "In the beginning " * 40}) + "\n"
        data = self.jsonl("short.jsonl", [text] * 8)
        result = self.succeeds("--training.steps", "1000", "--dataloader.dataset_path", data,
                               "--dataloader.no_infinite", "--checkpoint.enable", "--checkpoint.interval", "1000")
        levels = [level for level, text in messages(result.stderr) if text.startswith("Ran out of data")]
        self.assertEqual(levels, ["WARNING"])
        self.assertIn("Ran out of data; last step was canceled.", result.stderr)
        self.assertIn("Training completed", result.stderr)
        last = re.findall(r" step: +(\d+) ", result.stderr)[-1]
        self.assertTrue((self.out / "checkpoint" / f"step-{last}" / "model.safetensors.index.json").exists())

    def test_data_for_less_than_one_step_is_padded_once(self):
        data = self.jsonl("one.jsonl", [json.dumps({"text": "In the beginning God created"}) + "\n"])
        result = self.succeeds("--training.global_batch_size", "512", "--dataloader.dataset_path", data,
                               "--dataloader.no_infinite")
        self.assertEqual(len(re.findall(r" step: +1 ", result.stderr)), 1, result.stderr)
        self.assertIn("Ran out of data; last step was canceled.", result.stderr)

    def test_empty_data_is_an_error(self):
        self.refused(1, "empty.jsonl", args=["--dataloader.dataset_path", self.jsonl("empty.jsonl", [])])

    def test_documents_without_text_are_an_error(self):
        data = self.jsonl("hollow.jsonl", ['{"text": ""}\n'] * 4)
        result = self.train("--dataloader.dataset_path", data)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("titan: error: ", result.stderr)

    def test_a_broken_line_names_file_and_line(self):
        data = self.jsonl("broken.jsonl", ['{"text": "one"}\n', '{"text": "two}\n'])
        self.refused(1, "broken.jsonl", "2", args=["--dataloader.dataset_path", data])


class Refusals(TrainCase):
    def test_unknown_names_offer_the_nearest(self):
        self.refused(2, "'qwenn3'", module="qwenn3")
        self.refused(2, "'qwen3_dmo'", "qwen3_demo", config="qwen3_dmo")
        self.refused(2, "--training.stepz", "--training.steps", args=["--training.stepz", "3"])

    def test_an_unknown_flavor_lists_those_there_are(self):
        module = Path(self.folder.name) / "mine.cpp"
        module.write_text("#include <titan/recipes.h>\nusing namespace titan;\n"
                          'TrainerConfig mine() { TrainerConfig c; c.model_spec = qwen3::model_registry("5B");'
                          " return c; }\n")
        result = run(module="mine", config="mine", cwd=self.folder.name)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("5B", result.stderr)
        self.assertIn("4B", result.stderr)

    def test_missing_module_or_config(self):
        for args in (["--config", "qwen3_demo"], ["--module", "qwen3"], []):
            result = subprocess.run([TITAN, "train", *args], capture_output=True, text=True, timeout=60)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn("--module" if "--module" not in args else "--config", result.stderr)

    def test_wrong_types(self):
        self.refused(2, "--training.steps", "ten", args=["--training.steps", "ten"])
        self.refused(2, "--debug.deterministic", args=["--debug.deterministic=maybe"])
        self.refused(2, "lr_scheduler.decay_type", "cubic", args=["--lr_scheduler.decay_type", "cubic"])
        self.refused(2, "training.steps", args=["--training.steps", "0"])

    def test_a_sequence_longer_than_the_model(self):
        self.refused(2, "training.seq_len", "50000", args=["--training.seq_len", "50000"])

    def test_a_batch_that_does_not_divide(self):
        self.refused(2, "global batch size must be multiple of local batch size times data-parallel degree",
                     "(5 % (2 * 1) != 0)", args=["--training.global_batch_size", "5"])

    def test_a_tokenizer_larger_than_the_model(self):
        self.refused(2, "hf_assets_path", "2048", "1000",
                     args=["--model_spec.model.vocab_size", "1000",
                           "--model_spec.model.tok_embeddings.num_embeddings", "1000",
                           "--model_spec.model.lm_head.out_features", "1000"])

    def test_assets_without_a_tokenizer(self):
        empty = Path(self.folder.name) / "assets"
        empty.mkdir()
        self.refused(1, "tokenizer.json", args=["--hf_assets_path", empty])

    def test_patterns_that_find_nothing(self):
        self.refused(2, "pattern 'router'", args=["--optimizer.param_groups.0.pattern", "router"])
        self.refused(2, "no pattern finds parameter", args=["--optimizer.param_groups.0.pattern", "norm"])

    def test_a_rank_that_is_not_told_where_the_others_are(self):
        self.refused(2, "MASTER_ADDR", env={"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0"})

    def test_weights_and_biases_with_the_line_that_sends_our_metrics_there(self):
        self.refused(2, "metrics.enable_wandb = true is not built yet", "metrics.enable_jsonl", "wandb.init()",
                     args=["--metrics.enable_wandb"])

    def test_a_number_of_threads_that_is_none(self):
        self.refused(2, "TITAN_NUM_THREADS", "'many'", env={"TITAN_NUM_THREADS": "many"})

    def test_a_device_that_is_not_built(self):
        self.refused(2, "--device cuda", "not built yet", "--device neuron", args=["--device", "cuda"])

    def test_a_dump_folder_that_cannot_be_written(self):
        blocker = Path(self.folder.name) / "file"
        blocker.write_text("in the way")
        self.refused(1, "--dump_folder", str(blocker), args=["--dump_folder", blocker / "out"])
        self.assertEqual(blocker.read_text(), "in the way")

    def test_a_file_that_may_not_grow_is_an_error_with_a_message(self):
        words = [*TINY, "--dump_folder", self.out, "--checkpoint.enable", "--checkpoint.last_save_in_hf"]
        limited = ["sh", "-c", 'ulimit -f 2000; exec "$@"', "sh", TITAN, "train", "--module", "qwen3", "--config",
                   "qwen3_demo", *map(str, words)]
        result = subprocess.run(limited, capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, "titan: error: .*File too large")

    def test_a_refused_run_leaves_earlier_outputs_whole(self):
        self.succeeds("--checkpoint.enable", "--metrics.enable_jsonl")
        before = files_of(self.out)
        self.assertTrue(before)
        for args in (["--training.seq_len", "50000"], ["--optimizer.param_groups.0.pattern", "router"],
                     ["--dataloader.dataset", "c4"], ["--hf_assets_path", "/nowhere"]):
            self.assertNotEqual(self.train(*args).returncode, 0)
            self.assertEqual(files_of(self.out), before, args)

    def test_a_loss_that_is_not_finite_stops_with_the_references_words(self):
        result = self.train("--training.steps", "50", "--optimizer.param_groups.0.optimizer_kwargs.lr", "1e38",
                            "--lr_scheduler.warmup_steps", "0", "--checkpoint.enable", "--metrics.log_freq", "100")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, r"titan: error: (Loss|Gradient norm) is not finite \(\w+=(nan|-?inf)\) at step "
                                        r"\d+\. Stopping training\.")
        self.assertEqual(list(self.out.glob("checkpoint/step-*")), [])


class Signals(TrainCase):
    def stopped_by(self, number, code):
        process = subprocess.Popen([TITAN, "train", "--module", "qwen3", "--config", "qwen3_demo", *TINY,
                                    "--training.steps", "100000", "--dump_folder", str(self.out),
                                    "--metrics.enable_jsonl"], stderr=subprocess.PIPE, text=True)
        lines = []
        while line := process.stderr.readline():
            lines.append(line)
            if "step:  3" in line:
                process.send_signal(number)
        process.stderr.close()
        self.assertEqual(process.wait(60), code, "".join(lines))
        log = "".join(lines)
        self.assertRegex(log, rf"Stopped by {number.name} after step \d+\.")
        self.assertNotIn("Training completed", log)
        for line in (self.out / "metrics.jsonl").read_text().splitlines():
            json.loads(line)

    def test_ctrl_c_finishes_the_step_and_exits_with_130(self):
        self.stopped_by(signal.SIGINT, 130)

    def test_sigterm_finishes_the_step_and_exits_with_143(self):
        self.stopped_by(signal.SIGTERM, 143)


class Help(unittest.TestCase):
    def test_help_lists_fields_and_trains_nothing(self):
        result = subprocess.run([TITAN, "train", "--help"], capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("--training.steps", result.stdout)
        self.assertEqual(result.stderr, "")


if __name__ == "__main__":
    unittest.main()
