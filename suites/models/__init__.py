"""What suites share: small models with their losses, batches and optimizers, and variants."""

from suites.models.centred import Centred as Centred
from suites.models.convnet import Norm as Norm
from suites.models.convnet import ResidualNet as ResidualNet
from suites.models.llama import Layer as Layer
from suites.models.llama import Llama as Llama
from suites.models.llama import TokenBatches as TokenBatches
from suites.models.llama import causal_loss as causal_loss
from suites.models.llama import join_token_batches as join_token_batches
from suites.models.mlp import MLP as MLP
from suites.models.mlp import LabelledBatches as LabelledBatches
from suites.models.mlp import classification_loss as classification_loss
from suites.models.mlp import labelled_batch as labelled_batch
from suites.models.optimizers import adamw as adamw
from suites.models.optimizers import momentum as momentum
from suites.models.rounding import float32_rounding as float32_rounding
from suites.models.variants import on_xla as on_xla
from suites.models.wrapping import WrapEach as WrapEach
from suites.models.wrapping import WrapFrom as WrapFrom
