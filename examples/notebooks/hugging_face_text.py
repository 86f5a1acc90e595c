# %% [markdown]
# # Calibrate a Hugging Face text classifier
#
# You train a tiny transformer with a `Trainer` that logs calibration at each evaluation, and take the
# temperature from its best checkpoint. Nothing is downloaded: the tokenizer and the transformer are made
# here, with random weights. For a real task, use `from_pretrained`. Install `calibrant[transformers]`.

# %%
import tempfile

import numpy as np
import torch
from matplotlib import pyplot as plt
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)

import calibrant
from calibrant import plots
from calibrant.integrations.hugging_face import CalibrationCallback

# %% [markdown]
# ## Reviews that are not always what they seem
#
# Each made-up review has seven words. More good words make a good rating likely, but not certain: people
# give bad ratings to friendly texts. So no model can always be right.

# %%
GOOD, BAD, NEUTRAL = ("great", "fine", "lovely"), ("dull", "poor", "awful"), ("the", "film", "plot", "was")
rng = np.random.default_rng(0)


def review():
    balance = rng.normal()
    chances = np.exp([balance, -balance, 0.5])
    kinds = rng.choice(3, size=7, p=chances / chances.sum())
    words = [rng.choice((GOOD, BAD, NEUTRAL)[kind]) for kind in kinds]
    surplus = (kinds == 0).sum() - (kinds == 1).sum()
    return " ".join(words), int(rng.random() < 1 / (1 + np.exp(-0.6 * surplus)))


texts, labels = zip(*(review() for _ in range(3200)), strict=True)
print(labels[0], texts[0])

# %% [markdown]
# ## Tokenizer, data sets and transformer

# %%
vocabulary = {word: k for k, word in enumerate(("[PAD]", "[UNK]", *GOOD, *BAD, *NEUTRAL))}
words = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]")
encoded = tokenizer(list(texts), padding=True, return_tensors="pt")


def part(where):
    rows = range(*where.indices(len(texts)))
    return [
        {name: encoded[name][k] for name in ("input_ids", "attention_mask")} | {"labels": labels[k]}
        for k in rows
    ]


train, validation, test = part(slice(0, 400)), part(slice(800, 1600)), part(slice(1600, None))

torch.manual_seed(0)
classifier = BertForSequenceClassification(
    BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=96,
        max_position_embeddings=8,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
)

# %% [markdown]
# ## Train, and log calibration
#
# The callback needs two places: `compute_metrics` and `callbacks`.

# %%
calibration = CalibrationCallback()
trainer = Trainer(
    model=classifier,
    args=TrainingArguments(
        tempfile.mkdtemp(),
        num_train_epochs=24,
        learning_rate=3e-3,
        per_device_train_batch_size=50,
        per_device_eval_batch_size=800,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=2,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    ),
    train_dataset=train,
    eval_dataset=validation,
    compute_metrics=calibration.compute_metrics,
    callbacks=[calibration],
)
trainer.train()

# %% [markdown]
# ## New texts
#
# After training, the temperature is fixed. `predict` measures new texts with it.

# %%
found = trainer.predict(test)
for when in ("before", "after"):
    ece, nll = (found.metrics[f"test_calibration/{when}/{name}"] for name in ("ece", "nll"))
    print(f"{when:6} ECE {ece:.3f}, log loss {nll:.3f}")
path = f"{trainer.args.output_dir}/checkpoint-{trainer.state.global_step}/calibrator.safetensors"
calibrator = calibrant.load_calibrator(path)

# %% [markdown]
# ## What the temperature is for
#
# Left: the network memorises its 400 training texts and grows too confident, so the log loss rises again.
# With the temperature of each epoch, much less is lost. Right: the last epoch on new texts. As trained,
# high and low probabilities are too extreme.
#
# `metric_for_best_model="calibration/after/nll"` and `load_best_model_at_end=True` keep the best epoch.

# %%
log = [row for row in trainer.state.log_history if "eval_calibration/temperature" in row]
figure, axes = plt.subplots(1, 2, figsize=(9, 4.5), layout="constrained")
for when in ("before", "after"):
    losses = [row[f"eval_calibration/{when}/nll"] for row in log]
    axes[0].plot([row["epoch"] for row in log], losses, label=f"{when} the temperature")
axes[0].set(xlabel="epoch", ylabel="log loss on validation texts")
axes[0].legend()
logits = torch.tensor(found.predictions)
stages = {"as trained": logits.softmax(dim=1), "with its temperature": calibrator.predict_proba(logits)}
for name, probs in stages.items():
    plots.ReliabilityDisplay.from_predictions(probs, found.label_ids, class_=1, name=name, ax=axes[1])
axes[1].set(xlabel="predicted probability of a good rating", ylabel="share of good ratings")
