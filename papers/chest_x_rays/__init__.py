"""Networks on chest X-rays, and public predictions of fourteen findings."""
