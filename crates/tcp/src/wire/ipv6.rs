//! To be written with the wire layer.
