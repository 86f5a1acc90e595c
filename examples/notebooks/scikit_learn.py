# %% [markdown]
# # Calibrate a scikit-learn classifier
#
# You test whether a classifier's probabilities are true, correct them, and check the correction on new
# samples. The data come with scikit-learn: 1797 handwritten digits of 8 by 8 pixels, here with noise.
# Install `calibrant[sklearn]`.

# %%
import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

import calibrant
from calibrant import plots
from calibrant.integrations.sklearn import CalibratedClassifier

X, y = load_digits(return_X_y=True)
X += np.random.default_rng(0).normal(0, 5, size=X.shape)  # as from a bad camera
X, X_test, y, y_test = train_test_split(X, y, test_size=900, stratify=y, random_state=0)

# %% [markdown]
# ## Two models, two mistakes
#
# Both classifiers see the same 897 digits. Naive Bayes counts each pixel as independent evidence, so it is
# far too confident. A random forest averages trees that disagree, so it is not confident enough.

# %%
models = {
    "naive Bayes": GaussianNB().fit(X, y),
    "random forest": RandomForestClassifier(100, random_state=0).fit(X, y),
}
figure, ax = plt.subplots(figsize=(5, 5), layout="constrained")
for name, model in models.items():
    plots.ReliabilityDisplay.from_estimator(model, X_test, y_test, name=name, ax=ax)

# %% [markdown]
# On the diagonal, a model that is 80% sure is right in 80% of cases. Naive Bayes is below it, the forest
# above. The bars are 95% intervals: if one reaches the diagonal, noise could explain the gap.
#
# ## The verdict
#
# `evaluate` tests the probabilities, tries repairs by cross-fitting, and recommends the simplest good one.

# %%
for name, model in models.items():
    evaluation = calibrant.evaluate(calibrant.Predictions.from_estimator(model, X_test, y_test))
    print(f"{name}\n{evaluation.verdict.headline}\n")

# %% [markdown]
# ## Repair without a separate calibration set
#
# `CalibratedClassifier` scores each training sample by a model that did not see it, fits one calibrator to
# these scores, and refits the model on everything. It works in pipelines and in searches.

# %%
repaired = {
    name: CalibratedClassifier(model, method="temperature").fit(X, y) for name, model in models.items()
}
for name, model in models.items():
    for when, each in (("before", model), ("after", repaired[name])):
        probs = np.clip(each.predict_proba(X_test), 1e-12, 1)
        loss = -np.log(probs[np.arange(len(y_test)), y_test]).mean()
        print(f"{name:13} {when:6} log loss {loss:.3f}, accuracy {each.score(X_test, y_test):.1%}")

# %% [markdown]
# The log loss falls. The accuracy hardly moves, because a temperature keeps the order of the classes. The
# repaired models on the 900 test digits:

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 4.5), layout="constrained")
for ax, name in zip(axes, models, strict=True):
    for when, model in (("before", models[name]), ("after", repaired[name])):
        plots.ReliabilityDisplay.from_estimator(model, X_test, y_test, name=when, ax=ax)
    ax.set_title(name)
