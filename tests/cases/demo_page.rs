//! The demo's report in a real browser: it shows every lane, fits on a phone, and makes no network
//! request.

use std::fs;
use std::path::Path;

use laststream_local::envoy::NEWEST;

use crate::lab::{Envoys, envoyless_cases};
use kit::prelude::*;
use kit::process::guarded;
use kit::programs::program;
use kit::user::User;

/// Reports the layout of the page as JSON in the title of the page around it. Only the copy that is
/// tested has a script.
const PROBE: &str = r#"<script>
const bars = [...document.querySelectorAll(".bar")].map(bar => bar.getBoundingClientRect());
parent.document.title = JSON.stringify({
    width: innerWidth,
    overflow: document.documentElement.scrollWidth - innerWidth,
    articles: document.querySelectorAll("article").length,
    bars: bars.length,
    thin: bars.filter(bar => bar.width < 2 || bar.height < 5 || bar.right > innerWidth + 1).length,
    fetched: performance.getEntriesByType("resource").map(entry => entry.name),
});
</script>"#;

envoyless_cases! {
    the_report_shows_every_lane_on_a_desktop_and_on_a_phone,
}

fn the_report_shows_every_lane_on_a_desktop_and_on_a_phone() -> Outcome {
    let browser = program("chromium")?;
    let mut user = User::new()?;
    user.set("LASTSTREAM_ENVOY", Envoys::default().get(NEWEST)?);
    user.run(&["demo", "--quick", "--report", "report.html"], "")?.expect(0)?;
    let page = fs::read_to_string(user.path("report.html"))?;
    for part in [
        " s, lost",
        " s, answered, done twice",
        "s, SIGKILL",
        "one idle connection held Envoy",
        "grace period over",
        "pilot-agent wait --url",
    ] {
        ensure!(page.to_lowercase().contains(&part.to_lowercase()), "{part} is not in {page}");
    }
    ensure!(
        !page.contains("<script") && !page.contains("http://") && !page.contains("https://"),
        "the page needs nothing else"
    );
    let probed = page.replace("</main>", &format!("</main>{PROBE}"));
    for (width, scheme) in [(360, "0"), (360, "1"), (1280, "1")] {
        // In a frame, because a browser's window is never as narrow as a phone.
        let framed = format!(
            "<!doctype html><title></title><iframe \
                style=\"width:{width}px;height:4000px;border:0\" srcdoc=\"{}\"></iframe>",
            probed.replace('&', "&amp;").replace('"', "&quot;")
        );
        let framed = user.file("framed.html", framed)?;
        let seen = title_in(&browser, &framed, &user.path("browser"), scheme)?;
        let width = format!("\"width\":{width},");
        for part in
            [width.as_str(), r#""overflow":0"#, r#""articles":8"#, r#""thin":0"#, r#""fetched":[]"#]
        {
            ensure!(seen.contains(part), "{part} is not in {seen}");
        }
    }
    Ok(())
}

/// The title of the page, after it was rendered. A message on its console is an error; without a
/// network, the browser's own pages write some, too.
fn title_in(browser: &Path, page: &Path, home: &Path, scheme: &str) -> Outcome<String> {
    let mut command = guarded("timeout");
    command.arg("60").arg(browser).args(["--headless", "--no-sandbox", "--disable-gpu"]);
    command.args(["--hide-scrollbars", "--enable-logging=stderr", "--dump-dom"]);
    command
        .arg("--window-size=1400,900")
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"));
    command.arg(format!("--user-data-dir={}", home.display())).env("HOME", home);
    let output = kit::command::run(command.arg(format!("file://{}", page.display())))?;
    let is_of_page = |line: &&str| line.contains("CONSOLE") && !line.contains("source: chrome://");
    if let Some(message) = output.stderr.lines().find(is_of_page) {
        bail!("{message}");
    }
    let dom = output.stdout.split_once("<title>").map(|(_, rest)| rest);
    let title = dom.and_then(|rest| rest.split_once("</title>"));
    Ok(title.with_context(|| format!("no title: {output:?}"))?.0.to_owned())
}
