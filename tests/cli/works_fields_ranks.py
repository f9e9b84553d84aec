"""Rows of works_fields_test.py for fields that need several ranks, and for the profiler."""

import re

from works_fields_runs import BASE, refused, row, titan, train


@row("parallelism.data_parallel_shard_degree", "parallelism.data_parallel_replicate_degree")
def _():
    shard = "--parallelism.data_parallel_shard_degree"
    replicate = "--parallelism.data_parallel_replicate_degree"
    return ("Applied FSDP" in train(shard, "2", ranks=2).log and "Applied DDP" in train(replicate, "2", ranks=2).log
            and refused([shard, "2"], "dp_shard(2)", "!= WORLD_SIZE(1)"))


@row("parallelism.tensor_parallel_degree", "parallelism.enable_sequence_parallel")
def _():
    words = ("--parallelism.tensor_parallel_degree", "2")
    cut, whole = train(*words, ranks=2), train(*words, "--parallelism.no_enable_sequence_parallel", ranks=2)
    return ("Applied Tensor Parallelism" in cut.log and cut.scalars("communication/reduce_scatter(bytes)")[-1] > 0
            and whole.code == 0 and whole.scalars("communication/reduce_scatter(bytes)")[-1] == 0)


def gathered(*words):
    """Bytes that rank 0 of two receives in all-gathers of the last step, without the small ones of every step."""
    return train("--model_spec.model.no_enable_weight_tying", *words, ranks=2).scalars("communication/all_gather(bytes)")[-1]


@row("parallelism.fsdp_reshard_after_forward")
def _():
    # Float32 weights, half of which come from the other rank: once or twice, the last unit (norm and head) by default once.
    half, last = 2 * (3_672_576 + 2048 * 256), 2 * (256 + 2048 * 256)
    never, default, always = (gathered("--parallelism.fsdp_reshard_after_forward", value)
                              for value in ("never", "default", "always"))
    return always - never == half and always - default == last


@row("parallelism.fsdp_prefetch")
def _():
    tag = "memory/peak_gathered_weights(bytes)"
    ahead, without = train(ranks=2), train("--parallelism.no_fsdp_prefetch", ranks=2)
    return without.losses == ahead.losses and without.scalars(tag)[-1] < ahead.scalars(tag)[-1]


@row("parallelism.fsdp_defer_gradient_reduction")
def _():
    words = ("--training.global_batch_size", "8")
    tag = "communication/reduce_scatter(bytes)"
    each, once = train(*words, ranks=2), train(*words, "--parallelism.fsdp_defer_gradient_reduction", ranks=2)
    return each.scalars(tag)[-1] == 2 * once.scalars(tag)[-1] and "keeps 14,690,304 bytes" in once.log


@row("comm.init_timeout_seconds")
def _():
    alone = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "localhost",
             "MASTER_PORT": "29617"}
    done = titan(["train"], [*BASE, "--comm.init_timeout_seconds", "1"], alone)
    return done.returncode == 1 and "rank 1" in done.stderr and "1 s" in done.stderr


@row("comm.train_timeout_seconds")
def _():
    return "to 0:01:07" in train("--comm.train_timeout_seconds", "67", ranks=2).log


@row("metrics.save_for_all_ranks")
def _():
    all_ranks = train("--metrics.save_for_all_ranks", ranks=2)
    return all(all_ranks.saved(f"rank_{rank}", "metrics.jsonl") for rank in (0, 1)) and train(ranks=2).saved("metrics.jsonl")


def traces(*words):
    """Steps that a profiled run of three steps has traces of; each a list of the steps recorded."""
    folder = train("--profiler.enable_profiling", *words).folder
    return {int(path.parent.name.removeprefix("iteration_")): sorted(set(re.findall(r"ProfilerStep#\d+", path.read_text())))
            for path in folder.glob("spans/*/rank0_trace.json")}


SPANS = ("--profiler.save_traces_folder", "spans", "--profiler.profiler_warmup", "0")


@row("profiler.enable_profiling", "profiler.save_traces_folder", "profiler.profile_freq")
def _():
    return set(traces(*SPANS, "--profiler.profile_freq", "1")) == {1, 2, 3} and not train().saved("spans")


@row("profiler.profiler_active")
def _():
    return traces(*SPANS, "--profiler.profile_freq", "3", "--profiler.profiler_active", "2") == {
        3: ["ProfilerStep#1", "ProfilerStep#2"]}


@row("profiler.profiler_repeat")
def _():
    return set(traces(*SPANS, "--profiler.profile_freq", "1", "--profiler.profiler_repeat", "2")) == {1, 2}


@row("profiler.profiler_skip_first")
def _():
    return set(traces(*SPANS, "--profiler.profile_freq", "1", "--profiler.profiler_skip_first", "1")) == {2, 3}


@row("profiler.profiler_skip_first_wait", "profiler.profiler_warmup")
def _():
    words = (*SPANS, "--profiler.profile_freq", "3", "--profiler.profiler_skip_first_wait", "1")
    return set(traces(*words)) == {1} and set(traces(*words, "--profiler.profiler_warmup", "1")) == {2}
