# %% [markdown]
# # Calibrate a PyTorch network
#
# You train a small network until it is overconfident, and fix that in two ways: with a temperature after
# training and with another loss. The data come with scikit-learn: handwritten digits, 8 by 8 pixels.
# Install `calibrant[sklearn]`.

# %%
import torch
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from torch import nn

import calibrant
from calibrant import plots
from calibrant.calibrators import CalibratedModel, TemperatureScaling
from calibrant.losses import FocalLoss
from calibrant.metrics import expected_calibration_error, negative_log_likelihood

pixels, answers = load_digits(return_X_y=True)
noise = torch.Generator().manual_seed(0)
images = torch.tensor(pixels / 16).float()
images += 0.35 * torch.randn(images.shape, generator=noise)  # as from a bad camera
labels = torch.tensor(answers)
order = torch.randperm(len(labels), generator=noise)
train, validation, test = order[:500], order[500:900], order[900:]

# %% [markdown]
# The noise makes some digits unreadable, so that no honest model is always sure. Three sets have three
# jobs: 500 digits to train, 400 to fit the temperature, 897 to test.
#
# ## Train


# %%
def trained(loss):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(150):
        optimizer.zero_grad()
        loss(network(images[train]), labels[train]).backward()
        optimizer.step()
    return network.eval()


networks = {
    "cross-entropy": trained(nn.CrossEntropyLoss()),
    "focal loss": trained(FocalLoss(gamma=3.0)),
}
with torch.no_grad():
    logits = {name: network(images) for name, network in networks.items()}

# %% [markdown]
# ## Test
#
# The verdict on cross-entropy's network. Its validation samples fit the repairs, and its test samples test
# them.

# %%
split = torch.cat([torch.zeros(len(validation)), torch.ones(len(test))]).int()
unseen = torch.cat([validation, test])
evaluation = calibrant.evaluate(
    calibrant.Predictions(logits=logits["cross-entropy"][unseen], labels=labels[unseen], split=split)
)
print(evaluation)

# %% [markdown]
# ## One number repairs most of it
#
# Temperature scaling divides all logits by T. A T above 1 makes the network less confident.

# %%
calibrators = {
    name: TemperatureScaling().fit(z[validation], labels[validation]) for name, z in logits.items()
}
for name, z in logits.items():
    calibrator = calibrators[name]
    print(f"{name}: T = {calibrator.temperature:.2f}")
    for when, probs in (("before", z[test].softmax(dim=1)), ("after", calibrator.predict_proba(z[test]))):
        ece = expected_calibration_error(probs, labels[test])
        nll = negative_log_likelihood(probs, labels[test])
        print(f"  {when:6} ECE {ece:.3f}, log loss {nll:.3f}")

# %% [markdown]
# The focal loss already keeps the network from growing too confident: its T is close to 1. Compare losses
# after a temperature, because the temperature is almost free.
#
# ## Ship one module

# %%
model = CalibratedModel(networks["cross-entropy"], calibrators["cross-entropy"])
print(model.predict_proba(images[test][:1]).round(decimals=3))

# %% [markdown]
# ## Before and after

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 4.5), layout="constrained")
for name, z in logits.items():
    plots.ReliabilityDisplay.from_predictions(z[test].softmax(dim=1), labels[test], name=name, ax=axes[0])
    after = calibrators[name].predict_proba(z[test])
    plots.ReliabilityDisplay.from_predictions(after, labels[test], name=name, ax=axes[1])
axes[0].set_title("as trained")
axes[1].set_title("after temperature scaling")
