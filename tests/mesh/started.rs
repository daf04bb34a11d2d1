//! A static that the cases of a level share. The first case that needs it starts it.

use tokio::sync::OnceCell;

use kit::prelude::*;

/// A value that is started once and ends with the process. If the start fails, each case fails with
/// the reason.
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
