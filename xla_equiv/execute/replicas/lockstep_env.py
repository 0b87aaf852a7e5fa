"""The environment that a lockstep needs; the controlling process sets it, which does not import torch."""


def lockstep_env(replicas: int) -> dict[str, str]:
    """Return the environment variables of a process that runs `replicas` replicas in lockstep on XLA:CPU."""
    return {
        "CPU_NUM_DEVICES": str(replicas),
        "PJRT_CPU_ASYNC_CLIENT": "0",  # an asynchronous client chains what one thread has issued
        "XLA_THREAD_POOL_SIZE": str(max(4 * replicas, 16)),  # an execution that waits for a peer keeps its thread
    }
