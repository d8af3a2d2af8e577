import numpy as np
import pytest

from albert_tf.models import AlbertForMaskedLM


def test_a_position_outside_is_refused(shallow_config, small_features):
    model = AlbertForMaskedLM(shallow_config)
    for position in (7, -1):
        with pytest.raises(ValueError, match=r"masked_lm_positions must lie in \[0, length\)"):
            model(small_features, masked_lm_positions=np.array([[1], [position]]))
