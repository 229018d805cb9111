"""The training application: from raw text to a fine-tuned model.

Run it with ``python -m training COMMAND``; ``python -m training --help`` lists the
commands. It is an application, not a library: nothing outside this folder imports it.
"""
