#!/bin/sh
# Trains on the nodes that Slurm gives: `sbatch examples/slurm.sh --module qwen3 --config qwen3_demo`.
# One launcher a node, started by srun; the first node hosts the rendezvous. Arguments go to `titan train`.
#SBATCH --job-name=titan
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --signal=B:TERM@120

set -eu

TITAN=${TITAN:-titan}
WORKERS_PER_NODE=${WORKERS_PER_NODE:-auto}
LOGS=${LOGS:-$PWD/logs}

head_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# Jobs that share a node must not share a port.
port=$((20000 + SLURM_JOB_ID % 20000))

# exec, so that Slurm's signals reach srun, which passes them to the launchers.
exec srun --kill-on-bad-exit=1 "$TITAN" torchrun \
  --nnodes="$SLURM_JOB_NUM_NODES" \
  --nproc_per_node="$WORKERS_PER_NODE" \
  --rdzv_backend=c10d \
  --rdzv_endpoint="$head_node:$port" \
  --rdzv_id="$SLURM_JOB_ID" \
  --log_dir="$LOGS" \
  --role=rank --tee=3 --local-ranks-filter=0 \
  -m titan.train "$@"
