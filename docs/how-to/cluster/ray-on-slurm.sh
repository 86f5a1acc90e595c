#!/bin/bash
# A sweep by Ray on nodes of Slurm: sbatch ray-on-slurm.sh grid.toml store
#SBATCH --job-name=calibrant
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --gpus-per-node=1
#SBATCH --time=12:00:00
#SBATCH --signal=B:TERM@120
set -euo pipefail

grid=${1:?"usage: sbatch ray-on-slurm.sh GRID STORE"}
store=${2:?"usage: sbatch ray-on-slurm.sh GRID STORE"}

# One token for all nodes of this job, in a file that others cannot read.
umask 077
token=$(mktemp "$HOME/.ray-token.XXXXXX")
python -c "import secrets; print(secrets.token_hex(32))" >"$token"
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$token

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=$((20000 + SLURM_JOB_ID % 10000))
start=(ray start --block --num-cpus="$SLURM_CPUS_PER_TASK" --disable-usage-stats)

srun --nodes=1 --ntasks=1 --overlap --nodelist="$head" \
  "${start[@]}" --head --node-ip-address="$head" --port="$port" --include-dashboard=false &
sleep 15
if ((SLURM_JOB_NUM_NODES > 1)); then
  srun --nodes=$((SLURM_JOB_NUM_NODES - 1)) --ntasks=$((SLURM_JOB_NUM_NODES - 1)) --overlap --exclude="$head" \
    "${start[@]}" --address="$head:$port" &
fi

# Near the time limit the sweep is told to stop, and saves what was begun; `sbatch` with the same words goes on.
calibrant sweep "$grid" --store "$store" --engine "ray(address=\"$head:$port\")" &
sweep=$!
trap 'kill -TERM "$sweep" 2>/dev/null || true' TERM
trap 'rm -f "$token"; kill $(jobs -p) 2>/dev/null || true' EXIT
status=0
wait "$sweep" || status=$?
while kill -0 "$sweep" 2>/dev/null; do
  status=0
  wait "$sweep" || status=$?
done
exit "$status"
