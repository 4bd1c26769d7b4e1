"""What runs leave on disk and how it is read again: rows, manifests, arrays; written whole, by one writer."""
