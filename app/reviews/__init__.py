"""Reviews: recordings with the model's answer beside the given labels, and a log of what a person changed in them.

`edits` is the arithmetic of operations on segments, `intake` takes files in, `repository` keeps the log, `export` writes
a file back in the format in which it came.
"""
