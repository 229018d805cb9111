"""Fine-tuning on labelled texts."""
