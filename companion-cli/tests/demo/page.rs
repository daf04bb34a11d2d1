//! The report in a real browser: what it shows, that it fits on a phone, that it asks the network for nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::Place;

/// Tells how the page came out, by way of the title of the page around it. Only the copy that is tested has a script.
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

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let programs =
        std::env::split_paths(&path).flat_map(|folder| ["chromium", "chromium-browser", "google-chrome"].map(|name| folder.join(name)));
    programs.into_iter().find(|program| program.is_file())
}

#[test]
fn the_report_shows_every_lane_on_a_desktop_and_on_a_phone() {
    let place = Place::new();
    let output = place.demo(&["--quick", "--report", "report.html"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let page = fs::read_to_string(place.path().join("report.html")).unwrap();
    for part in ["503, lost", "200, answered, done twice", "one idle connection held Envoy until SIGKILL", "pilot-agent wait --url"] {
        assert!(page.to_lowercase().contains(&part.to_lowercase()), "{part}");
    }
    assert!(!page.contains("<script") && !page.contains("http://") && !page.contains("https://"), "it needs nothing else");
    let browser = browser().expect("`chromium` is missing; Debian has it in the package chromium");
    let probed = page.replace("</main>", &format!("</main>{PROBE}"));
    for (width, scheme) in [(360, "0"), (360, "1"), (1280, "1")] {
        // In a frame, for the window of a browser is never as narrow as a phone.
        let framed = format!(
            "<!doctype html><title></title><iframe style=\"width:{width}px;height:4000px;border:0\" srcdoc=\"{}\"></iframe>",
            probed.replace('&', "&amp;").replace('"', "&quot;")
        );
        fs::write(place.path().join("framed.html"), framed).unwrap();
        let seen = look(&browser, &place.path().join("framed.html"), place.path(), scheme);
        let width = format!("\"width\":{width},");
        for part in [width.as_str(), r#""overflow":0"#, r#""articles":6"#, r#""thin":0"#, r#""fetched":[]"#] {
            assert!(seen.contains(part), "{part} is not in {seen}");
        }
    }
}

/// The title of the page, after it was drawn. Nothing may be said on its console.
fn look(browser: &Path, page: &Path, home: &Path, scheme: &str) -> String {
    let mut command = Command::new("timeout");
    command.arg("60").arg(browser).args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--enable-logging=stderr",
        "--dump-dom",
    ]);
    command.arg("--window-size=1400,900").arg(format!("--blink-settings=preferredColorScheme={scheme}"));
    command.arg(format!("--user-data-dir={}", home.join("browser").display())).env("HOME", home);
    let output = command.arg(format!("file://{}", page.display())).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("CONSOLE"), "{said}");
    let dom = String::from_utf8_lossy(&output.stdout);
    let title = dom.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
    title.unwrap_or_else(|| panic!("no title: {said}")).0.to_owned()
}
