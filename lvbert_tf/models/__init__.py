"""The models: backbone, tokenizer, task models, supernet and ELECTRA pair."""
