"""What lets any worker of a server take any request: shared sessions and streams, on a store. Loaded for servers with one."""
