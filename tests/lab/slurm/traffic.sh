#!/bin/bash
# Batch script of a job of two tasks: iperf3's server and its client. What each says it moved is left as JSON.
# traffic.sh FOLDER PORT SECONDS RATE
result=$1/iperf3-$SLURM_JOB_ID port=$2 seconds=$3 rate=$4
# The script itself starts the tasks.
if [ "${5:-}" != task ]; then
    exec srun --kill-on-bad-exit=1 bash "$1/traffic.sh" "$@" task
fi
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -1)
if [ "$SLURM_PROCID" = 0 ]; then
    exec iperf3 --server --one-off --port "$port" --json --logfile "$result.server"
fi
# Until the server listens. With --json iperf3 ends with 0 whatever happened.
for _ in $(seq 50); do
    iperf3 --client "$first" --port "$port" --time "$seconds" --bitrate "$rate" --json >"$result.client"
    grep -q '"error"' "$result.client" || exit 0
    grep -q 'Connection refused' "$result.client" || break
    sleep 0.1
done
grep '"error"' "$result.client"
exit 1
