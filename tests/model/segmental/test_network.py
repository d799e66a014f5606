"""The frame network and the scores of candidates: a recording's own, whatever it is batched with."""

import pytest
import torch

from phonechain.model.segmental.network import SemiCRF
from phonechain.model.segmental.settings import SegmentalSettings


@pytest.mark.parametrize("units", [0, 6])
@pytest.mark.parametrize("length", [30, 31, 32, 33])
def test_scores_do_not_depend_on_the_batch(units: int, length: int):
    torch.manual_seed(5)
    settings = SegmentalSettings(units=units, dropout=0.0)
    model = SemiCRF(settings, 4).double().eval()
    torch.nn.init.normal_(model.factor.weight)
    stride = round(settings.step * 100)
    short, long = torch.randn(length, 39, dtype=torch.float64), torch.randn(47, 39, dtype=torch.float64)
    steps = -(-length // stride)

    alone = model.scores(model.track(short[None], torch.tensor([length])), steps)
    together = torch.nn.utils.rnn.pad_sequence([short, long], batch_first=True)
    batched = model.scores(model.track(together, torch.tensor([length, 47])), steps)

    torch.testing.assert_close(batched[:1], alone, rtol=0, atol=1e-10)
