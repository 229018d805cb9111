"""One layer of every letter at each position, of which a step computes one path.

    LVBertSupernet.train_step
      RoutedEncoder.read_slots(route)        encoder.py
        SlotLayout.read                      slots.py: the sampled weights as tensors
      RoutedEncoder.encode(route, slots)
        RoutedLayers.encode                  layers.py: a switch over letters a position
          TracedRoutedLayers                 traced_layers.py: one function, 4 positions
            two_passes                       two_passes.py: forward and gradient apart,
                                             what lies between waits on stacks
      gradients with respect to the slots
      RoutedEncoder.update(route, gradients)
        AdamW.updater                        only the sampled layers change

The route is data all the way, so that one trace serves all paths, under every strategy
and in Keras' `fit`. Where XLA compiles the step (`RoutedEncoder.set_compiled`),
`RoutedLayers` and `SeparateSlots` with fixed shapes do the same without stacks.

A simpler design was measured and costs more: see "Routing" in docs/architecture.md.
"""
