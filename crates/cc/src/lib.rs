//! Congestion controllers and a pacer behind one small interface.
