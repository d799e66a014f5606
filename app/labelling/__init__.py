"""From a recording and its segmentation to labels: pipeline, batcher, conversion."""
