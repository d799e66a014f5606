"""Phonechain as a machine-learning backend of Label Studio.

`config` reads a project's labelling interface, `tasks` turns tasks into segments and answers into predictions, `client`
fetches sound and finished tasks. The requests are those of Label Studio's own backend library (label-studio-ml 2).
"""
