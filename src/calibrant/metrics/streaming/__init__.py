"""The metrics as classes that see the data batch by batch, on torchmetrics' ``Metric``.

Each is named after its function and, whatever the batches and the processes, has the value of that function
on all samples together, to rounding: sums are float64 and stay so. Imported when first used, with
torchmetrics.
"""
