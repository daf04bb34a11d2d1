//! What the cases of a level share, as a static: the first case that asks starts it.

use tokio::sync::OnceCell;

use kit::prelude::*;

/// Ends with the process. If it cannot be started, each case fails with the reason.
pub(crate) struct Started<W>(OnceCell<Result<W, String>>);

impl<W> Started<W> {
    pub(crate) const fn new() -> Self {
        Self(OnceCell::const_new())
    }

    pub(crate) async fn get(
        &'static self,
        start: impl AsyncFnOnce() -> Outcome<W>,
    ) -> Outcome<&'static W> {
        let started = async || start().await.map_err(|failure| format!("{failure:#}"));
        self.0.get_or_init(started).await.as_ref().map_err(Error::msg)
    }
}
