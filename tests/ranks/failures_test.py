"""What a job does when something goes wrong on one rank or on all: it ends in time, says once what happened and where,
and leaves no process behind."""

import os
import re
import shutil
import signal
import tempfile
import time
import unittest
from pathlib import Path

from job import Job

TITAN = os.environ["TITAN"]
SOURCE = Path(os.environ["TITAN_SOURCE_DIR"])
FOLDER = Path(tempfile.mkdtemp(prefix="titan_failures_"))

COMMON = ["--module", "qwen3", "--config", "qwen3_demo", "--device", "cpu", "--metrics.log_freq", "1",
          "--training.steps", "100000", "--training.seq_len", "256", "--validator.no_enable", "--checkpoint.no_enable",
          "--training.local_batch_size", "2", "--dump_folder", str(FOLDER / "out")]


class TrainJob(Job):
    def __init__(self, ranks, *words, launch=(), program=("-m", "titan.train")):
        super().__init__([TITAN, "torchrun", f"--nproc_per_node={ranks}", "--role", "rank", "--tee", "3", *launch,
                          *program, *COMMON, *words], home=FOLDER, cwd=SOURCE)


class Dying(unittest.TestCase):
    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(FOLDER, ignore_errors=True)

    def ends_naming(self, job, *parts):
        code, text = job.finish()
        self.assertEqual(code, 1, text)
        last = "\n".join(text.splitlines()[-12:])
        for part in parts:
            self.assertRegex(last, part)
        return text

    def test_a_rank_killed_at_any_point_of_a_step_is_named(self):
        # Steps of about a second: a quarter into one is in the forward, three quarters in the backward.
        for share in (0.25, 0.75):
            with self.subTest(share=share):
                job = TrainJob(2, "--training.local_batch_size", "16")
                job.wait_for(r"step: +1 ")
                start = time.monotonic()
                job.wait_for(r"step: +2 ")
                step = time.monotonic() - start
                time.sleep(share * step)
                job.signal_rank(1, signal.SIGKILL)
                self.ends_naming(job, r"rank\W+1", "SIGKILL")

    def test_a_rank_killed_while_the_others_wait_for_it_is_named_by_them(self):
        job = TrainJob(3)
        job.wait_for(r"step: +2 ")
        job.signal_rank(1, signal.SIGSTOP)
        time.sleep(1)
        job.signal_rank(1, signal.SIGKILL)
        self.ends_naming(job, r"rank\W+1", "SIGKILL")

    def test_a_rank_that_sleeps_forever_ends_the_job_at_the_timeout(self):
        job = TrainJob(3, "--comm.train_timeout_seconds", "4", launch=["--shutdown-timeout", "3"])
        job.wait_for(r"step: +2 ")
        job.signal_rank(2, signal.SIGSTOP)
        text = self.ends_naming(job, "rank 2", "4 s")
        self.assertIn("0:00:04", text)

    def test_a_rank_that_runs_out_of_memory_says_so(self):
        limited = 'if [ "$RANK" = 1 ]; then ulimit -v 1500000; fi; exec "$@"'
        job = TrainJob(2, "--training.local_batch_size", "64", program=["--no-python", "sh", "-c", limited, "sh", TITAN, "train"])
        text = self.ends_naming(job, r"rank\W+1", "can't allocate memory")
        self.assertIn("[rank1]:titan: error: ", text)
        self.assertNotIn("frame #", text)


class Together(unittest.TestCase):
    def test_a_loss_that_is_not_finite_stops_all_ranks_with_one_message(self):
        job = TrainJob(3, "--optimizer.param_groups.0.optimizer_kwargs.lr", "1e30", "--lr_scheduler.warmup_steps", "0")
        code, text = job.finish()
        self.assertEqual(code, 1, text)
        self.assertEqual(len(re.findall(r"^\[rank\d+\]:titan: error: .*not finite", text, re.M)), 1, text)
        self.assertIn("not finite", "\n".join(text.splitlines()[-12:]))

    def test_ctrl_c_ends_all_ranks_after_the_same_step(self):
        job = TrainJob(3)
        job.wait_for(r"step: +3 ")
        job.process.send_signal(signal.SIGINT)
        code, text = job.finish()
        self.assertEqual(code, 130, text)
        stopped = re.findall(r"Stopped by SIGINT after step (\d+)", text)
        self.assertEqual(len(stopped), 3, text)
        self.assertEqual(len(set(stopped)), 1, text)
        self.assertNotIn("titan: error: ", text)


