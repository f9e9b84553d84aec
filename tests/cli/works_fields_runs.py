"""Runs for works_fields_test.py and its rows: three steps of the demo model on two short files, each run once."""

import json
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

TITAN = os.environ["TITAN"]
FOLDER = Path(tempfile.mkdtemp(prefix="titan_works_fields_"))
MODEL = "model_spec.model."
LAYER = MODEL + "layers.N."

# Documents of a few words, so that rows hold several, and a set that ends, so that epochs follow one another.
SENTENCES = [f"{a} {b} {c}." for a in ("Light", "Water", "Earth", "Fire") for b in ("makes", "takes", "loves")
             for c in ("the day", "the deep night", "all that lives", "a wide river", "nothing")]


def write_lines(name, key, texts):
    path = FOLDER / name
    path.write_text("".join(json.dumps({key: text}) + "\n" for text in texts))
    return str(path)


SHORT = write_lines("short.jsonl", "text", SENTENCES)
OTHER = write_lines("other.jsonl", "text", [text[::-1] for text in SENTENCES])
BODY = write_lines("body.jsonl", "body", SENTENCES)

BASE = ["--module", "qwen3", "--config", "qwen3_demo", "--training.steps", "3", "--training.seq_len", "32",
        "--training.local_batch_size", "2", "--metrics.log_freq", "1", "--metrics.enable_jsonl",
        "--dataloader.dataset_path", SHORT, "--checkpoint.no_enable", "--validator.no_enable", "--lr_scheduler.warmup_steps", "2",
        "--lr_scheduler.decay_ratio", "none", "--device", "cpu", "--optimizer.param_groups.0.optimizer_kwargs.lr", "0.003"]
VALIDATING = ["--validator.enable", "--validator.freq", "2", "--validator.steps", "2",
              "--validator.dataloader.dataset_path", OTHER]
SAVING = ["--checkpoint.enable", "--checkpoint.last_save_in_hf"]


@dataclass
class Run:
    code: int
    log: str
    folder: Path
    records: list = field(default_factory=list)

    def scalars(self, tag):
        return [record[tag] for record in self.records if tag in record]

    @property
    def losses(self):
        return self.scalars("loss_metrics/global_avg_loss")

    @property
    def validation(self):
        return self.scalars("validation_metrics/loss")

    @property
    def rates(self):
        return self.scalars("lr/AdamW")

    def saved(self, *parts):
        return self.folder.joinpath(*parts).exists()


def titan(command, words, more_environment=()):
    environment = dict(os.environ, HOME=str(FOLDER / "home"), TITAN_NUM_THREADS="1",
                       TITAN_NEURON_STATE_DIR=str(FOLDER / "neuron"),
                       TORCH_NEURONX_NEFF_CACHE_DIR=str(FOLDER / "neff"), **dict(more_environment))
    return subprocess.run([TITAN, *command, *words], capture_output=True, text=True, cwd=FOLDER, env=environment)


RUNS = {}


def train(*words, ranks=1):
    """A run of BASE with these words on so many ranks; the same words run once."""
    key = (ranks, *words)
    if key not in RUNS:
        folder = FOLDER / f"run{len(RUNS)}"
        launch = ["train"] if ranks == 1 else ["torchrun", f"--nproc_per_node={ranks}", "-m", "titan.train"]
        done = titan(launch, [*BASE, "--dump_folder", str(folder), *words])
        run = Run(done.returncode, done.stderr, folder)
        lines = folder / "metrics.jsonl"
        if lines.exists():
            run.records = [json.loads(line) for line in lines.read_text().splitlines()]
        RUNS[key] = run
    return RUNS[key]


def parameters(*words):
    done = titan(["config"], ["--module", "qwen3", "--config", "qwen3_demo", *words, "--summary"])
    found = re.search(r"^parameters +([\d,]+)", done.stdout, re.M)
    return int(found[1].replace(",", "")) if found else done.stderr


def every_layer(name, value):
    return [f"--{(LAYER + name).replace('.N.', '.*.')}", str(value)]


def setting(name, value):
    return [f"--{name}", str(value)]


def safetensors_header(run):
    path = next(run.folder.glob("checkpoint/step-*/model*.safetensors"))
    size = int.from_bytes(path.read_bytes()[:8], "little")
    return json.loads(path.read_bytes()[8:8 + size])


ROWS = []  # (fields, check): the check returns whether the change was seen


def row(*fields):
    return lambda check: ROWS.append((fields, check)) or check


def refused(words, *parts):
    """The words stop the program with exit code 2 and a message that holds the parts."""
    run = train(*words)
    return run.code == 2 and all(part in run.log for part in parts)


def other_losses(*words, against=()):
    run, base = train(*against, *words), train(*against)
    return run.code == 0 and len(run.losses) == len(base.losses) == 3 and run.losses != base.losses
