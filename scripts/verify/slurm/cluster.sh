#!/usr/bin/env bash
# A Slurm of two nodes on this machine, for tests: up, kill2 (node2 and what runs on it dies at once), start2, down.
# It needs root, and Debian's slurmctld, slurmd, slurm-client and munge.
set -euo pipefail
dir=${SLURM_TEST_DIR:?an empty folder}
export SLURM_CONF=$dir/slurm.conf

# In a process namespace of its own, all that a node runs can be killed at once.
node() {
  unshare --pid --fork --kill-child --mount-proc slurmd -D -f "$SLURM_CONF" -N "$1" >"$dir/log/$1.out" 2>&1 &
  echo $! >"$dir/run/$1.unshare"
}
inside() { pgrep -P "$(cat "$dir/run/$1.unshare")"; }
until_idle() {
  for _ in $(seq 600); do
    [ "$(sinfo -h -o '%T %D' 2>/dev/null)" != "idle 2" ] || return 0
    sleep 0.1
  done
  tail "$dir"/log/*.log >&2
  return 1
}

case $1 in
up)
  mkdir -p "$dir"/{ctld,log,run}
  chown slurm: "$dir"/{ctld,log,run}
  cat >"$SLURM_CONF" <<C
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=16817
SlurmUser=slurm
AuthInfo=cred_expire=5
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerParameters=batch_sched_delay=1,sched_interval=2,bf_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
StateSaveLocation=$dir/ctld
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdSpoolDir=$dir/spool.%n
SlurmdPidFile=$dir/run/slurmd.%n.pid
SlurmdLogFile=$dir/log/slurmd.%n.log
ReturnToService=2
SlurmdTimeout=5
MessageTimeout=2
TCPTimeout=1
KillWait=2
JobRequeue=1
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
NodeName=node1 NodeHostname=localhost NodeAddr=127.0.0.1 Port=17001 CPUs=1 RealMemory=1000
NodeName=node2 NodeHostname=localhost NodeAddr=127.0.0.1 Port=17002 CPUs=1 RealMemory=1000
PartitionName=main Nodes=node1,node2 Default=YES MaxTime=INFINITE State=UP
C
  install -d -m 755 -o munge -g munge /run/munge
  pgrep -x munged >/dev/null || setpriv --reuid munge --regid munge --clear-groups munged
  slurmctld -c -f "$SLURM_CONF"
  node node1
  node node2
  until_idle
  ;;
kill2) kill -9 "$(inside node2)" ;;
start2) node node2 ;;
down)
  for n in node1 node2; do kill -9 "$(inside $n)" || true; done
  kill "$(cat "$dir/run/slurmctld.pid")"
  ;;
*) exit 2 ;;
esac
