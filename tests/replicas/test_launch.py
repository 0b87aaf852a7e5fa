"""torch_xla's own launcher, which starts the replicas on a TPU, with the one process that it starts on a CPU."""

from pathlib import Path

from scripts import Script

PROGRAM = """
from xla_equiv.execute.replicas import current_replica
from xla_equiv.execute.replicas.launch import launch

def body(rank):
    replica = current_replica()
    group = replica.process_group()
    tell(what="replica", rank=rank, own=replica.rank, ranks=replica.ranks, group=group.size(), backend=group.name())

if __name__ == "__main__":
    launch({replicas}, body)
"""
CPU = {"PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": "1"}


def test_the_launched_process_knows_its_rank_and_its_group(tmp_path: Path) -> None:
    ended = Script(PROGRAM.replace("{replicas}", "1"), tmp_path, CPU).end()
    assert ended.code == 0, ended.err
    assert ended.about("replica") == [{"rank": 0, "own": 0, "ranks": 1, "group": 1, "backend": "xla"}]


def test_a_machine_with_another_number_of_devices_is_told(tmp_path: Path) -> None:
    ended = Script(PROGRAM.replace("{replicas}", "4"), tmp_path, CPU).end()
    assert ended.code != 0
    assert "the case has 4 replicas, the machine 1 devices" in ended.err
