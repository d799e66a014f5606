"""What outlives a process: the database, its migrations, blobs, the workspace."""
