"""Where batches are computed: here, in processes, by Ray."""
