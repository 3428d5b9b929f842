//! Tasks of one type, whatever they do.

use std::pin::Pin;

/// Work for tokio to carry out.
pub(crate) type Task<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// `work` without its type: what runs a task, ends it and takes its result would be in the program once for each.
pub(crate) fn task<T>(work: impl Future<Output = T> + Send + 'static) -> Task<T> {
    Box::pin(work)
}
