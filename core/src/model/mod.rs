//! Architectures as data, the layer step, the KV cache.
