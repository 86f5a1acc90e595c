# %% [markdown]
# # Test and repair a clinical risk model
#
# A model that predicts a complication was developed in one hospital. You test it in a second one, before
# anybody acts on it: are the risks true, do decisions based on them help, and can a small repair fix them?
# Install `calibrant[sklearn]`.
#
# The patients are simulated, so that the true risks are known. The second hospital treats healthier
# patients and the complication is rarer, a common reason why models predict too much.

# %%
import numpy as np
from matplotlib import pyplot as plt
from sklearn.ensemble import GradientBoostingClassifier

import calibrant
from calibrant import plots

rng = np.random.default_rng(0)


def patients(count, *, shift):
    """Age in decades above 60, creatinine and blood pressure (standardised), diabetes; and the outcome."""
    age, creatinine, pressure = rng.normal(size=(3, count))
    diabetes = rng.random(count) < 0.2
    log_odds = -2.2 + shift + 1.2 * age + 1.0 * creatinine + 0.5 * pressure + diabetes
    outcome = rng.random(count) < 1 / (1 + np.exp(-log_odds))
    return np.column_stack([age, creatinine, pressure, diabetes]), outcome.astype(int)


X_first, y_first = patients(1500, shift=0.0)
X, complication = patients(5000, shift=-1.0)
model = GradientBoostingClassifier(n_estimators=150, random_state=0).fit(X_first, y_first)
risk = model.predict_proba(X)[:, 1]
print(f"complications: {y_first.mean():.1%} in the first hospital, {complication.mean():.1%} in the second")

# %% [markdown]
# ## Are the risks true?
#
# The first 2000 patients of the second hospital will fit a repair (split 0). The other 3000 test the model
# and its repairs (split 1).

# %%
split = (np.arange(5000) >= 2000).astype(int)
predictions = calibrant.Predictions(
    probs=risk, labels=complication, split=split, class_names=["no complication", "complication"]
)
evaluation = calibrant.evaluate(predictions)
print(evaluation)

# %% [markdown]
# The model predicts about twice as many complications as occur. The picture shows where: each point is a
# group of patients with similar risk. Above a predicted risk of 20%, far fewer patients have the
# complication than predicted.

# %%
display = plots.ReliabilityDisplay.from_evaluation(evaluation)

# %% [markdown]
# ## The repair
#
# `fit` uses split 0. The repaired risk of a new patient comes from `predict_proba` of the calibrator, or
# from `calibrant.apply`.

# %%
calibrator = calibrant.fit(predictions, method="platt")
test = predictions.rows(split == 1)
repaired = calibrant.apply(calibrator, test)
for before in (0.1, 0.3, 0.6):
    after = calibrator.predict_proba([np.log(before / (1 - before))]).item()
    print(f"predicted {before:.0%} becomes {after:.0%}")

# %% [markdown]
# ## Do decisions help?
#
# Suppose that patients above a threshold get extra monitoring. At a threshold of 20%, one complication
# found is worth four patients monitored for nothing. The net benefit counts both, in complications found
# per patient. A model helps where its curve is above "treat all" and "treat none".
#
# Without the repair, the model does harm above a threshold of about 30%: its curve is below zero, so
# monitoring nobody would be better. After the repair, the net benefit is higher at each threshold, and
# never clearly below zero.

# %%
thresholds = np.linspace(0.02, 0.6, 59)
figure, axes = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
for name, each in {"as developed": test, "repaired": repaired}.items():
    plots.ReliabilityDisplay.from_predictions(each, name=name, ax=axes[0])
plots.decision_curve({"as developed": test, "repaired": repaired}, thresholds=thresholds, ax=axes[1])
axes[0].set(xlabel="predicted risk of a complication", ylabel="share with a complication")
