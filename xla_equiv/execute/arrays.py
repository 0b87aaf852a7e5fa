"""From torch tensors to numpy arrays."""

import ml_dtypes
import numpy as np
import torch

from xla_equiv.values.trace import Array

WITHOUT_NUMPY = {
    torch.bfloat16: (torch.int16, ml_dtypes.bfloat16),
    torch.float8_e4m3fn: (torch.int8, ml_dtypes.float8_e4m3fn),
    torch.float8_e5m2: (torch.int8, ml_dtypes.float8_e5m2),
}
"""torch dtypes that numpy does not know: an integer of the same width, and the dtype of `ml_dtypes`."""


def to_array(tensor: torch.Tensor) -> Array:
    """Return the values of `tensor`, wherever it lies, as a numpy array of the same dtype and shape."""
    local = tensor.detach().cpu().contiguous()
    array: Array
    if local.dtype in WITHOUT_NUMPY:
        carrier, dtype = WITHOUT_NUMPY[local.dtype]
        array = local.view(carrier).numpy().view(dtype)
    else:
        array = local.numpy()
    return np.array(array)
