"""What suits training from random weights, and from published ones."""

FROM_SCRATCH = {"temperature": 0.05, "adafactor": 0.02, "adam": 0.001}
"""Temperature, and peak learning rates, where training starts from random weights."""

FROM_PRETRAINED = {"temperature": 0.01, "adafactor": 0.001, "adam": 0.0001}
"""The same from published ones (SamToNe, section 3; T5 and GTR use Adafactor at 0.001)."""
