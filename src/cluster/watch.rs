//! Decoding of API objects.