class Refusals(unittest.TestCase):
    """Mistakes in the configuration: every rank finds them, one says them, before anybody communicates."""

    def refused(self, ranks, *words, says):
        job = TrainJob(ranks, "--training.steps", "2", *words)
        code, text = job.finish()
        self.assertEqual(code, 1, text)
        self.assertLessEqual(len(re.findall(r"^\[rank\d+\]:titan: error: ", text, re.M)), 1, text)
        last = "\n".join(text.splitlines()[-12:])
        for part in says:
            self.assertIn(part, last)
        self.assertNotIn("step:  1", text)

    def test_a_world_that_does_not_factor(self):
        self.refused(4, "--parallelism.data_parallel_shard_degree", "3",
                     says=["Invalid parallel dims: dp_replicate(1) * dp_shard(3) * cp(1) * tp(1) * pp(1) != WORLD_SIZE(4)"])
        self.refused(3, "--parallelism.tensor_parallel_degree", "2", says=["tp(2)", "does not divide WORLD_SIZE(3)"])

    def test_degrees_below_one(self):
        for field in ("data_parallel_replicate_degree", "tensor_parallel_degree", "context_parallel_degree",
                      "pipeline_parallel_degree", "expert_parallel_degree"):
            with self.subTest(field=field):
                self.refused(2, f"--parallelism.{field}", "0", says=[f"parallelism.{field}", "0"])
        self.refused(2, "--parallelism.data_parallel_shard_degree", "-2", says=["data_parallel_shard_degree", "-2"])

    def test_a_sequence_that_tp_does_not_divide(self):
        self.refused(2, "--parallelism.tensor_parallel_degree", "2", "--training.seq_len", "255",
                     says=["training.seq_len", "255", "parallelism.tensor_parallel_degree"])

    def test_heads_that_tp_does_not_divide(self):
        self.refused(3, "--parallelism.tensor_parallel_degree", "3", "--training.seq_len", "255", says=["parallelism.tensor_parallel_degree is 3", "n_heads is 8", "It can be 1, 2 or 4"])

    def test_a_batch_that_does_not_divide(self):
        self.refused(3, "--training.global_batch_size", "8", says=["global batch size must be multiple of local batch "
                                                                   "size times data-parallel degree (8 % (2 * 3) != 0)"])

    def test_ranks_with_other_arguments(self):
        self.refused_difference('if [ "$RANK" = 1 ]; then exec "$@" --debug.seed 7; fi; exec "$@"')

    def test_ranks_on_other_devices(self):
        self.refused_difference('if [ "$RANK" = 1 ]; then exec "$@" --device cpu; fi; exec "$@" --device neuron')
        self.refused_difference('[ "$RANK" = 1 ] || export TITAN_NEURON_HBM_GIB=8; exec "$@" --device neuron')

    def refused_difference(self, other):
        """`other`: a shell's words that start rank 1 otherwise than the rest."""
        job = TrainJob(2, "--training.steps", "2", program=["--no-python", "sh", "-c", other, "sh", TITAN, "train"])
        code, text = job.finish()
        self.assertEqual(code, 1, text)
        self.assertIn("rank(s) 1 of this job have another configuration than rank 0", "\n".join(text.splitlines()[-12:]))
        self.assertNotIn("step:  1", text)

    def test_what_is_not_built_yet(self):
        for words in (["--parallelism.pipeline_parallel_degree", "2"], ["--parallelism.context_parallel_degree", "2"],
                      ["--compile.enable"]):
            with self.subTest(words=words):
                self.refused(2, *words, says=[words[0].lstrip("-"), "is not built yet"])

    def test_more_ranks_than_memory_allows(self):
        module = FOLDER / "large.cpp"
        module.parent.mkdir(exist_ok=True)
        module.write_text('#include <titan/recipes.h>\nusing namespace titan;\nTrainerConfig large() {\n'
                          '  auto config = qwen3::qwen3_demo();\n  config.model_spec = qwen3::model_registry("32B");\n'
                          '  return config;\n}\n')
        self.refused(2, "--module", str(module), "--config", "large",
                     says=["GiB on the 2 ranks of this machine: each weights (", "fewer ranks a machine"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
