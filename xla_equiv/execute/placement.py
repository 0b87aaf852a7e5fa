"""Moving a model to a device without losing what its parameters share."""

import torch
from torch import nn


def move_to(model: nn.Module, device: torch.device) -> list[str]:
    """Move `model` to `device` and tie again the parameters that the move has torn apart.

    `nn.Module.to` gives every name its own copy on a device whose tensors cannot share storage with
    the CPU's, such as XLA: both halves of a tied weight would train apart.

    Returns:
        A note for each name that was tied again.
    """
    names_of: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names_of.setdefault(id(parameter), []).append(name)
    model.to(device)
    notes = []
    for first, *others in names_of.values():
        shared = model.get_parameter(first)
        for name in others:
            if model.get_parameter(name) is not shared:
                owner, _, leaf = name.rpartition(".")
                setattr(model.get_submodule(owner), leaf, shared)
                notes.append(f"{name} was tied to {first} again: moving the model to {device.type} had torn them apart")
    return notes
