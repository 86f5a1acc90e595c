# %% [markdown]
# # Calibrate a language model from its log
#
# You go from the log of an evaluation to a verdict, to corrected confidences, and to a rule for which
# answers to trust. The log has the format that
# [lm-evaluation-harness](https://github.com/EleutherAI/lm-evaluation-harness) writes with `--log_samples`.
# Here a script imitates it: 2400 questions with four answers each. To use your own, replace the path in
# `load_predictions`.

# %%
import json
import tempfile
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

import calibrant
from calibrant import plots
from calibrant.predictions import ColumnNames

# %% [markdown]
# ## The log
#
# The imitated model is too confident in each subject, and most of all in law. Each line has the
# log-likelihoods of the four answers and the number of the right one.

# %%
rng = np.random.default_rng(0)
OVERCONFIDENCE = {"biology": 1.3, "history": 1.8, "law": 3.5}
folder = Path(tempfile.mkdtemp())


def question(number):
    subject = tuple(OVERCONFIDENCE)[number % 3]
    truth = rng.normal(size=4) * 1.8
    right = rng.choice(4, p=np.exp(truth) / np.exp(truth).sum())
    stated = OVERCONFIDENCE[subject] * truth - 20
    arguments = {f"gen_args_{k}": {"arg_0": "Question: …", "arg_1": f" answer {k}"} for k in range(4)}
    return {
        "doc_id": number,
        "doc": {"subject": subject},
        "target": str(right),
        "arguments": arguments,
        "filter": "none",
        "filtered_resps": [[str(each), "False"] for each in stated],
        "acc": float(stated.argmax() == right),
    }


path = folder / "samples_exam.jsonl"
path.write_text("\n".join(json.dumps(question(number)) for number in range(2400)))
predictions = calibrant.load_predictions(path, columns=ColumnNames(group="subject"))

# %% [markdown]
# ## The verdict
#
# The probability of an answer is the softmax of the log-likelihoods over the four answers.

# %%
evaluation = calibrant.evaluate(predictions, calibrators=["temperature"])
print(evaluation)

# %% [markdown]
# ## Which subjects?
#
# Hollow marks are before the repair, filled marks after. One temperature for all subjects corrects the
# average, but it leaves law too confident and makes the others too cautious.

# %%
ax = plots.groups(evaluation)

# %% [markdown]
# ## A temperature per subject
#
# Fit on one half of the questions, test on the other.

# %%
half = np.arange(2400) % 2
repair = calibrant.fit(predictions.with_split(half), method="temperature", by_group=True)
for subject, calibrator in repair.by_group.items():
    print(f"{subject}: T = {calibrator.temperature:.2f}")
test = predictions.rows(half == 1)
repaired = calibrant.apply(repair, test)
print(calibrant.evaluate(repaired, calibrators=[]).verdict.headline)

# %% [markdown]
# ## Which answers to trust
#
# If you only accept answers above a confidence, how many of the accepted ones are wrong? The left picture
# shows that the repair makes confidences true. The right one shows the error rate among the most confident
# answers. The curve is lower after the repair, because confidences of different subjects became comparable.

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 4.5), layout="constrained")
stages = {"as logged": test, "a temperature per subject": repaired}
for name, each in stages.items():
    plots.ReliabilityDisplay.from_predictions(each, name=name, ax=axes[0])
plots.risk_coverage(stages, ax=axes[1])
for name, each in stages.items():
    accepted = each.confidence >= 0.9
    wrong = 1 - each.correct[accepted].double().mean()
    print(f"{name}: {accepted.double().mean():.0%} are 90% sure or more, {wrong:.0%} of them wrong")
