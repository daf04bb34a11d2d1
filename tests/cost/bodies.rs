//! The cost of bodies: a download and an upload of 100 MB through an upstream. Envoy must not call
//! the filter for them, so all variants need about the same number of instructions; it differs only
//! with the sizes of the pieces that the kernel delivers.

use serde::{Deserialize, Serialize};

use crate::bed;
use crate::callgrind::Counted;
use crate::numbers::{self, Spread};
use crate::site::Site;
use crate::variants::{COUNTING, LUA_PORT, NO_FILTER, PORT_CHANGED_WASM, Variant};
use kit::prelude::*;

const VARIANTS: [&str; 4] = [NO_FILTER, LUA_PORT, COUNTING, PORT_CHANGED_WASM];
const ROUNDS: usize = 3;
const BYTES: usize = 100_000_000;
/// The number of bytes that Envoy reads at once.
const CHUNK: f64 = 16384.0;

/// The figures of one variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) title: String,
    /// Instructions for 16 kB.
    pub(crate) download: Spread,
    pub(crate) upload: Spread,
}

pub(crate) async fn measure(site: &Site, variants: &[Variant]) -> Outcome<Vec<Row>> {
    let variants: Vec<Variant> =
        variants.iter().filter(|variant| VARIANTS.contains(&variant.name)).copied().collect();
    say("bodies: 100 MB down and up");
    let upstream = Upstream::start().await?;
    let listeners = variants
        .iter()
        .map(|variant| bed::forwarding(variant.listener(site)?))
        .collect::<Outcome<Vec<Value>>>()?;
    let bootstrap =
        bed::with_listeners(site, &variants, listeners)?.cluster(cluster::h1("app", upstream.h1()));
    let counted = Counted::start(&site.envoy, bootstrap).await?;
    counted.switch_on().await?;
    let mut figures = vec![(Vec::new(), Vec::new()); variants.len()];
    for round in 0..=ROUNDS {
        for (variant, (down, up)) in variants.iter().zip(&mut figures) {
            let mut client = Client::connect(counted.envoy.address(variant.name).await?).await?;
            let download = counted.count(download(&mut client)).await?.busiest;
            let upload = counted.count(upload(&mut client)).await?.busiest;
            if round > 0 {
                down.push(download as f64 / (BYTES as f64 / CHUNK));
                up.push(upload as f64 / (BYTES as f64 / CHUNK));
            }
        }
    }
    let row = |(variant, (down, up)): (&Variant, &(Vec<f64>, Vec<f64>))| Row {
        name: variant.name.into(),
        title: variant.title.into(),
        download: Spread::of(down.iter().copied()),
        upload: Spread::of(up.iter().copied()),
    };
    Ok(variants.iter().zip(&figures).map(row).collect())
}

async fn download(client: &mut Client) -> Outcome {
    client.send(&Request::get(&format!("/bytes/{BYTES}")).bytes()).await?;
    let (response, mut framing) = client.response_head("GET").await?;
    response.expect(200)?;
    let mut seen = 0;
    while let Some(piece) = client.piece(&mut framing).await? {
        seen += piece.len();
    }
    ensure_eq!(seen, BYTES, "bytes");
    Ok(())
}

async fn upload(client: &mut Client) -> Outcome {
    let head = Request::new("POST", "/echo").header("content-length", BYTES.to_string());
    client.send(&head.head_bytes()).await?;
    let piece = vec![b'x'; 1_000_000];
    for _ in 0..BYTES / piece.len() {
        client.send(&piece).await?;
    }
    client.response("POST").await?.expect(200)?;
    Ok(())
}

pub(crate) fn table(rows: &[Row]) -> String {
    let cells =
        |row: &Row| vec![row.title.clone(), row.download.with_spread(0), row.upload.with_spread(0)];
    let titles = "variant | download, instructions per 16 kB | upload";
    numbers::table(titles, rows.iter().map(cells))
}
