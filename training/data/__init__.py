"""From files to tf.data: corpora, vocabularies, training records, labelled texts."""
