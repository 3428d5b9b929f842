//! Both ends of each command in one process. One binary, a module per topic: it links once.

mod hostile;
mod support;
mod transfer;
